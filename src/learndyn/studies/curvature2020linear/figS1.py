"""Fig. S.I.1: update speeds against the scale of the weights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis import fit_power_law
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.numerics.matrix_product import block_condition
from learndyn.numerics.precision import in_float64
from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.curvature2020linear._model import RULES, linear_system
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound
from learndyn.theory.deep_linear import map_dynamics

TITLE = "Parameter and loss update speeds against the scale of the weights"
LEVEL = 0.01  # chance of a false alarm, over all slopes together
SMALL = 0.2  # scales up to which slopes are fitted: there the target dominates Δ
FLAT = 0.1  # slopes below it are those of zero-power laws, which are exact
EQUATIONS = {"speed": "S.I.16", "loss_rate": "S.I.17"}
ROOTS = ["√NGD", "√NGD-d"]
ROUNDING = 1e-12  # of products and eigenvalues of a few well-conditioned 6 × 6 matrices


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure; the paper gives only the 10 draws of the weights."""

    width: int = 6
    depths: tuple[int, ...] = (2, 3, 5)
    lowest: float = 0.03
    highest: float = 1.0
    scales: int = 10
    draws: int = 10
    key: int = 1


PRESETS = {"quick": Params(), "paper": Params(width=12, depths=(2, 3, 4, 5), scales=25)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """‖dw/dt‖/√L and −(dL/dt)/L of square networks α w, w balanced or drawn (Xavier)."""
    scales = np.geomspace(params.lowest, params.highest, params.scales)
    drawn = {depth: _draw(params, depth) for depth in params.depths}
    jobs = [(make(1.0), *drawn[depth]) for depth in params.depths for make in RULES.values()]
    found = [_speeds(rule, scales, *start) for rule, *start in cases(jobs, report)]
    shape = (len(params.depths), len(RULES), 2, params.draws, len(scales), 2)
    values, dims = np.reshape(found, shape), ("depth", "rule", "start", "draw", "scale")
    conditions = [[block_condition(start) for start in starts] for starts, _ in drawn.values()]
    conditions = np.reshape(conditions, (len(params.depths), 2, params.draws))
    return xr.Dataset(
        {
            "speed": (dims, values[..., 0], {"long_name": "‖dw/dt‖ / √L"}),
            "loss_rate": (dims, values[..., 1], {"long_name": "−(dL/dt) / L"}),
            "condition": (("depth", "start", "draw"), conditions),
        },
        {
            "depth": list(params.depths),
            "rule": list(RULES),
            "start": ["balanced", "random"],
            "scale": scales,
            "power": ("rule", [float(getattr(make(1.0), "power", 0)) for make in RULES.values()]),
        },
        {"width": params.width},
    )


def draw(data: xr.Dataset) -> Figure:
    """Both speeds at the smallest and the largest depth: random weights over closed forms.

    Points are means of logarithms, bars their standard deviation: NGD-d varies by decades.
    """
    figure, axes = panels(4)
    depths = data["depth"].values[[0, -1]]
    rows = [(name, depth) for name in ("speed", "loss_rate") for depth in depths]
    for axis, (name, depth) in zip(axes, rows, strict=True):
        for number, rule in enumerate(data["rule"].values):
            values = data[name].sel(depth=depth, rule=rule, start="random")
            style = {"color": f"C{number}", "markersize": 3, "linewidth": 1, "capsize": 2}
            style |= {"linestyle": "none", "mfc": "none" if rule.endswith("-d") else f"C{number}"}
            logs = xr.ufuncs.log(values)
            mean, spread = logs.mean("draw"), logs.std("draw", ddof=1)
            middle = np.exp(mean)
            bars = [middle - np.exp(mean - spread), np.exp(mean + spread) - middle]
            axis.errorbar(data["scale"], middle, bars, fmt="o", **style, label=rule)
            if not rule.endswith("-d"):
                closed = _predicted(data, name).sel(depth=depth, rule=rule)
                axis.plot(data["scale"], closed, ":", color=f"C{number}")
        axis.set(xscale="log", yscale="log", xlabel="scale α of the weights")
        axis.set(ylabel=data[name].attrs["long_name"], title=f"depth {depth}")
    axes[0].plot([], [], ":", color="0.3", label="balanced (S.I.16, 17)")
    # Above the panels: bars of NGD-d reach over decades, and leave no room inside.
    above = {"loc": "outside upper center", "ncols": 6, "fontsize": 8, "frameon": False}
    figure.legend(*axes[0].get_legend_handles_labels(), **above)
    return figure


def _draw(params: Params, depth: int) -> tuple[list[tuple[np.ndarray, ...]], list[np.ndarray]]:
    """Balanced starts, then random ones, with their targets."""
    rng = np.random.default_rng([params.key, depth])
    n = params.width
    drawn = [ld.Xavier().sample(rng, (n,) * (depth + 1), None) for _ in range(params.draws)]
    targets = [rng.standard_normal((n, n)) / np.sqrt(n) for _ in drawn]
    balanced = [tuple(orthonormal_rows(w) for w in weights) for weights in drawn]
    return balanced + drawn, targets + targets


@in_float64
def _speeds(rule, scales, starts, targets):
    """(starts, scales, 2): the normalised speeds of weights and loss."""
    widths = [w.shape[1] for w in starts[0]] + [len(targets[0])]
    system = linear_system(rule, targets[0], widths, ld.Xavier())

    def measure(scale, start, target):
        weights = tuple(scale * w for w in start)
        velocity = rule.velocity(system.problem, system.network, target)(weights)
        of_weights = system.problem.population_loss(system.network, target)
        assert of_weights is not None
        loss, change = jax.jvp(of_weights, (weights,), (velocity,))
        length = jnp.sqrt(sum(jnp.sum(v**2) for v in velocity))
        return jnp.stack([length / jnp.sqrt(loss), -change / loss])

    stacked = tuple(jnp.stack(layers) for layers in zip(*starts, strict=True))
    every = jax.vmap(jax.vmap(measure, (0, None, None)), (None, 0, 0))
    return jax.jit(every)(scales, stacked, jnp.stack(targets))


def _predicted(data: xr.Dataset, name: str) -> xr.DataArray:
    form = {"speed": map_dynamics.update_speed, "loss_rate": map_dynamics.loss_rate}[name]
    return abs(xr.apply_ufunc(form, data["scale"], data["depth"], data["power"]))


def check(data: xr.Dataset) -> list[Claim]:
    """Exact for balanced weights, the same slopes for random ones; two exact zero laws."""
    return [
        *(_exact(data, name) for name in EQUATIONS),
        *(_slopes(data, name) for name in EQUATIONS),
        *_zero_powers(data),
        *(_shift(data, name) for name in EQUATIONS),
        *_root_with_blocks(data["loss_rate"].sel(start="random")),
    ]


def _exact(data: xr.Dataset, name: str) -> Claim:
    found = data[name].sel(start="balanced") / _predicted(data, name)
    said = f"balanced weights follow the closed form of {data[name].long_name}, all rules"
    return claim(said, EQUATIONS[name]).equals(
        abs(found - 1).max(), 0.0, within=ROUNDING, because="exact for w_i = α O_i; rounding"
    )


def _slopes(data: xr.Dataset, name: str) -> Claim:
    """Exponents of drawn weights; Δ adds what is odd in the target's sign, of mean zero."""
    small = data.sel(scale=data["scale"] <= SMALL)
    found, closed = _slope(small[name].sel(start="random")), _slope(_predicted(small, name))
    count = found.sizes["draw"]
    distance = abs(found.mean("draw") - closed) / found.std("draw", ddof=1) * np.sqrt(count)
    distance = distance.where(abs(closed) > FLAT)
    slopes = int(distance.notnull().sum())
    said = f"random weights have the exponents of balanced ones in {data[name].long_name}: "
    said += "largest deviation of a mean slope, in standard errors"
    return claim(said, f"Fig. S.I.1, {EQUATIONS[name]}").at_most(
        distance.max(), student_bound(count, slopes, LEVEL), rate=1 - LEVEL,
        because=f"Student t, {count} draws, {slopes} slopes, {LEVEL:.0%} together",
    )  # fmt: skip


def _slope(values: xr.DataArray) -> xr.DataArray:
    fit = lambda y: fit_power_law(values["scale"].values, y).slope
    return xr.apply_ufunc(fit, values, input_core_dims=[["scale"]], vectorize=True)


def _zero_powers(data: xr.Dataset) -> list[Claim]:
    """Laws that do not know the scale; and the block-wise rule, which moves further."""
    drawn = data.sel(start="random")
    speed, rate = drawn["speed"], drawn["loss_rate"]
    rounding = drawn["condition"] * np.finfo(float).eps * data.attrs["width"]
    excess = (speed.sel(rule="NGD-d") / speed.sel(rule="NGD")).min()
    laws = {
        "the speed ‖dw/dt‖/√L of √NGD and √NGD-d is √2": speed.sel(rule=ROOTS) / np.sqrt(2),
        "the loss rate of NGD and NGD-d is −2": rate.sel(rule=["NGD", "NGD-d"]) / 2,
    }
    said = lambda text: f"zero-power law, exact for random weights too: {text}; largest relative "
    unit = "deviation, in units of rounding × condition number"
    because = "rounding times the condition number of the blocks, draw by draw"
    further = "NGD-d moves the weights further than NGD: smallest ratio of ‖dw/dt‖"
    return [
        *(
            claim(said(text) + unit, "S.I. section 3").at_most(
                (abs(ratio - 1) / rounding).max(), 1.0, because=because
            )
            for text, ratio in laws.items()
        ),
        claim(further, "Fig. S.I.1, footnote 7").at_least(
            excess, 1.0, within=rounding.max(),
            because="NGD is the shortest update with that map velocity; rounding",
        ),
    ]  # fmt: skip


def _shift(data: xr.Dataset, name: str) -> Claim:
    """How far right of the balanced curve that of random weights lies, at the lowest scale."""
    closed = _predicted(data, name)
    slope = _slope(closed)
    ratio = (data[name].sel(start="random") / closed).isel(scale=0, drop=True)
    shift = (-xr.ufuncs.log(ratio) / slope).where(abs(slope) > FLAT)
    count, curves = shift.sizes["draw"], int(shift.isel(draw=0).notnull().sum())
    mean, error = shift.mean("draw"), shift.std("draw", ddof=1) / np.sqrt(count)
    upper = mean + error * student_bound(count, curves, LEVEL, sides=1)
    said = f"random weights shift curves of {data[name].long_name} to the right, or SGD's "
    said += "not at all: upper confidence limit of log(shift in α) of the curve with the smallest "
    least, most = np.exp(float(mean.min())), np.exp(float(mean.max()))
    said += f"(mean shifts are factors of {least:.2f} to {most:.2f})"
    return claim(said, "Fig. S.I.1").at_least(
        upper.min(), 0.0, rate=1 - LEVEL,
        because=f"Student t, {count} draws, {curves} curves, {LEVEL:.0%} together",
    )  # fmt: skip


def _root_with_blocks(rate: xr.DataArray) -> list[Claim]:
    """√NGD-d has √NGD's speed, which the zero-power law covers, but not its loss rate."""
    ratio = (rate.sel(rule="√NGD-d") / rate.sel(rule="√NGD")).isel(scale=0)  # one number a draw
    count, depths, mean = ratio.sizes["draw"], ratio["depth"].values, ratio.mean("draw")
    half = student_bound(count, len(depths), LEVEL, sides=1) * ratio.std("draw", ddof=1)
    upper = mean + half / np.sqrt(count)
    because = f"Student t, {count} draws, {LEVEL:.0%} over all depths"
    printed = "sNGD-d exhibits identical match with sNGD for both parameter and loss update"
    name = lambda depth: f"√NGD-d lowers the loss more slowly than √NGD at depth {depth}"
    found = lambda depth: f"mean ratio of loss rates {float(mean.sel(depth=depth)):.3f}"
    said = lambda depth: f"{name(depth)}: {found(depth)}, "
    return [
        claim(f"{said(depth)}with its upper confidence limit", "Fig. S.I.1", name=name(depth))
        .erratum(printed)
        .at_most(upper.sel(depth=depth), 1.0, because=because, rate=1 - LEVEL)
        for depth in depths
    ]
