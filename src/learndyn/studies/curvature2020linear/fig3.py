"""Fig. 3: generalisation of a deep linear network that learns a noisy teacher of low rank.

Five rules train the same networks on the same data. Measured are training and test losses, the
strengths of the modes and the norms of the layers. Test losses are in units of the loss of a
network that answers zero; time is learning rate × steps. The order of the rules is judged over many
draws of data and start. A run has overfitted where its training loss is below `CONVERGED` of the
first; that its test loss is then that of the least-squares map is a theorem.

The paper does not say what its signal-to-noise ratio compares, nor the teacher's singular values,
the clipping and the time steps: they are parameters, of which the quick preset has one reading. It
also has networks and data of half the paper's size, starts of four times the paper's (from which
SGD learns 16 times faster) and larger steps.

Notes: docs/results/curvature2020linear/fig3/notes.md.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.networks.solvable.matrix_product import product
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.curvature2020linear._model import RULES
from learndyn.studies.curvature2020linear._noisy_teacher import half_times, levels, noisy_data
from learndyn.studies.registry import Report, cases
from learndyn.theory.deep_linear import generalisation, map_dynamics

TITLE = "Generalisation under curvature-corrected rules (rank-3 teacher, d = 4)"
DIFFERS = (
    "sizes are the paper's; the teacher's singular values, clipping and steps are not stated "
    "and were chosen; 20 draws, two spectra, two readings of SNR = 10"
)
CONVERGED = 1e-3  # of the training loss at the start, below which a run has overfitted
ROOTS, NATURAL = ["√NGD", "√NGD-d"], ["NGD", "NGD-d"]
PAIRED = "each draw is seen by all rules"
# Traced, and the same objects in every run: a rule is compiled once for all draws.
PROBES = {
    "whole": lambda model: product(model.weights),
    "norms": lambda model: jnp.stack([jnp.sum(layer**2) for layer in model.weights]),
}
ORDER = {
    "worse": "NGD and NGD-d generalise worse than SGD, √NGD and √NGD-d: largest best test loss of "
             "the latter over the smallest of the former, logarithm ({losses})",
    "comparable": "√NGD and √NGD-d reach a test loss comparable to that of SGD: excess over half "
                  "of the way to NGD's, in logarithms",
    "early": "√NGD and √NGD-d stop about as early as NGD: excess over half of the way to SGD's "
             "time, in logarithms ({times})",
}  # fmt: skip
CLAIMS = {
    **{key: claim(f"{text}: mean over draws", "Section 4, Fig. 3C", because=PAIRED)
       for key, text in ORDER.items()},
    **{f"other {key}": claim(f"with another {{case}}: {text}: mean over draws",
                             "Section 4, Fig. 3C", kind="finding", because=PAIRED)
       for key, text in ORDER.items()},
    "separation": claim("{slower} separates noise from signal in time more than {faster}: "
                        "half-time of the strongest noise mode over that of the weakest signal "
                        "mode, logarithm of the ratio between the two rules, mean over draws",
                        "Section 4, Fig. 3D", because=PAIRED),
    "straight": claim("damping and clipping, which hold back weak modes, leave NGD's best test "
                      "loss below that of exact NGD, 1 − cos² of the angle between the fitted map "
                      "and the teacher's: fraction of draws", "Section 4, Fig. 3C, Eq. 9",
                      kind="finding", because="in most draws"),
    "end": claim("{rule} has overfitted at t = {time:g}: largest fraction of the training loss "
                 "that is left", "Fig. 3B, C", because="'eventually converge' is read as "
                 f"{CONVERGED:g} of the training loss at that time"),
    "overfitted": claim("at the end test losses are that of the least-squares map, except for the "
                        "training loss that is left: largest distance over its bound", "Fig. 3C",
                        kind="theorem", because="triangle inequality"),
    "unshared": claim("rules end at the same test loss because the least-squares map is unique, "
                      "not because they share a path: NGD-d, which ends there too, has left the "
                      "path on which the layers' ‖w_i‖² differ as at the start; logarithm of the "
                      "largest difference at the end over the first, mean over draws (NGD ends at "
                      "{end:.2g})", "Section 4", because=PAIRED)
    .erratum("the same test loss after overfitting is due to the shared learning path"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's settings; horizons are in units of learning rate × steps."""

    width: int = 8  # N, of all layers
    layers: int = 4  # d
    examples: int = 8  # P, of whitened training inputs
    teacher: tuple[float, ...] = (1.5, 1.25, 1.0)  # singular values
    snr: float = 10.0  # the signal-to-noise ratio
    snr_of: str = "power"  # of the outputs, or "amplitude": smallest singular value over noise
    other_teacher: tuple[float, ...] = (3.0, 2.0, 1.0)  # of the case "spectrum"
    others: tuple[str, ...] = ()  # repeats with another "spectrum" or the other "SNR"
    largest: float = 0.2  # singular value of every layer at the start
    damping: float = 1e-5  # ε of NGD and NGD-d
    clip: float = 0.1  # the largest norm of their updates
    natural_step: float = 0.03  # learning rate of NGD and NGD-d
    natural_time: float = 12.0  # their horizon
    root_step: float = 0.03  # the same for √NGD and √NGD-d
    root_time: float = 20.0
    gradient_time: float = 750.0  # horizon of SGD, which is followed in continuous time
    points: int = 101  # times at which each run is measured
    draws: int = 20  # of data and start
    key: int = 2


