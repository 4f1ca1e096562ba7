"""Fig. 5: networks with one to four hidden layers learn handwritten digits.

A: learning curves at fixed rates. B, C: steps to a target accuracy at the best rate of a ladder,
against the hidden width and the number of hidden layers. The loss is ½ |x_K − x*|² of the softmax
outputs.

The paper preset has MNIST (`--set data=fashion` for Fashion-MNIST), and is short: the supplement
states no target for this figure, and up to 10⁴ epochs, 600,000 steps, for Fig. S4, whose accuracies
are 90 and 97.5 %. The quick preset has scikit-learn's digits of 8 × 8 pixels, which need no file.
An epoch of the paper is 60 steps.

Notes: docs/results/hiratani2022perturbation/fig5/notes.md.
"""

import dataclasses

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation import _curves, _readings, _times
from learndyn.studies.hiratani2022perturbation._intervals import surely_above
from learndyn.studies.hiratani2022perturbation._readings import RESURGES
from learndyn.studies.hiratani2022perturbation._tasks import images, network
from learndyn.studies.registry import Report
from learndyn.studies.statistics import exponents

TITLE = "Node perturbation on digits: curves, hidden widths, one to four hidden layers"
DIFFERS = (
    "the supplement states neither target and rates nor the widths of B; here 90 % accuracy, "
    "widths 100, 400, 1600, at most 15,000 steps (A), 5000 (B), 6000 (C)"
)
CLAIMS = {
    "resurges": claim(RESURGES, "Fig. 5A, Appendix C"),
    **_times.CLAIMS,
    "depths": claim("the target is reached at every depth, in a time that grows with the "
                         "number of hidden layers: exponent", "Fig. 5C, Appendix C"),
}  # fmt: skip
FAILS = {
    "paper": {
        CLAIMS["depths"].statement:
            "with two hidden layers and more no run has the target within 6000 steps",
    }
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Settings: `rates`, `width` of A; `widths`, `ladder` of B; `deep_…`, `depths` of C.

    `data` is "mnist", "fashion" or "digits", of which `rows` are used for training at most (0 for
    all). `target` is an accuracy on the test set; a ladder ends after its `…_steps`; every case has
    `seeds`, the first of which is `key`.
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
    "paper": Params(
        data="mnist", rows=0, batch=1000, width=800, points=60, target=0.9, seeds=5,
        rates=(0.032, 0.056, 0.1, 0.18), steps=15_000,
        widths=(100, 400, 1600), ladder=(0.032, 0.056, 0.1, 0.18), ladder_steps=5000,
        deep_width=300, deep_ladder=(0.018, 0.032, 0.056), deep_steps=6000,
        sgd_ladder=(1.0, 3.2), sgd_ladder_steps=1500,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """All panels."""
    task = images(params.data, params.rows)
    rungs = (len(ladder) + len(params.sgd_ladder) for ladder in (params.ladder, params.deep_ladder))
    cases = zip(rungs, (params.widths, params.depths), strict=True)
    done = _curves.Counted(len(params.rates) + sum(n * len(each) for n, each in cases), report)
    made = lambda *hidden: network(task, hidden, "softmax")
    grid = params.rates, params.steps, params.points
    options = {"key": params.key, "seeds": params.seeds, "done": done}
    rule = _curves.perturbed(params.batch)
    curves = _curves.at_rates(task, made(params.width), rule, *grid, **options)
    networks = {width: made(width) for width in params.widths}
    ladder = params.ladder, params.ladder_steps
    wide = _times.ladders(params, task, networks, ladder, "accuracy", done)
    networks = {depth: made(*[params.deep_width] * depth) for depth in params.depths}
    ladder = params.deep_ladder, params.deep_steps
    deep = _times.ladders(params, task, networks, ladder, "accuracy", done)
    names = {n: f"deep_{n}" for n in ("np_times", "sgd_times", "np_rate", "sgd_rate")}
    deep = deep.rename(names | {"case": "depth"})
    data = xr.merge([curves[["test", "accuracy"]], wide, deep], join="exact")
    return data.assign_attrs(data=task.name, target=params.target)


def draw(data: xr.Dataset) -> Figure:
    """Panels A, B, C."""
    figure, axes = panels(3, columns=3, size=(4.3, 3.3))
    labels = {"yscale": "linear", "ylabel": "test accuracy", "title": "A"}
    _curves.draw_family(axes[0], data["accuracy"], "rate", **labels)
    rules = {"np": "node perturbation", "sgd": "SGD"}
    wide = {rule: data[f"{name}_times"] for name, rule in rules.items()}
    deep = {rule: _deep(data, name) for name, rule in rules.items()}
    _times.draw_least(axes[1], wide, "hidden width", "B")
    _times.draw_least(axes[2], deep, "hidden layers", "C")
    _curves.few_ticks(axes[1], data["case"].values)
    axes[2].set_xticks(data["depth"].values)
    figure.suptitle(f"{data.attrs['data']}; target {data.attrs['target']:g}", fontsize=9)
    return figure


def _deep(data: xr.Dataset, name: str) -> xr.DataArray:
    return data[f"deep_{name}_times"].rename(depth="case")


def check(data: xr.Dataset) -> list[Claim]:
    """The error's return, and how the time to the target grows with widths and depths."""
    # NaN, so that the claim fails, where a run does not reach the target at some depth.
    deeper = exponents(_times.least(_deep(data, "np")), "case")
    return [
        surely_above(CLAIMS["resurges"], _readings.resurgence(data), 0.0),
        *_times.check_widths(data["np_times"], data["sgd_times"], "Fig. 5B, Appendix C"),
        surely_above(CLAIMS["depths"], deeper, 0.0),
    ]
