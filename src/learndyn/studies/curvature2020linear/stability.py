"""The abstract's sentences on K-FAC and on numerical stability, which have no figure of their own.

The abstract says that "layer-restricted approximations of natural gradient, which are widely used
in most second order methods (e.g. K-FAC), can significantly distort the learning trajectory into
highly diverging dynamics that significantly differs from true natural gradient", and that
fractional natural gradient has "superior numerical stability", "which holds true also in
layer-restricted approximations". On a deep linear network K-FAC's factors, second moments of a
layer's inputs and of derivatives by its outputs, make up the layer's block exactly, so that what
NGD-d does, K-FAC does: a theorem. That its paths diverge is read off the imbalance of neighbouring
layers, which true NGD keeps. A rate is called stable where no step raises the loss above twice that
of the start. Exponents in the scale α of small starts are ours.

Starts from which NGD's straight line crosses singular maps are not drawn: it has no finite velocity
there. Sizes, tolerances and what is claimed were written before the first run. After a look at key
77 a first criterion of stability, no rise at all, was given up, since products of first steps may
raise the loss by a hair at any rate that is not far below α, and losses left were cut at what
rounding leaves; after key 0 the error of an exponent was counted in its distance, where it had
widened the tolerance, which wrong data had passed. In a run of the paper preset rates of NGD-d at
depth 4 reached the least that was tried, 10⁻¹⁰ for every rule and start, and that exponent failed:
since then rates are tried in units of the predicted power of α. It failed again, by one start of
50 at which a rate is unstable that is far below its largest stable one, where a bisection of all
rates had ended: since then they are tried from the largest down.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics.matrix_product import product
from learndyn.numerics.precision import in_float64
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.curvature2020linear._model import RULES, linear_system, target_with
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound
from learndyn.theory.deep_linear import map_dynamics

TITLE = "K-FAC, and the stability of full, fractional and layer-restricted corrections"
CORRECTED = ["NGD", "√NGD", "NGD-d", "√NGD-d"]
FRACTIONAL = [("√NGD", "NGD"), ("√NGD-d", "NGD-d")]
RATES = 1e-10, 1e2  # tried from the largest down, in units of the predicted power of α
APART = 10.0  # factor between rates that are tried
BISECTIONS = 11  # of the logarithm of the rate, between the first stable and the one before
UNSTABLE = 2.0  # times the loss of the start, above which a run counts as unstable
ROUNDED = 1e-30  # share of the loss of the start, below which it is rounding
LEVEL = 0.01  # chance of a false alarm in each claim over draws
PROBES = {
    "imbalance": lambda model: jnp.sqrt(
        sum(jnp.sum(c**2) for c in map_dynamics.conserved(model.weights))
    )
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study.

    Attributes:
        target: singular values of the map to be learned; as many as a layer is wide.
        depths: of the networks.
        scales: α, of starts α w with w drawn (Xavier).
        draws: of w.
        time: learning rate × steps, until which flows are followed.
        steps: that must not make the loss too large.
        widths: of the networks on which K-FAC takes a step, from the input on.
        examples: of the data on which it does.
        networks: their number.
        key: seed.
    """

    target: tuple[float, ...] = (1.5, 1.0, 0.7)
    depths: tuple[int, ...] = (3,)
    scales: tuple[float, ...] = (0.001, 0.003, 0.01)
    draws: int = 20
    time: float = 12.0
    steps: int = 50
    widths: tuple[int, ...] = (4, 5, 3, 2)
    examples: int = 12
    networks: int = 10
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(depths=(2, 3, 4), scales=(0.001, 0.002, 0.005, 0.01), draws=50, networks=100),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Flows and steps of each rule from the same starts, and steps of K-FAC beside NGD-d's."""
    jobs = [(depth, rule) for depth in params.depths for rule in CORRECTED]
    drawn = {depth: _drawn(params, depth) for depth in params.depths}
    rows = [_measured(params, rule, drawn[depth]) for depth, rule in cases(jobs, report, end=0.9)]
    axes = {"depth": params.depths, "rule": CORRECTED, "scale": params.scales}
    dims, shape = (*axes, "draw"), (*map(len, axes.values()), params.draws)
    found: dict[str, Any] = {
        name: (dims, np.reshape([row[name] for row in rows], shape)) for name in rows[0]
    }
    seeds = cases([[params.key, 1, i] for i in range(params.networks)], report, begin=0.9)
    both = [_kfac(params, np.random.default_rng(seed)) for seed in seeds]
    for i, name in enumerate(("kfac", "restricted")):
        found[name] = ("network", "weight"), np.array([pair[i] for pair in both])
    found["rounding"] = "network", np.array([pair[2] for pair in both])
    powers = [_power(rule) for rule in CORRECTED]
    coordinates = {name: list(values) for name, values in axes.items()}
    return xr.Dataset(found, coordinates | {"power": ("rule", powers)}, {"steps": params.steps})


