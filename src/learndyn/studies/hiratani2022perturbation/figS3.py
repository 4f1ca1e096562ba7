"""Fig. S3: the motor task of Fig. 4 in detail.

A: under SGD the error does not come back. B: steps to a target error under node perturbation,
against the rate, for several hidden widths. C, D: test error and linear dimension of the hidden
activity under both rules at a small rate.

Data are those of Fig. 4: SARCOS in the paper preset, the noisy answers of a drawn network in the
quick one, which needs no file. "As SGD does" in C is read as a distance of at most 25 %, a
fortieth of the curves' fall on a logarithmic axis in the paper; Appendix C.1 says of D why.
"""

import dataclasses

import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation import _times, _verdicts
from learndyn.studies.hiratani2022perturbation._curves import (
    Counted,
    at_rates,
    gradient,
    perturbed,
)
from learndyn.studies.hiratani2022perturbation._intervals import surely_above
from learndyn.studies.hiratani2022perturbation._small_rate import (
    FEWER,
    check_small,
    draw_small,
    small_rate,
)
from learndyn.studies.hiratani2022perturbation._tasks import motor, network
from learndyn.studies.registry import Report

TITLE = "Motor task: SGD is stable, times to a target against rates, dimension of activity"
SOURCE = "Fig. S3{}, Appendix C"


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's settings.

    Attributes:
        data: "sarcos" or "teacher".
        rows: to train on, at most; 0 for all.
        batch: examples a step.
        width: hidden width of A, C and D.
        sgd_rates, sgd_steps: of A.
        widths, ladder, ladder_steps, target: of B.
        small, small_steps: rate and last step of C and D.
        points: at which is measured.
        seeds: of every case.
        key: of the first seed.
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
        data="sarcos",
        rows=0,
        batch=100,
        width=800,
        sgd_rates=(1e-5, 1e-4, 1e-3, 1e-2),
        sgd_steps=10_000,
        widths=(100, 400, 1600),
        ladder=(1e-5, 1.8e-5, 3.2e-5, 5.6e-5, 1e-4, 3.2e-4),
        ladder_steps=6000,
        target=40.0,
        small=1e-6,
        small_steps=60_000,
        points=60,
    ),
}
_WHITE = (
    "inputs of the drawn network are white and have mean 0, so that hidden activity has no "
    "principal direction for growing weights to strengthen; the paper's reason needs real inputs"
)
_SLOWER = "a smaller rate is slower: logarithm of the time at the smallest rate over the shortest"
_CENSORED = (
    "at the smallest rate the target is not reached within 6000 steps: the time is not known"
)
FAILS = {
    "quick": {FEWER: _WHITE},
    "paper": {f"{_SLOWER}, least over widths": _CENSORED},
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All panels."""
    task = motor(params.data, params.rows)
    done = Counted(len(params.sgd_rates) + len(params.widths) * len(params.ladder) + 2, report)
    net = network(task, [params.width])
    given = {"key": params.key, "seeds": params.seeds, "done": done}
    sgd = gradient(params.batch)
    curves = at_rates(task, net, sgd, params.sgd_rates, params.sgd_steps, params.points, **given)
    nets = {w: network(task, [w]) for w in params.widths}
    more = {"target": params.target, "of": "test", "last": params.ladder_steps}
    more |= {"points": params.points, **given}
    ladder = _times.times(task, nets, perturbed(params.batch), params.ladder, **more)
    given |= {"last": params.small_steps, "points": params.points, "batch": params.batch}
    small = small_rate(task, net, params.small, **given)
    data = xr.merge([curves[["test"]], _times.named({"np": ladder}), small], join="exact")
    return data.assign_attrs(data=task.name, small=params.small)


def draw(data: xr.Dataset) -> Figure:
    """Panels A to D."""
    figure, axes = panels(4, size=(4.6, 3.4))
    turn = _verdicts.turns(data[["test"]])["turn"]
    for seed in range(turn.sizes["seed"]):
        axes[0].plot(turn["rate"], turn.isel(seed=seed) + 1, "s", color="k", ms=4, mfc="none")
    axes[0].axhline(float(data["step"].max()), color="0.5", ls="--")
    axes[0].set(xscale="log", yscale="log", xlabel="learning rate of SGD", title="A")
    axes[0].set_ylabel("step of the least error, + 1")
    legend(axes[0], {"last step": {"ls": "--", "color": "0.5"}}, fontsize=7)
    _times.draw_rates(axes[1], data["np_times"], "width", "B")
    small = f"η = {data.attrs['small']:g}"
    draw_small(axes[2], data, "test", f"test error, {small}", "C")
    axes[2].set_yscale("log")
    draw_small(axes[3], data, "dimension", f"dimension of activity, {small}", "D")
    figure.suptitle(data.attrs["data"], fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """What each panel shows."""
    return [_no_return(data), *_rates(data), *check_small(data, SOURCE.format("C, D"))]


def _no_return(data: xr.Dataset) -> Claim:
    found = _verdicts.turns(data[["test"]])
    lost = found["back"].notnull() & (found["least"] <= _verdicts.HALF)
    text = (
        "under SGD no run that has halved its error returns to where it began, at any rate: share "
        "of runs that do"
    )
    because = "the paper finds only runs that rise from the first epoch, or never"
    return claim(text, SOURCE.format("A")).at_most(float(lost.mean()), 0.0, because=because)


def _rates(data: xr.Dataset) -> list[Claim]:
    """The best rate lies inside of the ladder, near its stable end."""
    times = data["np_times"]
    slow = xr.ufuncs.log(times.isel(np_rate=0) / _times.least(times)).min("case")
    near = (_times.best_rate(times) / _times.stable_rate(times)).min("case")
    text = "no run reaches the target at the largest rate: share that does"
    most = float(times.isel(np_rate=-1).notnull().mean())
    because = "beyond the largest stable rate"
    close = "the best rate is near the largest at which the target is reached: their ratio"
    return [
        surely_above(f"{_SLOWER}, least over widths", SOURCE.format("B"), slow.values, 0.0),
        claim(text, SOURCE.format("B")).at_most(most, 0.0, because=because),
        surely_above(
            f"{close}, least over widths", f"{SOURCE.format('B')}, B.3", near.values, 1 / 3
        ),
    ]
