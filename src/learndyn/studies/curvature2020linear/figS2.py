"""Fig. S.I.2: weights and conserved quantities of a network of three layers.

The figure's weights and target are not given, so many are drawn. Under NGD and NGD-d the map moves
on the straight line to the target; where that line crosses singular maps, there is no finite
velocity. Such draws are left out before anything is integrated, and their number is given; a flow
that ends early among the others has diverged, and is counted. The quick preset has fewer networks,
draws and points.

Notes: docs/results/curvature2020linear/figS2/notes.md.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.networks.solvable.matrix_product import block_condition, map_kernel, product
from learndyn.plotting import legend, panels
from learndyn.runtime.precision import in_float64
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.curvature2020linear._model import RULES, linear_system, target_with
from learndyn.studies.registry import Report, cases
from learndyn.theory.deep_linear.map_dynamics import conserved, line_is_singular

TITLE = "Weights and conserved quantities of a three-layer network"
DIFFERS = (
    "3 layers of width 2 as in the paper; weights and target are not stated, here 400 drawn "
    "networks; 200 draws of widths 2-3-5 are added"
)
CONSERVE, VIOLATE = ["SGD", "NGD", "√NGD"], ["NGD-d", "√NGD-d"]
# The flow is integrated to 1e-10 a step, relative to the weights; a few hundred steps.
INTEGRATED = 1e-7
CHANGE = "change of w_i w_iᵀ − w_(i+1)ᵀ w_(i+1), relative to the largest squared weight"
EXPONENTIAL = "largest ‖dΔ/dt + ηΔ‖/‖Δ‖ in units of rounding, widths {widths}"
CONDITION = "rounding times the condition number of what is inverted, per draw"
CLAIMS = {
    "conserves": claim(f"{{rule}} conserves: largest {CHANGE}", "Theorem 1, S.I. section 4",
                       within=Tolerance(INTEGRATED, "tolerance of the flow")),
    "NGD-d": claim(f"NGD-d does not conserve: median {CHANGE}, over that of rules that do",
                   "S.I. section 4", because="more than under any rule that conserves"),
    "√NGD-d": claim(f"√NGD-d does not conserve: median {CHANGE}, over that of rules that do",
                    "S.I. section 4", because="more than under any rule that conserves")
    .erratum("√NGD also violates the conservation law"),
    "balanced": claim("under √NGD-d weights stay more balanced than under NGD-d: fraction of "
                      "networks whose conserved quantities change less", "S.I. section 4",
                      because="in most networks"),
    "ended": claim("flows of all rules, on lines without singular maps, that end early: fraction "
                   "({crosses} of {networks} networks cross singular maps and are left out)",
                   "Eqs. 9, 23", kind="theorem",
                   within=Tolerance(0.0, "velocities are finite there")),
    "NGD exponential": claim(f"NGD learns exponentially, dΔ/dt = −ηΔ: {EXPONENTIAL}", "Eq. 9",
                             kind="theorem", because=CONDITION),
    "NGD-d exponential": claim("NGD-d does too if no width is below max(N_in, N_out): "
                               f"{EXPONENTIAL}", "Eq. 23", kind="theorem", because=CONDITION),
    "narrow": claim("NGD-d does not learn exponentially if a width is below max(N_in, N_out): "
                    "smallest ‖dΔ/dt + ηΔ‖/‖Δ‖, widths {widths}", "Eq. 23",
                    because="more than rounding")
    .erratum("Eq. 23 satisfies the NGD constraint (9) if Σ η_i = η"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study: `networks` flows of every rule, `draws` velocities of narrow networks."""

    width: int = 2
    layers: int = 3
    target: tuple[float, ...] = (1.5, 0.8)
    scale: float = 0.7
    time: float = 6.0
    points: int = 61
    networks: int = 80
    narrow: tuple[int, ...] = (2, 3, 5)
    draws: int = 20
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(points=241, networks=400, draws=200)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow of every rule from many starts, and one velocity of narrow networks."""
    begins = [_begin(params, params.key * params.networks + i) for i in range(params.networks)]
    maps = [(np.asarray(product(start.weights)), start.teacher) for _, start in begins]
    crosses = np.array([line_is_singular(*pair) for pair in maps])
    kept = [begin for begin, out in zip(begins, crosses, strict=True) if not out]
    rows = [_followed(params, make(1.0), kept) for make in cases(list(RULES.values()), report)]
    data = xr.concat(rows, xr.Variable("rule", list(RULES)))
    data["crosses"] = "network", crosses
    wide = (max(params.narrow),) * len(params.narrow)
    shapes = {"as given": params.narrow, "none narrow": wide}
    natural = ["NGD", "NGD-d"]
    left = np.array(
        [[_left_over(params, rule, widths) for rule in natural]
         for widths in shapes.values()]
    )  # fmt: skip
    for i, name in enumerate(("left_over", "rounding")):
        data[name] = (("shape", "natural", "draw"), left[..., i])
    data = data.assign_coords(shape=list(shapes), natural=natural)
    return data.assign_attrs(narrow=list(params.narrow))


def _begin(params: Params, key: int) -> tuple[np.ndarray, ld.Start]:
    """A target and a start."""
    target = target_with(params.target, params.width, params.width, key)
    return target, ld.start(_system(params, ld.GradientDescent(1.0), target), key=key)


def _system(params: Params, rule: Any, target: np.ndarray) -> ld.System:
    widths = [params.width] * (params.layers + 1)
    return linear_system(rule, target, widths, ld.Xavier(params.scale))


def _followed(params: Params, rule: Any, begins: list[tuple[np.ndarray, ld.Start]]) -> xr.Dataset:
    """All weights and conserved quantities along a rule's first flow; of the others the drift."""
    times = np.linspace(0, params.time, params.points)
    probes = {
        "weights": lambda model: jnp.stack(model.weights),
        "conserved": lambda model: jnp.stack(conserved(model.weights)),
    }
    drifts, ratios, diverged, first = [], [], [], None
    for target, start in begins:
        system = _system(params, rule, target)
        flow = ld.simulate(system, times, start=start, method="flow", probes=probes).isel(run=0)
        first = flow if first is None else first
        # The largest change of an entry, per squared weight; NaN if the flow ended early.
        change = abs(flow["conserved"] - flow["conserved"].isel(time=0)).max(skipna=False)
        drifts.append(float(change / (flow["weights"].isel(time=0) ** 2).max()))
        layers = (flow["weights"].isel(time=-1) ** 2).sum(("weights_1", "weights_2"))
        ratios.append(float(layers.max() / layers.min()))
        diverged.append(str(flow["outcome"].values) != "finished")
    assert first is not None
    names = {"weights": ("layer", "row", "column"), "conserved": ("pair", "row", "column")}
    shown = {n: (("time", *dims), first[n].values) for n, dims in names.items()}
    per_start = {"drift": drifts, "layer_ratio": ratios, "diverged": diverged}
    return xr.Dataset(shown | {n: ("start", v) for n, v in per_start.items()}, {"time": times})


