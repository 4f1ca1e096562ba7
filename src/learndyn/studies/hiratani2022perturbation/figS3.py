"""Fig. S3: the motor task of Fig. 4 in detail.

A: under SGD the error does not return. B: steps to a target error under node perturbation, against
the rate, for several hidden widths. C, D: test error and linear dimension of the hidden activity
under both rules at a small rate.

Data are those of Fig. 4: SARCOS in the paper preset, the noisy answers of a random network in the
quick one, which needs no file. "As SGD does" in C is read as a distance of at most 25 %, a fortieth
of the curves' fall on a logarithmic axis in the paper; Appendix C.1 gives the reason for D.

Notes: docs/results/hiratani2022perturbation/figS3/notes.md.
"""

import dataclasses

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.hiratani2022perturbation import _curves, _readings, _small_rate, _times
from learndyn.studies.hiratani2022perturbation._intervals import surely_above
from learndyn.studies.hiratani2022perturbation._readings import NO_RETURN
from learndyn.studies.hiratani2022perturbation._tasks import motor, network
from learndyn.studies.registry import Report

TITLE = "Motor task: SGD is stable, times to a target against rates, dimension of activity"
DIFFERS = (
    "10,000 steps instead of 10⁴ epochs (A), target 40 instead of 5 within 6000 steps (B); rows "
    "of the data as in fig4"
)
CLAIMS = {
    "no return": claim(NO_RETURN, "Fig. S3A, Appendix C", rate=PLANNED,
                       because="the paper finds only runs that rise at once, or never"),
    "slower": claim("a smaller rate is slower: logarithm of the time at the smallest rate "
                         "over the shortest, least over widths", "Fig. S3B, Appendix C"),
    "largest": claim("no run reaches the target at the largest rate: fraction that does",
                     "Fig. S3B, Appendix C",
                     within=Tolerance(0.0, "beyond the largest stable rate", PLANNED)),
    "best": claim("the best rate is near the largest at which the target is reached: their "
                       "ratio, least over widths", "Fig. S3B, Appendix C, B.3"),
    **_small_rate.CLAIMS,
}  # fmt: skip
FAILS = {
    "paper": {
        CLAIMS["slower"].statement:
            "at the smallest rate the target is not reached within 6000 steps: the time is not "
            "known",
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Settings: `sgd_…` of A; `widths`, `ladder`, `target` of B; `small` of C, D; `width` of all.

    `data` is "sarcos" or "teacher", of which `rows` are used for training at most (0 for all);
    every case has `seeds`, the first of which is `key`.
    """

    data: str = "teacher"
    rows: int = 1000
    batch: int = 10
    width: int = 50
    sgd_rates: tuple[float, ...] = (0.01, 0.04, 0.16, 0.64)
    sgd_steps: int = 2000
    widths: tuple[int, ...] = (25, 75)
    ladder: tuple[float, ...] = (0.001, 0.002, 0.004, 0.008, 0.012, 0.024)
    ladder_steps: int = 1500
    target: float = 0.6
    small: float = 0.001
    small_steps: int = 4000
    points: int = 25
    seeds: int = 5
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        data="sarcos", rows=0, batch=100, width=800, points=60,
        sgd_rates=(1e-5, 1e-4, 1e-3, 1e-2), sgd_steps=10_000, widths=(100, 400, 1600),
        ladder=(1e-5, 1.8e-5, 3.2e-5, 5.6e-5, 1e-4, 3.2e-4), ladder_steps=6000, target=40.0,
        small=1e-6, small_steps=60_000,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """All panels."""
    task = motor(params.data, params.rows)
    cases = len(params.sgd_rates) + len(params.widths) * len(params.ladder) + 2
    done, net = _curves.Counted(cases, report), network(task, [params.width])
    options = {"key": params.key, "seeds": params.seeds, "done": done}
    grid = params.sgd_rates, params.sgd_steps, params.points
    curves = _curves.at_rates(task, net, _curves.gradient(params.batch), *grid, **options)
    networks = {width: network(task, [width]) for width in params.widths}
    rule, ladder = _curves.perturbed(params.batch), (params.ladder, params.ladder_steps)
    times = _times.times(params, task, networks, rule, ladder, "test", done)
    small = _small_rate.small_rate(params, task, net, done)
    data = xr.merge([curves[["test"]], _times.named({"np": times}), small], join="exact")
    return data.assign_attrs(data=task.name, small=params.small)


def draw(data: xr.Dataset) -> Figure:
    """Panels A to D."""
    figure, axes = panels(4, size=(4.6, 3.4))
    turn = _readings.turns(data[["test"]])["turn"]
    for seed in range(turn.sizes["seed"]):
        axes[0].plot(turn["rate"], turn.isel(seed=seed) + 1, "s", color="k", ms=4, mfc="none")
    axes[0].axhline(float(data["step"].max()), color="0.5", ls="--")
    axes[0].set(xscale="log", yscale="log", xlabel="learning rate of SGD", title="A")
    axes[0].set_ylabel("step of the least error, + 1")
    legend(axes[0], {"last step": {"ls": "--", "color": "0.5"}}, fontsize=7)
    _times.draw_rates(axes[1], data["np_times"], "width", "B")
    _small_rate.draw_small(axes[2], data, "test", "test error", "C")
    axes[2].set_yscale("log")
    _small_rate.draw_small(axes[3], data, "dimension", "dimension of activity", "D")
    figure.suptitle(data.attrs["data"], fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """No return under SGD; the best rate lies inside of the ladder, near its stable end; C, D."""
    times = data["np_times"]
    slower = xr.ufuncs.log(times.isel(np_rate=0) / _times.least(times)).min("case")
    near = (_times.best_rate(times) / _times.stable_rate(times)).min("case")
    return [
        CLAIMS["no return"].at_most(_readings.loses(data[["test"]]).mean(), 0.0),
        surely_above(CLAIMS["slower"], slower, 0.0),
        CLAIMS["largest"].at_most(times.isel(np_rate=-1).notnull().mean(), 0.0),
        surely_above(CLAIMS["best"], near, 1 / 3),
        *_small_rate.check_small(data, "Fig. S3C, D, Appendix C"),
    ]
