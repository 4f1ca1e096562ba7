"""Fig. 5: the plateau against the number of units and of eigenvalues, and what sets its length.

Shown are flows from drawn teachers and students, simulated students beside them, and the e-folding
time of the escape: exact for every drawn teacher, and by Eq. 116, which takes T to be uniform. At
L = N each level is one direction, T^(2) is nearly of rank one, and the exact time grows as M, not
as M². The trends with M and L are measured by the times at which flows leave the plateau, by a
log-rank test (flows that do not leave are censored) and by exponents of the median. Students leave
when the flow from their start does, at every size; eight per size show the trend with L, but would
show that with M at half of the keys only. The quick preset has fewer and smaller sizes, and
η = 0.05 instead of 0.01, which only rescales the time of a flow.

Notes: docs/results/worschech2024scaling/fig5/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL, log_rank, mean_bound, median_exponent
from learndyn.studies.worschech2024scaling import _escape
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.plateau import erf_uniform

TITLE = "The plateau against M and L: flows, students, and the escape time τ_esc"
DIFFERS = (
    "sizes and one student per size are the paper's; 12 flows per size and escape times of 100 "
    "teachers are added"
)
FAR = 25  # times τ, by which a flow has left
FEW = 8  # students per size that a log-rank test needs
SCATTER = 0.15  # relative difference of students' times from their flows' that chance explains
ORDER = 0.05  # chance that the log-rank test sees a trend where there is none
SIDES = {  # what the panels vary, and what the plateau does as it grows
    "left": {"letter": "M", "changes": "grows", "side": "left"},
    "right": {"letter": "L", "changes": "shrinks", "side": "right"},
}
SHORT = {"left": 0, "right": -1}  # the size whose plateau is the shorter one
CLAIMS = {
    "later": claim("the plateau {changes} with {letter}: flows leave later, {letter} = {long} "
                   "against {letter} = {short}, log-rank statistic ({stayed} of {flows} flows stay "
                   "to the end)", "Fig. 5 {side}", rate=0.9,
                   because="one-sided log-rank test of {count} flows each, 5 %"),
    "students later": claim("the plateau shrinks with L: students leave later, log-rank statistic",
                            "Fig. 5 right", rate=0.8,
                            because="one-sided log-rank test of {count} students each, 5 %"),
    "power": claim("the plateau {changes} as Eq. 15: exponent of {letter}, median of flows, "
                   "{letter} = {first} to {last}", "Eqs. 15 and 116, Fig. 5 {side}", rate=1 - LEVEL,
                   because="intervals of medians, {count} flows each, 1 %"),
    "exact power": claim("time of leaving over the exact τ of each flow: exponent of M, "
                         "M = {first} to {last}", "exact partner of Eq. 116, Eq. 117",
                         kind="finding", rate=1 - LEVEL,
                         because="intervals of medians, 1 %; 1 + ln M of all e-folds"),
    "students": claim("{letter} = {size}: students leave when their flows do, mean ratio",
                      "Fig. 5 {side}; gradient noise is common to equal students",
                      kind="finding", rate=1 - LEVEL,
                      because="one e-folding of their spread; Student's t, {count} students, 1 %, "
                              "at most 15 %"),
} | _escape.CLAIMS  # fmt: skip
_RANK_ONE = "one direction per level: T^(2) is nearly of rank one, and the exact time grows as M"
_FAILING = CLAIMS["power"].format(**SIDES["left"], first=3, last=8, count="")
FAILS = {"quick": {_FAILING.statement: _RANK_ONE}}


@dataclasses.dataclass(frozen=True)
class Params:
    """Left: units M at L = N. Right: numbers of eigenvalues L at one M and N.

    There are `draws` flows per size, the first `students` of which are also simulated.
    Escape times are those of `teachers` draws; `rate_M` at L = N of the left panel, and
    N = `rate_N` times L for the first L of the right one.
    """

    left_M: tuple[int, ...] = (3, 8)
    left_N: int = 32
    left_end: float = 1.2e4
    right_L: tuple[int, ...] = (4, 32)
    right_M: int = 3
    right_N: int = 32
    right_end: float = 1.2e4
    rate_M: tuple[int, ...] = (3, 8, 16)
    rate_N: tuple[int, ...] = (1, 4, 16, 64, 256)
    beta: float = 0.25
    eta: float = 0.05
    sigma_J: float = 1e-6
    draws: int = 72
    students: int = 8
    teachers: int = 50
    points: int = 201
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(left_M=(6, 8, 10, 32, 40), left_N=512, left_end=16000.0,
                    right_L=(25, 50, 100, 250, 500), right_M=6, right_N=500, right_end=70000.0,
                    rate_M=(6, 8, 10, 32, 40), eta=0.01, draws=12, students=1, teachers=100),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Flows and students of both panels, and escape times of many teachers."""
    left = [(M, params.left_N, params.left_N) for M in params.left_M]
    right = [(params.right_M, L, params.right_N) for L in params.right_L]
    jobs = [("left", size) for size in left] + [("right", size) for size in right]
    rows = {"left": [], "right": []}
    # Keys have no flow in common.
    for number, (side, size) in enumerate(cases(jobs, report, end=0.9), params.key * len(jobs)):
        system, end = _system(params, *size), getattr(params, f"{side}_end")
        rows[side].append(_escape.flows(params, system, end, number))
    panel = lambda side: xr.concat(rows[side], side).rename(
        {str(name): f"{side}_{name}" for name in (*rows[side][0].data_vars, "time")}
    )
    M, L = params.right_M, params.right_L[0]
    sweeps = {
        "rate_M": [(m, params.left_N, params.left_N) for m in params.rate_M],
        "right": right,
        "rate_N": [(M, L, n * L) for n in params.rate_N],
    }
    keys = range(params.teachers * params.key, params.teachers * (params.key + 1))
    systems = lambda sizes: [_system(params, *size) for size in sizes]
    escape = [_escape.escape_times(name, systems(sweeps[name]), keys) for name in sweeps]
    coords = {"left": params.left_M, "right": params.right_L}
    coords |= {"rate_M": params.rate_M, "rate_N": params.rate_N}
    data = xr.merge([panel("left"), panel("right"), *escape])
    report(1.0)
    names = ("left_N", "right_M", "right_N", "beta", "eta", "sigma_J")
    kept = {name: getattr(params, name) for name in names}
    return data.assign_coords({name: list(at) for name, at in coords.items()}).assign_attrs(kept)