@in_float64
def _left_over(params: Params, name: str, widths: tuple[int, ...]) -> list[tuple[float, float]]:
    """‖dΔ/dt + ηΔ‖/‖Δ‖ of random networks, and what rounding alone may make of it."""
    rule, blocks = RULES[name](1.0), name.endswith("-d")

    @jax.jit
    def motion(weights, target):
        velocity = rule.velocity(system.problem, system.network, target)(weights)
        return jax.jvp(product, (weights,), (velocity,))

    def one(rng: np.random.Generator) -> tuple[float, float]:
        target = rng.standard_normal(shape)
        weights = system.network.sample(rng, widths[:1])
        map_, change = motion(weights, target)
        left = np.linalg.norm(change + map_ - target) / np.linalg.norm(map_ - target)
        # NGD inverts the kernel of the whole map, NGD-d a block for each layer.
        worst = block_condition(weights) if blocks else np.linalg.cond(map_kernel(weights))
        return float(left), float(worst * np.prod(shape) * np.finfo(float).eps)

    shape = (widths[-1], widths[0])
    system = linear_system(rule, np.zeros(shape), widths, ld.Xavier())
    return [one(np.random.default_rng([params.key, i])) for i in range(params.draws)]


def draw(data: xr.Dataset) -> Figure:
    """One row per rule: entries of the weights, and beside them what SGD, NGD and √NGD conserve."""
    rules = data["rule"].values
    figure, axes = panels(2 * len(rules), columns=2, size=(3.4, 1.9))
    labels = {
        "weights": "entries of $w_1$, $w_2$, $w_3$",
        "conserved": "$w_i w_i^T - w_{i+1}^T w_{i+1}$",
    }
    for number, rule in enumerate(rules):
        for axis, (name, label) in zip(axes[2 * number :], labels.items(), strict=False):
            values = data[name].sel(rule=rule)
            for group in range(values.shape[1]):
                entries = values.values[:, group].reshape(len(data["time"]), -1)
                axis.plot(data["time"], entries, color=f"C{group}", linewidth=1.2)
            axis.set(xlabel="time [learning rate × steps]", ylabel=label, title=rule)
    names = {"weights": "$w_{}$", "conserved": "$i$ = {}"}
    for axis, (name, form) in zip(axes[:2], names.items(), strict=True):
        groups = range(data[name].shape[2])
        styles = {form.format(k + 1): {"color": f"C{k}"} for k in groups}
        legend(axis, styles, fontsize=7, ncols=len(styles), columnspacing=0.8, handlelength=1.2)
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.2 * (high - low))  # room for the legend
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Conserved without blocks, not with them; and where blocks still learn exponentially."""
    drift, crosses = data["drift"], data["crosses"].values
    kept = float(drift.sel(rule=CONSERVE).max())
    complete = drift.dropna("start")
    lower = complete.sel(rule="√NGD-d") < complete.sel(rule="NGD-d")
    ended = CLAIMS["ended"].format(crosses=crosses.sum(), networks=len(crosses))
    widths = "-".join(str(int(n)) for n in data.attrs["narrow"])
    excess = (data["left_over"] / data["rounding"]).max("draw")
    natural, equal = (
        CLAIMS[f"{rule} exponential"].format(widths=shown)
        for rule, shown in (("NGD", widths), ("NGD-d", "all equal"))
    )
    narrow = data.sel(shape="as given", natural="NGD-d")
    return [
        *(
            CLAIMS["conserves"].format(rule=rule).equals(drift.sel(rule=rule).max(), 0.0)
            for rule in CONSERVE
        ),
        *(CLAIMS[rule].at_least(drift.sel(rule=rule).median() / kept, 1.0) for rule in VIOLATE),
        CLAIMS["balanced"].at_least(intervals.of_share(lower, "networks"), 0.5),
        ended.equals(data["diverged"].mean(), 0.0),
        natural.at_most(excess.sel(shape="as given", natural="NGD"), 1.0),
        equal.at_most(excess.sel(shape="none narrow", natural="NGD-d"), 1.0),
        CLAIMS["narrow"]
        .format(widths=widths)
        .at_least(narrow["left_over"].min(), narrow["rounding"].max()),
    ]
