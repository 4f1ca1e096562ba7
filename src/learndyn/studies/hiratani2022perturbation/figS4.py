"""Fig. S4: the digits of Fig. 5 in detail.

A: cosine between the updates of node perturbation and SGD at two accuracies on the way of SGD. B,
C, G: test error at fixed rates, against the first layer's weights and against time. D: under SGD
the error does not return. E: error and dimension of the hidden activity at a small rate. F: three
hidden layers with every unit's weights kept at their norm (Eq. 108), or with weight decay,
W ← (1 − η_d) W after every step.

Data are those of Fig. 5: MNIST in the paper preset, scikit-learn's digits in the quick one.

Notes: docs/results/hiratani2022perturbation/figS4/notes.md.
"""

import dataclasses

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import PLANNED, Claim, claim
from learndyn.studies.hiratani2022perturbation import _cosines, _curves, _readings, _small_rate
from learndyn.studies.hiratani2022perturbation._decay import regularised
from learndyn.studies.hiratani2022perturbation._intervals import (
    least_below,
    surely_above,
    surely_below,
)
from learndyn.studies.hiratani2022perturbation._readings import (
    DOES_NOT_RISE,
    ENDS_BELOW,
    NO_RETURN,
    RESURGES,
    SOONER,
)
from learndyn.studies.hiratani2022perturbation._tasks import images, network
from learndyn.studies.registry import Report

