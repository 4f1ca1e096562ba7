"""Fig. S.I.1: update speeds of weights and loss against the scale of the weights.

‖dw/dt‖/√L and −(dL/dt)/L are measured for weights α w, w balanced or random (Xavier). The paper
gives only the 10 draws of the weights, which do not tell shifts of a tenth from none: here there
are 100. The paper preset is wider, with more depths and scales.

Notes: docs/results/curvature2020linear/figS1/notes.md.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis import fit_power_law
from learndyn.networks.solvable.matrix_product import block_condition
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.plotting import panels
from learndyn.runtime.precision import in_float64
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.curvature2020linear._model import POWERS, RULES, linear_system
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound, student_tolerance
from learndyn.theory.deep_linear import map_dynamics

TITLE = "Parameter and loss update speeds against the scale of the weights"
DIFFERS = (
    "100 draws instead of 10; width, depths and scales are not stated, here 12, 2 to 5, and 0.03 "
    "to 1"
)
SMALL = 0.2  # scales up to which slopes are fitted: there the target dominates Δ
STILL = math.log(1.1)  # a shift by a tenth
FLAT = 0.1  # slopes below it belong to zero powers of the scale, which are exact
EQUATIONS = {"speed": "S.I.16", "loss_rate": "S.I.17"}
ROOTS = ["√NGD", "√NGD-d"]
ROUNDING = 1e-12  # of products and eigenvalues of a few well-conditioned 6 × 6 matrices
CLAIMS = {
    "exact": claim("balanced weights follow the closed form of {quantity}, all rules", "{equation}",
                   within=Tolerance(ROUNDING, "exact for w_i = α O_i; rounding")),
    "slopes": claim("random weights have the exponents of balanced ones in {quantity}: largest "
                    "deviation of a mean slope, in standard errors", "Fig. S.I.1, {equation}"),
    "zero": claim("zero-power law, exact for random weights too: {law}; largest relative "
                  "deviation, in units of rounding × condition number", "S.I. section 3",
                  kind="theorem",
                  because="rounding times the condition number of the blocks, per draw"),
    "further": claim("NGD-d moves the weights further than NGD: smallest ratio of ‖dw/dt‖",
                     "Fig. S.I.1, footnote 7", kind="theorem",
                     because="NGD is the shortest update with that map velocity; rounding"),
    "shift": claim("random weights shift curves of {quantity} under corrected rules to the right: "
                   "log(shift in α) of the curve with the smallest, mean over draws (mean shifts "
                   "are factors of {least:.2f} to {most:.2f})", "Fig. S.I.1"),
    "still": claim("random weights do not shift SGD's curves of {quantity}: log(shift in α) of the "
                   "curve with the largest, mean over draws", "Fig. S.I.1", kind="finding",
                   because="'not' is read as less than a tenth"),
    "slower": claim("√NGD-d lowers the loss more slowly than √NGD at depth {depth}: mean ratio of "
                    "loss rates", "Fig. S.I.1")
    .erratum("sNGD-d exhibits identical match with sNGD for both parameter and loss update"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure."""

    width: int = 6
    depths: tuple[int, ...] = (2, 3, 5)
    lowest: float = 0.03
    highest: float = 1.0
    scales: int = 10
    draws: int = 100
    key: int = 1