def _drawn(params: Params, depth: int) -> tuple[np.ndarray, list[Any]]:
    """A target, and weights at α = 1 from which the straight line to it is never singular.

    The scale of a start multiplies its map and leaves the signs of the line's eigenvalues.
    """
    n, rng = len(params.target), np.random.default_rng([params.key, 0, depth])
    target, weights = target_with(params.target, n, n, params.key), []
    while len(weights) < params.draws:
        one = ld.Xavier().sample(rng, (depth + 1) * (n,), None)
        if not map_dynamics.line_is_singular(np.asarray(product(one)), target):
            weights.append(one)
    return target, weights


def _measured(params: Params, name: str, drawn: tuple[np.ndarray, list[Any]]) -> dict[str, Any]:
    """Growth of the imbalance along flows, largest stable rate and what it leaves of the loss."""
    target, weights = drawn
    starts = [tuple(scale * w for w in one) for scale in params.scales for one in weights]
    widths = [len(target)] * (len(weights[0]) + 1)
    system = linear_system(RULES[name](1.0), target, widths, ld.Xavier())
    begins = [ld.start(system, weights=start) for start in starts]
    times = [0.0, params.time]
    flows = ld.simulate(system, times, starts=begins, method="flow", probes=PROBES)
    path = flows["imbalance"].isel(run=0).transpose("start", "time").values
    exponent = float(map_dynamics.largest_rate_exponent(len(widths) - 1, _power(name)))
    units = np.repeat(np.asarray(params.scales) ** exponent, len(weights))
    rate, left = _largest_rates(system, target, starts, params.steps, units)
    if np.any(rate < RATES[0] * units):
        raise ValueError(f"scales: got {params.scales}, where {name} has no stable rate above "
                         f"{RATES[0]:g} α^{exponent:g}; allowed are others")  # fmt: skip
    return {"growth": path[:, 1] / path[:, 0], "rate": rate, "left": left}


def _power(name: str) -> float:
    return float(getattr(RULES[name](1.0), "power", 0))


@in_float64
def _largest_rates(
    system: ld.System, target: np.ndarray, starts: list[Any], steps: int, units: np.ndarray
) -> Any:
    """The largest stable rate of each start, and the share of the loss left at half of it."""
    rule: Any = system.rule
    velocity = rule.velocity(system.problem, system.network, target)
    loss = system.problem.population_loss(system.network, target)
    assert loss is not None

    def trained(rate, begin):
        def step(_, now):
            weights, worst = now
            moved = jax.tree.map(lambda w, v: w + rate * v, weights, velocity(weights))
            worst = jnp.maximum(worst, loss(moved))
            # What has become unstable stays where it is: no eigenvalues of infinite matrices.
            return jax.tree.map(lambda m, w: jnp.where(worst <= most, m, w), moved, weights), worst

        first = loss(begin)
        most = UNSTABLE * first
        weights, worst = jax.lax.fori_loop(0, steps, step, (begin, first))
        return worst <= most, jnp.maximum(loss(weights) / first, ROUNDED)

    def one(begin, unit):
        stable = lambda log: trained(jnp.exp(log), begin)[0]

        def halve(_, ends):
            middle = ends.mean()
            return jnp.where(stable(middle), ends.at[0].set(middle), ends.at[1].set(middle))

        last, first = jnp.log(jnp.asarray(RATES) * unit)
        down = jnp.log(APART)
        on = lambda log: (log >= last) & ~stable(log)
        low = jax.lax.while_loop(on, lambda log: log - down, first)
        ends = jnp.stack([low, jnp.minimum(low + down, first)])
        low = jax.lax.fori_loop(0, BISECTIONS, halve, ends)[0]
        return jnp.exp(low), trained(jnp.exp(low) / 2, begin)[1]

    stacked = tuple(jnp.stack(layers) for layers in zip(*starts, strict=True))
    return jax.jit(jax.vmap(one))(stacked, jnp.asarray(units))


