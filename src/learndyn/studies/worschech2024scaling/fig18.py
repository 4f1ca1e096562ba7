"""Fig. 18: order parameters of higher power, R^(l) and Q^(l) with l = 4 and 6, on the plateau.

The start of Fig. 4, flow limit. Moments are sums over levels, so the levels are kept along the
way. The quick preset is the paper's size. Eq. 98 as printed is wrong by a term in D^(l), which a
drawn teacher may have next to nothing of (it then missed by too little, at 6 keys of 20): it is
judged over many teachers, by their exact plateaus.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import curves, legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_bound
from learndyn.studies.worschech2024scaling._erf import SIGMA_J, apart, plateau_system, spread
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics.moments import moment, traces
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.setting import Setting

LEVEL = 0.01  # chance of a false alarm in each claim over teachers
TITLE = "Order parameters of powers 4 and 6 on the plateau, L = 10, K = M = 4 (Fig. 18)"


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
    first = params.teachers * params.key  # every key has teachers of its own
    states = [ld.start(system, key=first + i).state for i in range(params.teachers)]
    rows = [
        _moments(system, record, l).merge(_of_teachers(system, states, l)) for l in params.powers
    ]
    report(1.0)
    sizes = {"settled": params.settled, "L": params.L, "N": system.dim}
    return xr.concat(rows, xr.Variable("power", list(params.powers))).assign_attrs(sizes)


def _moments(system: ld.System, record: xr.Dataset, l: int) -> xr.Dataset:
    """R^(l), Q^(l): along the way, exact on the plateau, and by Eq. 98 corrected and printed."""
    spectrum, t = Setting.of(system).spectrum, record["state_T"].values[0]
    lam, M = spectrum.values, t.shape[1]
    T1, Tl = moment(t, lam, 1), moment(t, lam, l)
    (T, D), (T_l, D_l) = erf_uniform.uniform_part(T1), erf_uniform.uniform_part(Tl)
    exact = erf_plateau.plateau_state(t, lam)
    R_98, Q_98 = erf_uniform.plateau_moments(T_l, D_l, T, D, M)
    R_printed, Q_printed = errata.printed_eq98(T_l, T, D, M)
    return xr.Dataset(
        {
            "R": (("time", "student", "teacher"), moment(record["state_R"], lam, l)),
            "Q": (("time", "student", "student'"), moment(record["state_Q"], lam, l)),
            "R_exact": ("teacher", moment(exact.R, lam, l)[0]),
            "Q_exact": float(moment(exact.Q, lam, l)[0, 0]),
            "R_98": R_98,
            "Q_98": Q_98,
            "R_printed": R_printed,
            "Q_printed": Q_printed,
            "trace": traces(lam, spectrum.counts / spectrum.dim)[l - 1],
        },
        {"time": record["time"]},
    )


def _of_teachers(system: ld.System, states: list[ld.Overlaps], l: int) -> xr.Dataset:
    """Means of R^(l) and Q^(l) on the plateaus of drawn teachers: exact, by Eq. 98, as printed."""
    lam, found = Setting.of(system).spectrum.values, []
    for state in states:
        T1, Tl = moment(state.T, lam, 1), moment(state.T, lam, l)
        (T, D), (T_l, D_l) = erf_uniform.uniform_part(T1), erf_uniform.uniform_part(Tl)
        exact, M = erf_plateau.plateau_state(state.T, lam), len(T1)
        means = moment(exact.R, lam, l).mean(), moment(exact.Q, lam, l).mean()
        corrected = erf_uniform.plateau_moments(T_l, D_l, T, D, M)
        found.append([means, corrected, errata.printed_eq98(T_l, T, D, M)])
    names = ("drawn_exact", "drawn_98", "drawn_printed")
    table = np.array(found)
    parts = {name: (("draw", "what"), table[:, i]) for i, name in enumerate(names)}
    return xr.Dataset(parts, {"what": ["R", "Q"]})


def draw(data: xr.Dataset) -> Figure:
    """R and Q of each power, with the plateau enlarged."""
    figure, axes = panels(2 * data.sizes["power"])
    pairs = [(l, name) for l in data["power"].values for name in "RQ"]
    for axis, (l, name) in zip(axes, pairs, strict=True):
        one = data.sel(power=l)
        curves(axis, one[name])
        axis.set_ylabel(f"${name}^{{({l})}}$")
        _enlarge(axis.inset_axes((0.16, 0.46, 0.32, 0.48)), one, name)
    axes[0].set_title(
        f"K = M = {data.sizes['teacher']}, L = {data.attrs['L']}, N = {data.attrs['N']}, flow",
        fontsize=9,
    )
    looks = {"exact": ("k", "--"), "Eq. 98, corrected": ("C3", ":"), "printed": ("C0", "-.")}
    styles = {label: {"color": color, "ls": ls, "lw": 1.2} for label, (color, ls) in looks.items()}
    legend(axes[1], styles, fontsize=7, loc="lower left")
    return figure


def _enlarge(inset, one: xr.Dataset, name: str) -> None:
    begin = one.attrs["settled"] - 250
    curves(inset, one[name].sel(time=slice(begin, begin + 600)))
    for height in np.atleast_1d(one[f"{name}_exact"]):
        inset.axhline(float(height), color="k", ls="--", lw=0.9)
    inset.axhline(float(one[f"{name}_98"]), color="C3", ls=":", lw=1.6)
    inset.axhline(float(one[f"{name}_printed"]), color="C0", ls="-.", lw=1.2)
    inset.set(xlabel="", ylabel="")
    inset.tick_params(labelsize=6)


def check(data: xr.Dataset) -> list[Claim]:
    """For each power: heights of R, one height of Q, and Eq. 98 as their means."""
    settled = data.sel(time=data.attrs["settled"])
    rows = [settled.sel(power=l) for l in data["power"].values]
    return [claim for one in rows for claim in (*_heights(one), *_formulas(one))]


def _heights(one: xr.Dataset) -> list[Claim]:
    l, M, width = int(one["power"]), one.sizes["teacher"], float(spread(one))
    gaps = np.abs(one["R"].mean("student") - one["R_exact"])
    apart_from_it = float(SIGMA_J**2 * one["trace"] + 2 * np.abs(apart(one)).max())
    height = float(one["Q_exact"])
    figure = "App. C.2, Fig. 18"
    fixed = f"{figure}; exact fixed point"
    return [
        claim(f"R^({l}) on the plateau has the {M} heights of the fixed point", fixed).equals(
            gaps.max(), 0.0, within=width,
            because="spread of R over students; it acts on their mean at second order",
        ),
        claim(f"spread of the heights of R^({l}) over the spread of students at one", figure)
        .at_least(
            one["R"].mean("student").std() / width, 1.0,
            because="heights as wide as their distance would not be distinct",
        ),
        claim(f"Q^({l}) on the plateau has one height, that of the fixed point", fixed).equals(
            _farthest(one["Q"], height), height, within=apart_from_it,
            because="σ_J² tr Σ^l / N of the start, and the deviations of two students",
        ),
    ]  # fmt: skip


def _farthest(values: xr.DataArray, height: float) -> float:
    flat = values.values.ravel()
    return float(flat[np.argmax(np.abs(flat - height))])


def _formulas(one: xr.Dataset) -> list[Claim]:
    """Print and correction differ by D, which one teacher has or has not: a slope over teachers."""
    return [_formula(one.sel(what=what), str(what)) for what in one["what"].values]


def _formula(one: xr.Dataset, what: str) -> Claim:
    x, y = (one[f"drawn_{form}"] / one["drawn_printed"] - 1 for form in ("98", "exact"))
    line, count = ld.analysis.proportional(x, y), x.size
    slope = float(line[0] / x[0])
    error = float(np.sqrt(np.sum((y - line) ** 2) / (count - 1) / np.sum(x**2)))
    l = int(one["power"])
    said = f"mean of {what}^({l}) on the plateaus of drawn teachers departs from the printed "
    said += "Eq. 98 as the corrected one does: slope through zero"
    text = "0: times T^(l)/T^(1), without D^(l)"
    return (
        claim(said, "Eq. 98, Fig. 18")
        .erratum(text, 0.0)
        .equals(
            slope,
            1.0,
            within=student_bound(count, level=LEVEL) * error,
            because=f"what is left of uneven T, Student t over {count} teachers, {LEVEL:.0%}",
            rate=1 - LEVEL,
        )
    )