PRESETS = {"quick": Params(), "paper": Params(width=12, depths=(2, 3, 4, 5), scales=25)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """‖dw/dt‖/√L and −(dL/dt)/L of square networks α w, w balanced or random."""
    scales = np.geomspace(params.lowest, params.highest, params.scales)
    drawn = {depth: _draw(params, depth) for depth in params.depths}
    jobs = [(make(1.0), *drawn[depth]) for depth in params.depths for make in RULES.values()]
    speeds = [_speeds(rule, scales, *start) for rule, *start in cases(jobs, report)]
    shape = (len(params.depths), len(RULES), 2, params.draws, len(scales), 2)
    values, dims = np.reshape(speeds, shape), ("depth", "rule", "start", "draw", "scale")
    conditions = [[block_condition(start) for start in starts] for starts, _ in drawn.values()]
    conditions = np.reshape(conditions, (len(params.depths), 2, params.draws))
    table = {
        "speed": (dims, values[..., 0], {"long_name": "‖dw/dt‖ / √L"}),
        "loss_rate": (dims, values[..., 1], {"long_name": "−(dL/dt) / L"}),
        "condition": (("depth", "start", "draw"), conditions),
    }
    coordinates = {
        "depth": list(params.depths),
        "rule": list(RULES),
        "start": ["balanced", "random"],
        "scale": scales,
        "power": ("rule", list(POWERS.values())),
    }
    return xr.Dataset(table, coordinates, {"width": params.width})


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


def _slope(values: xr.DataArray) -> xr.DataArray:
    fit = lambda y: fit_power_law(values["scale"].values, y).slope
    return xr.apply_ufunc(fit, values, input_core_dims=[["scale"]], vectorize=True)


def check(data: xr.Dataset) -> list[Claim]:
    """Exact for balanced weights, the same slopes for random ones; two exact zero powers."""
    drawn, rows = data.sel(start="random"), []
    for name, equation in EQUATIONS.items():
        ratio = data[name].sel(start="balanced") / _predicted(data, name)
        exact = CLAIMS["exact"].format(quantity=data[name].long_name, equation=equation)
        rows.append(exact.equals(abs(ratio - 1).max(), 0.0))
    return [
        *rows,
        *(_slopes(data, name) for name in EQUATIONS),
        *_zero_powers(drawn),
        *(row for name in EQUATIONS for row in _shifts(data, name)),
        *_root_with_blocks(drawn["loss_rate"]),
    ]


def _slopes(data: xr.Dataset, name: str) -> Claim:
    """Exponents of random weights; Δ adds what is odd in the target's sign, of mean zero."""
    small = data.sel(scale=data["scale"] <= SMALL)
    measured, closed = _slope(small[name].sel(start="random")), _slope(_predicted(small, name))
    count = measured.sizes["draw"]
    distance = abs(measured.mean("draw") - closed) / measured.std("draw", ddof=1) * np.sqrt(count)
    distance = distance.where(abs(closed) > FLAT)
    entries = int(distance.notnull().sum())
    sentence = CLAIMS["slopes"].format(quantity=data[name].long_name, equation=EQUATIONS[name])
    within = student_tolerance(0.0, count, "draws", entries=entries)
    return sentence.at_most(distance.max(), student_bound(count, entries), within)


def _zero_powers(drawn: xr.Dataset) -> list[Claim]:
    """What does not depend on the scale; and the block-wise rule, which moves further."""
    speed, rate = drawn["speed"], drawn["loss_rate"]
    rounding = drawn["condition"] * np.finfo(float).eps * drawn.attrs["width"]
    excess = (speed.sel(rule="NGD-d") / speed.sel(rule="NGD")).min()
    ratios = {
        "the speed ‖dw/dt‖/√L of √NGD and √NGD-d is √2": speed.sel(rule=ROOTS) / np.sqrt(2),
        "the loss rate of NGD and NGD-d is −2": rate.sel(rule=["NGD", "NGD-d"]) / 2,
    }
    exact = [
        CLAIMS["zero"].format(law=law).at_most((abs(ratio - 1) / rounding).max(), 1.0)
        for law, ratio in ratios.items()
    ]
    return [*exact, CLAIMS["further"].at_least(excess, 1.0, float(rounding.max()))]


def _shifts(data: xr.Dataset, name: str) -> list[Claim]:
    """How far right of the balanced curve that of random weights lies, at the lowest scale."""
    closed = _predicted(data, name)
    slope = _slope(closed)
    ratio = (data[name].sel(start="random") / closed).isel(scale=0, drop=True)
    shift = (-xr.ufuncs.log(ratio) / slope).where(abs(slope) > FLAT)
    corrected = shift.sel(rule=[rule for rule, power in POWERS.items() if power])
    curves = corrected.stack(curve=("rule", "depth")).dropna("curve", how="all")
    mean = curves.mean("draw")
    least, most = np.exp(float(mean.min())), np.exp(float(mean.max()))
    fields = {"quantity": data[name].long_name, "least": least, "most": most}
    of = lambda values, which: intervals.of_mean(values, "draws", over="draw", which=which)
    plain = shift.sel(rule="SGD", drop=True)
    return [
        CLAIMS["shift"].format(**fields).at_least(of(curves, "least"), 0.0),
        CLAIMS["still"].format(**fields).at_most(of(plain, "farthest"), STILL),
    ]


def _root_with_blocks(rate: xr.DataArray) -> list[Claim]:
    """√NGD-d has √NGD's speed, which the zero-power law covers, but not its loss rate."""
    ratio = (rate.sel(rule="√NGD-d") / rate.sel(rule="√NGD")).isel(scale=0)  # one per draw
    mean = lambda depth: intervals.of_mean(ratio.sel(depth=depth), "draws", over="draw")
    return [
        CLAIMS["slower"].format(depth=depth).at_most(mean(depth), 1.0)
        for depth in ratio["depth"].values
    ]
