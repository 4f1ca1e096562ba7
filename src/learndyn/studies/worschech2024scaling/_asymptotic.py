"""Flows and students that have left the plateau: the left panel of Fig. 6."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.claims import Claim, claim
from learndyn.studies.statistics import LEVEL, mean_tolerance
from learndyn.studies.worschech2024scaling._erf import eigenvalues, leaving, predictions
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.late_stage import deviations
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.power_law import corrections, learning_curve
from learndyn.theory.committee.setting import CommitteeSetting

ALIGNED = 0.9  # overlap, as a cosine, from which on a student has found its teacher
FIT = 5  # fits are over the last factor 5 in α
VISIBLE = 0.2  # part of an exponent: if finite L changes it by more, a fit does not decide; chance
# counts up to this part only, since large scatter is no excuse
SETTLED = 4  # students are compared over the second half of α, if their flow left by a quarter
BESIDE = "Fig. 6 left: students beside flows"
RTOL, ATOL = 1e-5, 1e-8  # of flows
CLAIMS = {
    "ratio": claim("M = {M}, β = 1: error of students over that of their flows, second half",
                   BESIDE, rate=1 - LEVEL, because="order η, as for linear units, whose slope is "
                   "larger; Student's t, {count} students, 1 %"),
    "slope": claim("M = {M}, β = 1: exponent of students minus that of their flows there", BESIDE,
                   because="Student's t, {count} students, 1 %, at most a fifth of the exponent",
                   rate=1 - LEVEL),
}  # fmt: skip


def flow(system: ld.System, times: np.ndarray, key: int) -> xr.Dataset:
    """One flow, the late law of its teacher, and how far it has come.

    Args:
        system: K = M in the paper's scales.
        times: α, increasing.
        key: of teacher and student.

    Returns:
        error, law and law_from_escape over `point`; escape, when the error has fallen to half of
        the plateau's; distance |J − B|/|B| at the end; and where the fit begins the least alignment
        of a student with its teacher, and apart, the number of students that have none.
    """
    start, lam, end = ld.start(system, key=key), eigenvalues(system), times[-1]
    record = ld.solve(system, times, start=start, order="flow", rtol=RTOL, atol=ATOL)
    t, plateau = start.state.T, float(predictions(system, start.state)["error_exact"])
    T, left = moment(t, lam, 1), float(leaving(record, plateau, 0.5).fillna(end))
    eta = float(CommitteeSetting.of(system).rule.learning_rate)
    law = lambda alphas: erf_late.late_curve(alphas, t, T, lam, eta)
    # Summed over levels, the overlaps are those of one level with λ = 1.
    overlaps = lambda i: ld.Overlaps(record["Q"].values[i], record["R"].values[i], T)
    fitted = int(np.argmax(times >= end / FIT))
    first, last = (deviations.in_teachers_order(overlaps(i), [1.0]) for i in (fitted, -1))
    alignments = deviations.alignments(first, [1.0])
    curves = {
        "alpha_left": times,
        "error": record["error"].values,
        "law": law(times),
        "law_from_escape": law(np.maximum(times - left, 0)),
    }
    numbers = {
        "escape": left,
        "distance": deviations.distance(last, [1.0]),
        "alignment": float(np.min(alignments)),
        "apart": int(np.sum(alignments < ALIGNED)),
    }
    return xr.Dataset({name: ("point", values) for name, values in curves.items()} | numbers)


def students(system: ld.System, times: np.ndarray, keys: Sequence[int], key: int) -> xr.Dataset:
    """Simulated students of the starts `keys`, and the flows from them, at the same α."""
    times = np.unique(np.rint(times * system.dim)) / system.dim
    starts = [ld.start(system, key=each) for each in keys]
    runs = ld.simulate(system, times, starts=starts, key=key, method="direct")
    solve = lambda start: ld.solve(system, times, start=start, order="flow", rtol=RTOL, atol=ATOL)
    curves = {
        "student": runs["error"].isel(run=0).values,
        "student_flow": np.array([solve(start)["error"].values for start in starts]),
    }
    return xr.Dataset(
        {name: (("student_start", "moment"), values) for name, values in curves.items()},
        {"moment": ("moment", times, {"long_name": "α", "unit": "steps / N"})},
    )


def exponents(one: xr.Dataset, name: str) -> np.ndarray:
    """−d ln/d ln α over the last factor FIT, for every start."""
    alpha = one["alpha_left"].isel(start=0).values
    late = alpha >= alpha[-1] / FIT
    curves = one[name].transpose("start", "point").values[:, late]
    return np.array([-ld.analysis.fit_power_law(alpha[late], curve).slope for curve in curves])


def check_students(data: xr.Dataset) -> list[Claim]:
    """Students over the flows from their own starts, and their exponents, where flows are late."""
    end, beta = float(data["moment"][-1]), 1.0
    first = data.isel(case=[float(each) for each in data["beta"]].index(beta))
    soon = first["escape"].values[: data.sizes["student_start"]] <= end / SETTLED
    fields = {"M": data.attrs["M"], "count": int(soon.sum())}
    over, less = (CLAIMS[name].format(**fields) for name in ("ratio", "slope"))
    if soon.sum() < 2:
        return [each.open("too few flows have left by a quarter") for each in (over, less)]
    part = data.isel(moment=(data["moment"] >= end / 2).values, student_start=soon)
    ratio = (part["student"] / part["student_flow"]).mean("moment")
    slope = lambda row: ld.analysis.fit_power_law(part["moment"].values, row).slope
    slopes = (np.array([*map(slope, part[name].values)]) for name in ("student_flow", "student"))
    gap = np.subtract(*slopes)
    noise, s = corrections.noise_factor(data.attrs["eta"]) - 1, learning_curve.exponent(beta)
    return [
        over.equals(ratio.mean(), 1.0, noise + mean_tolerance(ratio).value),
        less.equals(gap.mean(), 0.0, min(mean_tolerance(gap).value, VISIBLE * s)),
    ]