PRESETS = {
    "quick": Params(),
    "paper": Params(width=16, examples=16, others=("spectrum", "SNR"), largest=0.05,
                    natural_step=0.01, root_step=0.005, root_time=30.0, gradient_time=60_000.0,
                    points=401),
}  # fmt: skip
_SLOW = "the weakest noise modes take SGD longer than that; 1/strength^(3/2) each"
FAILS = {"quick": {CLAIMS["end"].format(rule="SGD", time=750).statement: _SLOW}}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Training with the five rules on each draw of each case's data, from one start per draw."""
    names, draws = ["as given", *params.others], range(params.draws)
    problems = {(name, draw): _data(params, name, draw) for name in names for draw in draws}
    jobs = [(*drawn, rule) for drawn in problems for rule in RULES]
    runs = {job: _trained(params, *job[1:], *problems[job[:2]]) for job in cases(jobs, report)}
    alike: Any = {"coords": "minimal", "compat": "override", "join": "override"}
    part = lambda name, draw: xr.concat(
        [runs[name, draw, rule] for rule in RULES], "rule", **alike
    ).merge(levels(*problems[name, draw]), join="override")
    parts = [xr.concat([part(name, draw) for draw in draws], "draw", **alike) for name in names]
    data = xr.concat(parts, "case", **alike).assign_coords(case=names, rule=list(RULES))
    data.attrs = {"rank": len(params.teacher), "layers": params.layers}
    # SGD's loss falls and rises too abruptly for an interpolation between measured times.
    lowest = data["test"].argmin("point")
    return data.assign(stop=data["time"].isel(point=lowest), best=data["test"].min("point"))


def _data(params: Params, case: str, draw: int) -> tuple[ld.Dataset, np.ndarray]:
    """The data of one case and draw, and the teacher's map."""
    values = params.other_teacher if case == "spectrum" else params.teacher
    power = (params.snr_of == "power") != (case == "SNR")
    options: Any = {"width": params.width, "examples": params.examples, "power": power}
    return noisy_data(values, params.snr, **options, key=1000 * params.key + draw)


def _trained(
    params: Params, draw: int, rule: str, problem: ld.Dataset, teacher: np.ndarray
) -> xr.Dataset:
    """Losses, mode strengths and layer norms of one run, at its own times."""
    step, end, options = params.root_step, params.root_time, {}
    if rule in NATURAL:
        step, end = params.natural_step, params.natural_time
        options = {"damping": params.damping, "clip": params.clip}
    times, flow = np.rint(np.linspace(0, end / step, params.points)), rule == "SGD"
    if flow:
        step, end = 1.0, params.gradient_time
        times = np.append(0.0, np.geomspace(end / 1000, end, params.points - 1))
    widths, init = [params.width] * (params.layers + 1), ld.SmallRandom(params.largest)
    system = ld.System(problem, ld.DeepLinear(widths, init=init), RULES[rule](step, **options))
    how: Any = {"method": "flow" if flow else "direct", "dtype": "float64", "probes": PROBES}
    record = ld.simulate(system, times, key=1000 * params.key + draw, **how).isel(run=0)
    test = [generalisation.relative_loss(whole, teacher) for whole in record["whole"].values]
    table = {
        "time": ("point", step * record["time"].values),
        "train": ("point", record["error"].values),
        "test": ("point", test),
        "modes": (("point", "mode"), record["map"].values),
        "norms": (("point", "layer"), record["norms"].values),
    }
    return xr.Dataset(table)


