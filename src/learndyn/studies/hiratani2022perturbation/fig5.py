"""Fig. 5: networks with one to four hidden layers learn handwritten digits.

A: learning curves at fixed rates. B, C: steps to a target accuracy at the best rate of a ladder,
against the hidden width and the number of hidden layers. The loss is ½ |x_K − x*|² of the softmax
outputs.

The paper preset has MNIST (`--set data=fashion` for Fashion-MNIST); the quick preset scikit-
learn's digits of 8 × 8 pixels, which need no file. Sizes and rates of the quick preset were
chosen in trials with other seeds. An epoch of the paper is 60 steps.
"""

import dataclasses
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim
from learndyn.studies.hiratani2022perturbation import _times, _verdicts
from learndyn.studies.hiratani2022perturbation._curves import (
    Counted,
    at_rates,
    draw_curves,
    few_ticks,
    gradient,
    perturbed,
)
from learndyn.studies.hiratani2022perturbation._intervals import exponents, surely_above
from learndyn.studies.hiratani2022perturbation._tasks import Task, images, network
from learndyn.studies.registry import Report

TITLE = "Node perturbation on digits: curves, hidden widths, one to four hidden layers"
SOURCE = "Fig. 5{}, Appendix C"


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's settings.

    Attributes:
        data: "mnist", "fashion" or "digits".
        rows: images to train on, at most; 0 for all.
        batch: examples a step.
        width, rates, steps, points: of A.
        widths: hidden widths of B.
        deep_width, depths: width and numbers of hidden layers of C.
        ladder, ladder_steps: rates of B for node perturbation, and the step at which they end.
        deep_ladder, deep_steps: the same of C.
        sgd_ladder, sgd_ladder_steps: the same of B and C for SGD.
        target: accuracy on the test set.
        seeds: of every case.
        key: of the first seed.
    """

    data: str = "digits"
    rows: int = 800
    batch: int = 20
    width: int = 30
    rates: tuple[float, ...] = (0.05, 0.1, 0.4)
    steps: int = 8000
    points: int = 25
    widths: tuple[int, ...] = (10, 30, 90)
    deep_width: int = 30
    depths: tuple[int, ...] = (1, 2, 3, 4)
    ladder: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    ladder_steps: int = 1000
    deep_ladder: tuple[float, ...] = (0.025, 0.06)
    deep_steps: int = 6000
    sgd_ladder: tuple[float, ...] = (0.5, 2.0)
    sgd_ladder_steps: int = 300
    target: float = 0.4
    seeds: int = 6
    key: int = 0


PRESETS = {
    "quick": Params(),
    # The paper's targets are 97.5 %, after up to 10⁴ epochs, 600,000 steps.
    "paper": Params(
        data="mnist",
        rows=0,
        batch=1000,
        width=800,
        rates=(0.032, 0.056, 0.1, 0.18),
        steps=15_000,
        points=60,
        widths=(100, 400, 1600),
        deep_width=300,
        ladder=(0.032, 0.056, 0.1, 0.18),
        sgd_ladder=(1.0, 3.2),
        target=0.9,
        ladder_steps=5000,
        deep_ladder=(0.018, 0.032, 0.056),
        deep_steps=6000,
        sgd_ladder_steps=1500,
        seeds=5,
    ),
}

_DEPTHS = (
    "the target is reached at every depth, in a time that grows with the number of hidden "
    "layers: exponent"
)
FAILS = {
    "paper": {
        _times.FALLS: "the four rates of the ladder are too few: three seeds do not decide",
        _DEPTHS: "with two hidden layers and more no run has the target within 6000 steps",
    }
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All panels."""
    task = images(params.data, params.rows)
    rungs = (len(ladder) + len(params.sgd_ladder) for ladder in (params.ladder, params.deep_ladder))
    cases = zip(rungs, (params.widths, params.depths), strict=True)
    done = Counted(len(params.rates) + sum(n * len(each) for n, each in cases), report)
    net, rule = network(task, [params.width], "softmax"), perturbed(params.batch)
    given = {"key": params.key, "seeds": params.seeds, "done": done}
    curves = at_rates(task, net, rule, params.rates, params.steps, params.points, **given)
    wide = {w: network(task, [w], "softmax") for w in params.widths}
    deep = {d: network(task, [params.deep_width] * d, "softmax") for d in params.depths}
    wide = _ladders(params, task, wide, params.ladder, params.ladder_steps, done)
    deep = _ladders(params, task, deep, params.deep_ladder, params.deep_steps, done)
    names = {n: f"deep_{n}" for n in ("np_times", "sgd_times", "np_rate", "sgd_rate")}
    deep = deep.rename(names | {"case": "depth"})
    data = xr.merge([curves[["test", "accuracy"]], wide, deep], join="exact")
    return data.assign_attrs(data=task.name, target=params.target)


def _ladders(
    params: Params,
    task: Task,
    nets: dict[int, Any],
    ladder: tuple[float, ...],
    last: int,
    done: Counted,
) -> xr.Dataset:
    """Times to the target under both rules."""
    given: dict[str, Any] = {
        "target": params.target,
        "of": "accuracy",
        "points": params.points,
        "done": done,
    }
    given |= {"seeds": params.seeds, "key": params.key}
    rule, sgd = perturbed(params.batch), gradient(params.batch)
    short = params.sgd_ladder_steps
    ladders = {
        "np": _times.times(task, nets, rule, ladder, last=last, **given),
        "sgd": _times.times(task, nets, sgd, params.sgd_ladder, last=short, **given),
    }
    return _times.named(ladders)


def draw(data: xr.Dataset) -> Figure:
    """Panels A, B, C."""
    figure, axes = panels(3, columns=3, size=(4.3, 3.3))
    for number, rate in enumerate(data["rate"].values):
        draw_curves(axes[0], data["accuracy"].sel(rate=rate), f"C{number}", f"η = {rate:g}")
    axes[0].set(xscale="log", xlabel="step", ylabel="test accuracy", title="A")
    legend(axes[0], fontsize=7)
    rules = {"np": "node perturbation", "sgd": "SGD"}
    wide = {said: data[f"{name}_times"] for name, said in rules.items()}
    deep = {said: _deep(data, name) for name, said in rules.items()}
    _times.draw_least(axes[1], wide, "hidden width", "B")
    _times.draw_least(axes[2], deep, "hidden layers", "C")
    few_ticks(axes[1], data["case"].values)
    axes[2].set_xticks(data["depth"].values)
    figure.suptitle(f"{data.attrs['data']}; target {data.attrs['target']:g}", fontsize=9)
    return figure


def _deep(data: xr.Dataset, name: str) -> xr.DataArray:
    return data[f"deep_{name}_times"].rename(depth="case")


def check(data: xr.Dataset) -> list[Claim]:
    """The error's return, and how the time to the target grows."""
    wide = _times.check_widths(data["np_times"], data["sgd_times"], SOURCE.format("B"))
    return [
        _verdicts.resurges(data[["test"]], SOURCE.format("A")),
        *wide,
        _depths(data),
    ]


def _depths(data: xr.Dataset) -> Claim:
    """How the shortest time grows; it fails where a run does not reach the target at a depth."""
    rows = _times.least(_deep(data, "np")).transpose("seed", "case")
    slopes = exponents(rows["case"].values, rows.values)
    return surely_above(_DEPTHS, SOURCE.format("C"), slopes, 0.0)