def _system(params: Params, M: int, L: int, N: int) -> ld.System:
    spectrum = ld.PowerLaw(N, L, params.beta)
    return committee_system("erf", spectrum, K=M, M=M, eta=params.eta, sigma_J=params.sigma_J)


def draw(data: xr.Dataset) -> Figure:
    """Above: the error on the plateau. Below: escape times of many teachers."""
    figure, axes = panels(4)
    a = data.attrs
    left, right = f"L = N = {a['left_N']}", f"N = {a['right_N']}"
    _draw_curves(axes[0], data, "left", f"K = M, {left}")
    _draw_curves(axes[1], data, "right", f"K = M = {a['right_M']}, {right}")
    _escape.draw_times(axes[2], data, "rate_M", "units M", left)
    _escape.draw_times(
        axes[3], data, "right", "number of eigenvalues L", f"M = {a['right_M']}, {right}"
    )
    return figure


def _draw_curves(axis: Axes, data: xr.Dataset, side: str, title: str) -> None:
    time, top = data[f"{side}_time"], 0.0
    for i, size in enumerate(data[side].values):
        one, color, label = data.sel({side: size}), f"C{i}", f"{SIDES[side]['letter']} = {size}"
        axis.plot(time, one[f"{side}_error"].isel(draw=0), color=color, label=label)
        student = one[f"{side}_student"].isel(simulated=0)
        axis.plot(time, student, "o", ms=2.5, color=color, markevery=8)
        top = max(top, 1.6 * float(one[f"{side}_height"].isel(draw=0)))
    axis.set(ylim=(0, top), xlabel="α [steps / N]", ylabel=r"generalisation error $\epsilon_g$")
    axis.set_title(f"flow, {title}, η = {data.attrs['eta']:g}, β = {data.attrs['beta']:g}", size=9)
    legend(axis, {"students": {"marker": "o", "ms": 2.5}}, ncols=2)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The trends of the figure, the scaling of Eq. 15, and the exact escape."""
    typical = data["typical_rate_M"].sel(rate_M=data["left"].values)
    return [
        *(_later(data, side, "later", "leaves") for side in SIDES),
        _later(data, "right", "students later", "student_leaves"),
        _power(data, "left", typical),
        _power(data, "right", data["typical_right"]),
        _exact_power(data),
        _escape.growth(data),
        *(_students(data, side, size) for side in SIDES for size in data[side].values),
        *_escape.check(data),
    ]


def _later(data: xr.Dataset, side: str, key: str, name: str) -> Claim:
    """Which leave later: those of the smallest or of the largest size."""
    sizes, times = data[side].values, data[f"{side}_{name}"].transpose(side, ...).values
    short = SHORT[side]
    fields = {"long": sizes[~short], "short": sizes[short], "count": times.shape[1]}
    fields |= {"stayed": int(np.isnan(times).sum()), "flows": times.size, **SIDES[side]}
    sentence = CLAIMS[key].format(**fields)
    if key == "students later" and times.shape[1] < FEW:
        return sentence.open(f"fewer than {FEW} students per size")
    statistic = log_rank(times[short], times[~short], float(data[f"{side}_time"][-1]))
    return sentence.at_least(statistic, stats.norm.ppf(1 - ORDER))


def _power(data: xr.Dataset, side: str, typical: xr.DataArray) -> Claim:
    """The exponent of the median time of leaving, against that of Eq. 116 at T = 1."""
    times = data[f"{side}_leaves"].transpose(side, "draw").fillna(np.inf)
    sizes = data[side].values
    expected = float(np.log(typical[-1] / typical[0]) / np.log(sizes[-1] / sizes[0]))
    fields = {"first": sizes[0], "last": sizes[-1], "count": times.sizes["draw"], **SIDES[side]}
    sentence, power = CLAIMS["power"].format(**fields), median_exponent(sizes, times.values)
    if not np.isfinite([*power]).all():
        return sentence.open("too few flows have left")
    within = power.high - power.value if expected > power.value else power.value - power.low
    return sentence.equals(power.value, expected, within)


def _exact_power(data: xr.Dataset) -> Claim:
    """The same in units of each flow's own exact τ, where that is far below the end."""
    sizes, names = data["left"].values, ("leaves", "tau")
    leaves, tau = (data[f"left_{name}"].transpose("left", "draw").values for name in names)
    soon = FAR * tau < float(data["left_time"][-1])
    rows = [leaves[i, soon[i]] / tau[i, soon[i]] for i in (0, -1)]
    power = median_exponent(sizes, [np.nan_to_num(row, nan=np.inf) for row in rows])
    sentence = CLAIMS["exact power"].format(first=sizes[0], last=sizes[-1])
    if not np.isfinite([*power]).all():
        return sentence.open("too few flows leave soon enough")
    folds = erf_uniform.length_remainder(int(sizes[-1])) / np.median(rows[0])
    within = (power.high - power.low) / 2 + folds / np.log(sizes[-1] / sizes[0])
    return sentence.equals(power.value, 0.0, within)


def _students(data: xr.Dataset, side: str, size: int) -> Claim:
    """Students over the flows from their starts, where these leave by two thirds of the time."""
    one, soon = data.sel({side: size}), float(data[f"{side}_time"][-1]) / 1.5
    count = one.sizes["simulated"]
    flow, tau = (one[f"{side}_{name}"].values[:count] for name in ("leaves", "tau"))
    early, leaves = flow < soon, one[f"{side}_student_leaves"].values
    sentence = CLAIMS["students"].format(size=size, count=early.sum(), **SIDES[side])
    if early.sum() < 2:
        return sentence.open("fewer than two flows with students leave early enough")
    ratio = xr.DataArray((leaves / flow)[early], dims="simulated")
    within = np.mean((tau / flow)[early]) + min(mean_bound(ratio, "simulated"), SCATTER)
    return sentence.equals(ratio.mean(), 1.0, within)