def draw(data: xr.Dataset) -> Figure:
    """Panels A, B, C, and D for SGD, NGD and √NGD."""
    figure, axes = panels(6, columns=3, size=(4.0, 3.2))
    shown, rank, d = data.isel(case=0, draw=0), int(data.attrs["rank"]), int(data.attrs["layers"])
    colors = ["C3" if mode < rank else "0.6" for mode in range(shown.sizes["mode"])]
    axes[0].bar(np.arange(1, len(colors) + 1), shown["target"], color=colors)
    axes[0].set(xlabel="singular mode of the training data", ylabel="strength", title="A")
    for axis, name, title in zip(axes[1:3], ("train", "test"), "BC", strict=True):
        for number, rule in enumerate(data["rule"].values):
            curve = shown.sel(rule=rule).isel(point=slice(1, None))
            dashed = "--" if rule.endswith("-d") else "-"
            axis.plot(curve["time"], curve[name], dashed, color=f"C{number}", label=rule)
        axis.set(xscale="log", xlabel="time", ylabel=f"{name} loss", title=title)
    legend(axes[1])
    axes[2].axhline(float(shown["overfitted"]), color="0.3", linestyle=":")
    for axis, rule in zip(axes[3:], ("SGD", "NGD", "√NGD"), strict=True):
        curve = shown.sel(rule=rule)
        for mode, color in enumerate(colors):
            axis.plot(curve["time"], curve["modes"].isel(mode=mode), color=color, linewidth=1)
        axis.set(xlabel="time", ylabel="mode strength", title=f"D, {rule}")
    axes[3].set_xscale("log")
    p, rate = map_dynamics.stiffness(d, 0.5), map_dynamics.depth_calibrated_rate(1.0, d, 0.5)
    times = shown["time"].sel(rule="√NGD").values[:, None]
    closed = map_dynamics.solution(times, shown["target"].values, 0.0, float(p), rate)
    axes[5].plot(times, closed, "k:", linewidth=1)
    legend(axes[5], {"balanced, from 0 (Eq. 21)": {"color": "k", "ls": ":"}})
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The order of the rules in every case, their early stopping and where they end."""
    first, rank = data.isel(case=0), int(data.attrs["rank"])
    mean = lambda values: intervals.of_mean(values, "draws", over="draw")
    rows = [row for case in data["case"].values for row in _order(data.sel(case=case))]
    half = {rule: np.log(half_times(first.sel(rule=rule))) for rule in ("NGD", "√NGD", "SGD")}
    for faster, slower in [("NGD", "√NGD"), ("√NGD", "SGD")]:
        apart = [half[rule][:, rank] - half[rule][:, rank - 1] for rule in (slower, faster)]
        sentence = CLAIMS["separation"].format(slower=slower, faster=faster)
        between = xr.DataArray(apart[0] - apart[1], dims="draw")
        rows.append(sentence.at_least(mean(between), 0.0))
    # Exact NGD moves straight from about zero to the least-squares map.
    lower = first["best"].sel(rule="NGD") < first["straight"]
    rows.append(CLAIMS["straight"].at_least(intervals.of_share(lower, "draws"), 0.5))
    left = first["train"].isel(point=-1) / first["train"].isel(point=0)
    for rule in data["rule"].values:
        end = CLAIMS["end"].format(rule=rule, time=float(first["time"].sel(rule=rule)[0, -1]))
        rows.append(end.at_most(left.sel(rule=rule).max(), CONVERGED))
    relative = first["train"].isel(point=-1) / first["unit"]
    bound = generalisation.unfinished_error(first["overfitted"], relative)
    gap = abs(first["test"].isel(point=-1) - first["overfitted"]) / bound
    rows.append(CLAIMS["overfitted"].at_most(gap.max(), 1.0))
    # NGD-d ends at the same loss on another path, so that the path cannot be why.
    spread = (first["norms"].max("layer") - first["norms"].min("layer")).isel(point=[0, -1])
    begin, end = spread.sel(rule="NGD-d").transpose("point", ...)
    sentence = CLAIMS["unshared"].format(end=float(spread.sel(rule="NGD").isel(point=-1)[0]))
    return [*rows, sentence.at_least(mean(xr.ufuncs.log(end / begin)), 0.0)]


def _order(case: xr.Dataset) -> list[Claim]:
    """√NGD generalises as SGD does and stops as early as NGD: each of the two nearer the one."""
    best, stop = xr.ufuncs.log(case["best"]), xr.ufuncs.log(case["stop"])
    values = {
        "worse": best.sel(rule=["SGD", *ROOTS]).max("rule") - best.sel(rule=NATURAL).min("rule"),
        "comparable": _farther(best, "SGD", "NGD"),
        "early": _farther(stop, "NGD", "SGD"),
    }
    name, rules = str(case["case"].values), case["rule"].values
    middle = lambda logs, rule: float(np.exp(logs.mean("draw")).sel(rule=rule))
    shown = lambda logs, form: ", ".join(f"{rule} {middle(logs, rule):{form}}" for rule in rules)
    fields = {"case": name, "losses": shown(best, ".3f"), "times": shown(stop, ".4g")}
    other, rows = "" if name == "as given" else "other ", []
    for key, excess in values.items():
        found = intervals.of_mean(excess, "draws", over="draw")
        rows.append(CLAIMS[other + key].format(**fields).at_most(found, 0.0))
    return rows


def _farther(values: xr.DataArray, one: str, other: str) -> xr.DataArray:
    """By how much the roots are beyond the middle between two rules, at most: 'comparable'."""
    begin, end = values.sel(rule=one), values.sel(rule=other)
    toward = xr.ufuncs.sign((end - begin).mean("draw"))
    return (toward * (values.sel(rule=ROOTS) - (begin + end) / 2)).max("rule")