@in_float64
def _kfac(params: Params, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Steps of K-FAC and of NGD-d at equal rates on drawn data, and what rounding may do."""
    x = rng.standard_normal((params.examples, params.widths[0]))
    data = ld.Dataset(x, rng.standard_normal((params.examples, params.widths[-1])))
    system = ld.System(data, ld.DeepLinear(params.widths), RULES["NGD-d"](1.0))
    weights = system.network.sample(rng, params.widths[:1])
    moved = ld.update(system, weights)
    restricted = [after - before for after, before in zip(moved, weights, strict=True)]
    inputs, outputs = _factors(system.network, weights, x)
    loss = data.population_loss(system.network, ())
    assert loss is not None
    gradient = [np.asarray(g) for g in jax.grad(loss)(weights)]
    inverse = lambda factor: np.linalg.pinv(factor, hermitian=True)
    layers = zip(gradient, inputs, outputs, strict=True)
    kfac = [-inverse(G) @ g @ inverse(A) / len(weights) for g, A, G in layers]
    worst = max(map(_condition, inputs)) * max(map(_condition, outputs))
    flat = lambda layers: np.concatenate([np.ravel(layer) for layer in layers])
    return flat(kfac), flat(restricted), worst * max(params.widths) * np.finfo(float).eps


def _factors(network: Any, weights: Any, x: np.ndarray) -> tuple[list[Any], list[Any]]:
    """K-FAC's: second moments of a layer's inputs, and of derivatives of outputs by its nodes."""
    _, nodes = ld.forward(network, weights, x)
    inputs = [x, *list(nodes.values())[:-1]]
    shifted = lambda taps: ld.forward(network, weights, x, taps)[0].sum(0)
    slopes = jax.jacobian(shifted)(jax.tree.map(jnp.zeros_like, nodes)).values()
    moment = lambda rows: np.asarray(rows.T @ rows / len(x))
    # (outputs, examples, nodes): each output of each example has a derivative of its own.
    return [moment(a) for a in inputs], [moment(s.reshape(-1, s.shape[-1])) for s in slopes]


def _condition(factor: np.ndarray) -> float:
    """Of the part that is not null, as NumPy's pseudo-inverse judges."""
    values = np.linalg.eigvalsh(factor)
    return float(values[-1] / values[values > 1e-15 * len(values) * values[-1]][0])


def draw(data: xr.Dataset) -> Figure:
    """Imbalance, largest rate and loss left against the scale, and K-FAC beside NGD-d."""
    figure, axes = panels(4, size=(4.6, 3.6))
    shown = data.isel(depth=-1)
    labels = {
        "growth": "growth of the layers' imbalance",
        "rate": "largest stable learning rate",
        "left": f"loss left after {data.attrs['steps']} steps at half of it",
    }
    for axis, (name, label) in zip(axes, labels.items(), strict=False):
        _against_scale(axis, shown, name)
        lines = "means" if name == "left" else "predicted exponents"
        axis.set(xlabel="scale α of the start", ylabel=label)
        axis.set_title(f"depth {int(shown['depth'])}; lines: {lines}", fontsize=9)
    legend(axes[2], fontsize=8, loc="center")
    axes[3].plot(data["restricted"].values.ravel(), data["kfac"].values.ravel(), ".", color="C3")
    axes[3].axline((0, 0), slope=1, color="0.6", linewidth=0.8)
    axes[3].set(xlabel="step of NGD-d, all weights", ylabel="step of K-FAC")
    axes[3].set_title("one step of networks on drawn data", fontsize=9)
    return figure


def _against_scale(axis: Axes, data: xr.Dataset, name: str) -> None:
    """Every draw, and the law of its exponent through the geometric mean."""
    for number, rule in enumerate(data["rule"].values):
        values = data[name].sel(rule=rule).transpose("scale", "draw")
        style = {"color": f"C{number}", "linestyle": "none", "markersize": 3, "alpha": 0.35}
        side = 1.06 ** (number - 1.5)  # beside each other, not over each other
        axis.plot(side * data["scale"], values, "o", **style)
        middle = np.exp(xr.ufuncs.log(values).mean("draw"))
        if name == "left":
            axis.plot(side * data["scale"], middle, color=f"C{number}", label=rule)
        else:
            x = data["scale"] / data["scale"].values[0]
            law = middle.values[0] * x ** _expected(data, name).sel(rule=rule)
            axis.plot(data["scale"], law, color=f"C{number}")
    axis.set(xscale="log", yscale="log")


def _expected(data: xr.Dataset, name: str) -> xr.DataArray:
    """The exponents in α, by rule and depth."""
    if name == "rate":
        form = map_dynamics.largest_rate_exponent
        return xr.apply_ufunc(form, data["depth"], data["power"])
    rows = zip(data["rule"].values, data["power"].values, strict=True)
    form = map_dynamics.imbalance_exponent
    return data["power"].copy(data=[form(s, blocks=rule.endswith("-d")) for rule, s in rows])


def check(data: xr.Dataset) -> list[Claim]:
    """K-FAC is layer-restricted, such paths diverge, and fractional corrections are stable."""
    return [
        _is_restricted(data),
        _diverges(data),
        *(_tamer(data, *pair) for pair in FRACTIONAL[1:]),
        *(_stabler(data, *pair) for pair in FRACTIONAL),
        *(_further(data, *pair) for pair in FRACTIONAL),
        *(_exponent(data, "growth", rule) for rule in CORRECTED if rule.endswith("-d")),
        *(_exponent(data, "rate", rule) for rule in CORRECTED),
    ]


def _is_restricted(data: xr.Dataset) -> Claim:
    norm = lambda values: np.sqrt((values**2).sum("weight"))
    distance = norm(data["kfac"] - data["restricted"]) / norm(data["restricted"])
    said = "K-FAC, with factors of a layer's inputs and of derivatives by its outputs, is "
    said += "layer-restricted NGD: largest distance of steps, in units of rounding"
    because = "rounding times the condition numbers of the factors, network by network"
    source = "abstract: approximations as in K-FAC"
    return claim(said, source, kind="theorem").at_most(
        (distance / data["rounding"]).max(), 1.0, because=because
    )


def _limit(values: xr.DataArray, side: int) -> tuple[xr.DataArray, dict[str, Any]]:
    """The farthest upper (side 1) or lower (−1) confidence limit of means over draws."""
    count, rows = values.sizes["draw"], values.isel(draw=0).size
    error = values.std("draw", ddof=1) / np.sqrt(count)
    limit = values.mean("draw") + side * student_bound(count, rows, LEVEL, sides=1) * error
    because = f"Student t over {count} draws and {rows} depths and scales, {LEVEL:.0%} together"
    return limit.max() if side > 0 else limit.min(), {"because": because, "rate": 1 - LEVEL}


def _diverges(data: xr.Dataset) -> Claim:
    """'Highly diverging' read as a factor of ten."""
    growth = xr.ufuncs.log10(data["growth"].sel(rule="NGD-d"))
    said = "layer-restricted NGD distorts the trajectory into highly diverging dynamics: decades "
    said += "by which the imbalance of neighbouring layers grows, lower confidence limit"
    found, ended = _limit(growth, -1)
    ended["because"] += "; 'highly' read as one decade"
    return claim(said, "abstract").at_least(found, 1.0, **ended)


def _tamer(data: xr.Dataset, fractional: str, full: str) -> Claim:
    growth = xr.ufuncs.log(data["growth"])
    said = f"{fractional} distorts less than {full}: logarithm of the ratio of both growths of the "
    said += "imbalance, upper confidence limit"
    found, ended = _limit(growth.sel(rule=fractional) - growth.sel(rule=full), 1)
    return claim(said, "Sec. 1, item 5; Sec. 4; Fig. 1D, E").at_most(found, 0.0, **ended)


def _stabler(data: xr.Dataset, fractional: str, full: str) -> Claim:
    rate = xr.ufuncs.log(data["rate"])
    said = f"{fractional} is stable at larger learning rates than {full}: logarithm of the ratio "
    said += "of the largest, lower confidence limit"
    found, ended = _limit(rate.sel(rule=fractional) - rate.sel(rule=full), -1)
    return claim(said, "abstract: superior numerical stability").at_least(found, 0.0, **ended)


def _further(data: xr.Dataset, fractional: str, full: str) -> Claim:
    left = xr.ufuncs.log(data["left"])
    said = f"{fractional} learns faster than {full} at rates of equal safety: loss left after "
    said += f"{data.attrs['steps']} steps at half the largest stable rate, logarithm of the ratio, "
    said += "upper confidence limit"
    found, ended = _limit(left.sel(rule=fractional) - left.sel(rule=full), 1)
    source = "abstract, of speed and stability"
    return claim(said, source, kind="finding").at_most(found, 0.0, **ended)


def _exponent(data: xr.Dataset, name: str, rule: str) -> Claim:
    """Of the depth whose exponent is farthest from the predicted one, its error included."""
    logs = np.log(data["scale"].values)
    values = xr.ufuncs.log(data[name].sel(rule=rule)).assign_coords(scale=logs)
    slope = values.polyfit("scale", 1)["polyfit_coefficients"].sel(degree=1, drop=True)
    excess = slope - _expected(data, name).sel(rule=rule, drop=True)
    farthest = np.maximum(_limit(excess, 1)[0], -_limit(excess, -1)[0])
    what = {"growth": "the growth of the imbalance", "rate": "the largest stable rate"}[name]
    shown = ", ".join(f"{float(one):.3f}" for one in slope.mean("draw"))
    said = f"{rule}: exponent of {what} in the scale of small starts ({shown}), largest distance "
    said += "from the predicted one within its confidence interval"
    most = 10 * data["scale"].values.max() / np.ptp(logs)
    because = "corrections of the order of the scale, times 10, over the range of its logarithm; "
    because += f"Student t over {slope.sizes['draw']} draws, {LEVEL:.0%} a side"
    source = {"growth": "Eqs. 7, 25", "rate": "S.I.16"}[name]
    found = claim(said, source, kind="finding")
    return found.at_most(farthest, most, because=because, rate=1 - 2 * LEVEL)