TITLE = "Digits: cosines, growing weights, dimension of activity, weight decay, normalisation"
DIFFERS = (
    "12,000 steps (5000 under SGD) instead of up to 10⁴ epochs, 600,000 steps; decays and "
    "widths of A are not stated, here 10⁻⁶ to 10⁻⁴ and 100 to 800; rates are 1000 times the "
    "printed ones, since they multiply the mean over a batch of 1000 instead of the sum"
)
CLAIMS = {
    **_cosines.CLAIMS,
    "resurges": claim(RESURGES, "Fig. S4B, G, Appendix C"),
    "swells": claim("weights of the first layer grow with the error's return: logarithm of "
                         "the growth of ‖W_1‖², at the largest rate minus that at the smallest",
                         "Fig. S4B, Appendix C"),
    "sooner": claim(SOONER, "Fig. S4C, Appendix C"),
    "no return": claim(NO_RETURN, "Fig. S4D, Appendix C", rate=PLANNED,
                       because="the paper finds only runs that never leave chance, or never "
                       "return to it"),
    **_small_rate.CLAIMS,
    "normalised": claim(f"with normalised weights {ENDS_BELOW}",
                             "Fig. S4F, Appendix C"),
    "does not rise": claim(DOES_NOT_RISE, "Fig. S4F, Appendix C"),
    "decays": claim(f"with the best of the decays {ENDS_BELOW}",
                         "Fig. S4F, Appendix C"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Settings: `cosine_…`, `levels`, `draws`, `widths` of A; `rates` of B, C, G; `sgd_…` of D.

    `small…` belong to E, `deep_…` and `decays` to F. `data` is "mnist", "fashion" or "digits", of
    which `rows` are used for training at most (0 for all); `width` is that of B to E and G; every
    case has `seeds`, the first of which is `key`.
    """

    data: str = "digits"
    rows: int = 800
    batch: int = 20
    widths: tuple[int, ...] = (16, 96)
    levels: tuple[float, ...] = (0.5, 0.8)
    cosine_rate: float = 2.0
    cosine_batch: int = 100
    cosine_steps: int = 300
    draws: int = 100
    width: int = 30
    rates: tuple[float, ...] = (0.1, 0.4)
    steps: int = 8000
    sgd_rates: tuple[float, ...] = (0.5, 2.0, 8.0)
    sgd_steps: int = 1000
    small: float = 0.01
    small_steps: int = 2000
    deep_width: int = 30
    deep_rate: float = 0.2
    decays: tuple[float, ...] = (1e-3, 1e-2)
    deep_steps: int = 3000
    points: int = 25
    seeds: int = 14
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        data="mnist", rows=0, batch=1000, points=50, seeds=5,
        widths=(100, 200, 400, 800), levels=(0.9, 0.975), cosine_rate=3.2, cosine_batch=1000,
        cosine_steps=6000, width=800, rates=(0.032, 0.056, 0.1, 0.18), steps=12_000,
        sgd_rates=(1.0, 10.0, 100.0), sgd_steps=5000, small_steps=10_000,
        deep_width=300, deep_rate=0.032, decays=(1e-6, 1e-5, 1e-4), deep_steps=12_000,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """All panels."""
    task, points = images(params.data, params.rows), params.points
    fixed = len(params.rates) + len(params.sgd_rates)
    done = _curves.Counted(len(params.widths) + fixed + 2 + 2 + len(params.decays), report)
    made = lambda *hidden: network(task, hidden, "softmax")
    options = {"key": params.key, "seeds": params.seeds, "done": done}
    net, rule = made(params.width), _curves.perturbed(params.batch)
    sgd = _curves.gradient(params.batch)
    curves = _curves.at_rates(task, net, rule, params.rates, params.steps, points, **options)
    steady = _curves.at_rates(task, net, sgd, params.sgd_rates, params.sgd_steps, points, **options)
    steady = steady[["test"]].rename(test="sgd_test", rate="sgd_rate", step="sgd_step")
    small = _small_rate.small_rate(params, task, net, done)
    networks = {width: made(width) for width in params.widths}
    cosines = _cosines.cosines(params, task, networks, 25, "accuracy")
    done(len(params.widths))
    rules = regularised(params.deep_rate, params.batch, params.decays)
    grid, deep = _curves.steps_of(params.deep_steps, points), made(*[params.deep_width] * 3)
    cures = _curves.under(rules, "cure", task, deep, grid, **options)[["test"]]
    cures = cures.rename(test="deep_test", step="deep_step")
    parts = [cosines, curves[["test", "norm"]], steady, small, cures]
    data = xr.merge(parts, join="exact")
    return data.assign_attrs(data=task.name, outputs=task.outputs, small=params.small)


def draw(data: xr.Dataset) -> Figure:
    """Panels A to G; E has its inset beside it."""
    figure, axes = panels(8, columns=4, size=(3.9, 3.2))
    _cosines.draw_cosines(axes[0], data, "A", " accuracy")
    _readings.draw_plane(axes[1], data, "B")
    _readings.draw_turns(axes[2], data, "C")
    _curves.few_ticks(axes[2], data["rate"].values)
    _curves.draw_family(axes[3], data["sgd_test"], "sgd_rate", "SGD, η = {:g}", title="D")
    _curves.shown_up_to(axes[3], data["sgd_test"])
    _small_rate.draw_small(axes[4], data, "dimension", "dimension of activity", "E")
    _small_rate.draw_small(axes[5], data, "test", "test error", "E, inset")
    cures = {"black": "normalised", "title": "F"}
    _curves.draw_family(axes[6], data["deep_test"], "cure", "{}", **cures)
    _curves.draw_family(axes[7], data["test"], "rate", title="G")
    figure.suptitle(data.attrs["data"], fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """What each panel shows."""
    grown = _readings.growth(data)
    lost = _readings.loses(data[["sgd_test"]].rename(sgd_test="test", sgd_step="step"))
    deep = data["deep_test"].rename(deep_step="step")
    plain, kept = (deep.sel(cure=cure, drop=True) for cure in ("neither", "normalised"))
    return [
        *_cosines.check_cosines(data, "Fig. S4A, Appendix C"),
        surely_above(CLAIMS["resurges"], _readings.resurgence(data), 0.0),
        surely_above(CLAIMS["swells"], grown.isel(rate=-1) - grown.isel(rate=0), 0.0),
        surely_below(CLAIMS["sooner"], _readings.rise_exponents(data), 0.0),
        CLAIMS["no return"].at_most(lost.mean(), 0.0),
        *_small_rate.check_small(data, "Fig. S4E, Appendix C"),
        surely_below(CLAIMS["normalised"], _readings.end_gap(plain, kept), 0.0),
        surely_below(CLAIMS["does not rise"], _readings.late_slopes(kept), 0.0),
        least_below(CLAIMS["decays"], _readings.decay_gaps(deep), 0.0),
    ]
