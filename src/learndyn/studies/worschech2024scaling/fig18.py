"""Fig. 18: order parameters of higher power, R^(l) and Q^(l) with l = 4 and 6, on the plateau.

The start of Fig. 4, in the flow limit. Moments are sums over levels, so the levels are recorded.
Both presets have the paper's size. Eq. 98 as printed lacks a term in D^(l), which a drawn teacher
may have almost nothing of: it is judged over many teachers, by their exact plateaus.

Notes: docs/results/worschech2024scaling/fig18/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import curves, legend, panels
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_tolerance
from learndyn.studies.worschech2024scaling._erf import SIGMA_J, apart, plateau_system, spread
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics.moments import moment, traces
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.setting import CommitteeSetting

TITLE = "Order parameters of powers 4 and 6 on the plateau, L = 10, K = M = 4 (Fig. 18)"
DIFFERS = (
    "sizes are the paper's; β is not stated, here 0.25 as in Fig. 17; 20 more teachers are "
    "drawn for Eq. 98"
)
FIXED = "App. C.2, Fig. 18; exact fixed point"
CLAIMS = {
    "R": claim("R^({l}) on the plateau has the {M} heights of the fixed point", FIXED,
               because="spread of R over students; it acts on their mean at second order"),
    "distinct": claim("spread of the heights of R^({l}) over the spread of students at one",
                      "App. C.2, Fig. 18",
                      because="heights as wide as their distance would not be distinct"),
    "Q": claim("Q^({l}) on the plateau has one height, that of the fixed point", FIXED,
               because="σ_J² tr Σ^l / N of the start, and the deviations of two students"),
    "formula": claim("mean of {what}^({l}) on the plateaus of drawn teachers departs from the "
                     "printed Eq. 98 as the corrected one does: slope through zero",
                     "Eq. 98, Fig. 18", because="what is left of uneven T")
    .erratum("0: times T^(l)/T^(1), without D^(l)", 0.0),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; times are α, `settled` one on the plateau; `powers` are the l."""

    powers: tuple[int, ...] = (4, 6)
    L: int = 10
    M: int = 4
    N: int = 7000
    settled: float = 600.0
    end: float = 7000.0
    points: int = 701
    teachers: int = 20
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Moments along the flow from one start, and the fixed points of its teacher."""
    system = plateau_system(params.L, params.M, params.N)
    times = np.linspace(0, params.end, params.points)
    report(0.1)
    record = ld.solve(system, times, key=params.key, order="flow", states=True)
    report(0.9)
    first = params.teachers * params.key  # every key has its own teachers
    states = [ld.start(system, key=first + i).state for i in range(params.teachers)]
    rows = [_power(system, record, states, l) for l in params.powers]
    report(1.0)
    sizes = {"settled": params.settled, "L": params.L, "N": system.dim}
    return xr.concat(rows, xr.Variable("power", list(params.powers))).assign_attrs(sizes)


def _plateau(t: np.ndarray, lam: np.ndarray, l: int):
    """(R^(l), Q^(l)) on the plateau of a teacher: exact, by Eq. 98 corrected, and as printed."""
    T1, Tl = moment(t, lam, 1), moment(t, lam, l)
    (T, D), (T_l, D_l) = erf_uniform.uniform_part(T1), erf_uniform.uniform_part(Tl)
    exact, M = erf_plateau.plateau_state(t, lam), len(T1)
    corrected = erf_uniform.plateau_moments(T_l, D_l, T, D, M)
    both = moment(exact.R, lam, l), moment(exact.Q, lam, l)
    return both, corrected, errata.printed_eq98(T_l, T, D, M)


def _power(system: ld.System, record: xr.Dataset, states: list, l: int) -> xr.Dataset:
    """R^(l), Q^(l): along the way, on the plateau, and their means for drawn teachers."""
    spectrum = CommitteeSetting.of(system).spectrum
    lam, trace = spectrum.values, traces(spectrum.values, spectrum.counts / spectrum.dim)[l - 1]
    (R, Q), (R_98, Q_98), (R_printed, Q_printed) = _plateau(record["state_T"].values[0], lam, l)
    drawn = [_plateau(state.T, lam, l) for state in states]
    means = [[(R.mean(), Q.mean()), *formulas] for (R, Q), *formulas in drawn]
    names = ("drawn_exact", "drawn_98", "drawn_printed")
    return xr.Dataset(
        {
            "R": (("time", "student", "teacher"), moment(record["state_R"], lam, l)),
            "Q": (("time", "student", "student'"), moment(record["state_Q"], lam, l)),
            "R_exact": ("teacher", R[0]),
            "Q_exact": float(Q[0, 0]),
            "R_98": R_98,
            "Q_98": Q_98,
            "R_printed": R_printed,
            "Q_printed": Q_printed,
            "trace": trace,
            **{name: (("draw", "what"), np.array(means)[:, i]) for i, name in enumerate(names)},
        },
        {"time": record["time"], "what": ["R", "Q"]},
    )


def draw(data: xr.Dataset) -> Figure:
    """R and Q of each power, with the plateau enlarged."""
    figure, axes = panels(2 * data.sizes["power"])
    pairs = [(l, name) for l in data["power"].values for name in "RQ"]
    for axis, (l, name) in zip(axes, pairs, strict=True):
        one = data.sel(power=l)
        curves(axis, one[name])
        axis.set_ylabel(f"${name}^{{({l})}}$")
        _enlarge(axis.inset_axes((0.16, 0.46, 0.32, 0.48)), one, name)
    M, L, N = data.sizes["teacher"], data.attrs["L"], data.attrs["N"]
    axes[0].set_title(f"K = M = {M}, L = {L}, N = {N}, flow", fontsize=9)
    looks = {"exact": ("k", "--"), "Eq. 98, corrected": ("C3", ":"), "printed": ("C0", "-.")}
    styles = {label: {"color": color, "ls": ls, "lw": 1.2} for label, (color, ls) in looks.items()}
    legend(axes[1], styles, fontsize=7, loc="lower left")
    return figure


def _enlarge(inset: Axes, one: xr.Dataset, name: str) -> None:
    begin = one.attrs["settled"] - 250
    curves(inset, one[name].sel(time=slice(begin, begin + 600)))
    for height in np.atleast_1d(one[f"{name}_exact"]):
        inset.axhline(float(height), color="k", ls="--", lw=0.9)
    inset.axhline(float(one[f"{name}_98"]), color="C3", ls=":", lw=1.6)
    inset.axhline(float(one[f"{name}_printed"]), color="C0", ls="-.", lw=1.2)
    inset.set(xlabel="", ylabel="")
    inset.tick_params(labelsize=6)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """For each power: heights of R, one height of Q, and Eq. 98 as their means."""
    settled = data.sel(time=data.attrs["settled"])
    rows = [settled.sel(power=l) for l in data["power"].values]
    return [row for one in rows for row in (*_heights(one), _formula(one, "R"), _formula(one, "Q"))]


def _heights(one: xr.Dataset) -> list[Claim]:
    fields = {"l": int(one["power"]), "M": one.sizes["teacher"]}
    R, distinct, Q = (CLAIMS[name].format(**fields) for name in ("R", "distinct", "Q"))
    width, means, height = float(spread(one)), one["R"].mean("student"), float(one["Q_exact"])
    deviations = float(SIGMA_J**2 * one["trace"] + 2 * np.abs(apart(one)).max())
    values = one["Q"].values.ravel()
    farthest = values[np.argmax(np.abs(values - height))]
    return [
        R.equals(np.abs(means - one["R_exact"]).max(), 0.0, width),
        distinct.at_least(means.std() / width, 1.0),
        Q.equals(farthest, height, deviations),
    ]


def _formula(one: xr.Dataset, what: str) -> Claim:
    """Print and correction differ by D, which varies over teachers: a slope over them."""
    x, y = (
        (one[f"drawn_{form}"] / one["drawn_printed"] - 1).sel(what=what) for form in ("98", "exact")
    )
    line, count = ld.analysis.proportional(x, y), x.size
    slope = float(line[0] / x[0])
    error = float(np.sqrt(np.sum((y - line) ** 2) / (count - 1) / np.sum(x**2)))
    sentence = CLAIMS["formula"].format(what=what, l=int(one["power"]))
    return sentence.equals(slope, 1.0, student_tolerance(error, count, "teachers"))
