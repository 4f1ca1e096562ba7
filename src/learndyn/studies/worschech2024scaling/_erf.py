"""What figures of erf committees share: the plateau (4 to 6, 17 to 19), the late stage (6, 20).

How far students are from each other is measured by R minus its mean over students, which is zero on
the plateau itself.
"""

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.late_stage import deviations, erf_hessian, erf_symmetric
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.setting import CommitteeSetting

BETA, ETA, SIGMA_J = 0.25, 0.1, 0.01  # stated for Figs. 17 and 19; Figs. 4 and 18 do not state β
LATE_M, LATE_ETA, LATE_BETA = 2, 0.25, 1.0  # of Figs. 6, right, and 20
SETTLED = "how much the error still changes: |dε/dα| · max(α, τ/2)"
LAST = 2.0  # e-folds over which growth is fitted
SETTLING = 2.0  # times τ, after which decaying deviations are gone
LINEAR = 0.02  # deviations from the plateau count as small up to this fraction of R*


def plateau_system(L: int, M: int, N: int, sigma_J: float = SIGMA_J) -> ld.System:
    """K = M units and L levels; N is rounded down to a multiple of L."""
    inputs = ld.PowerLaw(N // L * L, L, BETA)
    return committee_system("erf", inputs, K=M, M=M, eta=ETA, sigma_J=sigma_J)


def eigenvalues(system: ld.System) -> np.ndarray:
    """λ_k of the inputs."""
    return CommitteeSetting.of(system).spectrum.values


def predictions(system: ld.System, state: ld.Overlaps) -> xr.Dataset:
    """Heights and growth times of the plateau for the teacher of a state, with K = M.

    Returns:
        R, Q, error and the M − 1 growth times in α, exact and by Eqs. 13, 95, 99 and 116, as the
        endings say; and the unevenness of T^(1) and T^(2).
    """
    lam, eta = eigenvalues(system), float(CommitteeSetting.of(system).rule.learning_rate)
    T1, T2 = (moment(state.T, lam, l) for l in (1, 2))
    M, (T, D), (T_2, D_2) = len(T1), erf_uniform.uniform_part(T1), erf_uniform.uniform_part(T2)
    exact = erf_plateau.plateau_state(state.T, lam)
    R, Q = moment(exact.R, lam, 1)[0], float(moment(exact.Q, lam, 1)[0, 0])
    R_13, Q_13 = erf_uniform.plateau_overlaps(T, D, M)
    R_95, Q_95 = erf_uniform.approximate_overlaps(T1)
    numbers = {
        "R_exact": ("teacher", R),
        "R_95": ("teacher", R_95),
        "R_13": R_13,
        "Q_exact": Q,
        "Q_95": Q_95,
        "Q_13": Q_13,
        "error_exact": erf_plateau.equal_students_error(Q, R, T1),
        "error_95": erf_plateau.equal_students_error(Q_95, R_95, T1),
        "error_99": erf_uniform.plateau_error(T, D, M),
        "times_exact": ("mode", 1 / (eta * erf_plateau.escape_rates(T1, T2)[: M - 1])),
        "time_116": erf_uniform.escape_time(T, D, T_2, D_2, M, eta),
        "uneven_1": erf_uniform.unevenness(T1),
        "uneven_2": erf_uniform.unevenness(T2),
    }
    return xr.Dataset(numbers)


def leaving(record: xr.Dataset, plateau_error: float, fraction: float) -> xr.DataArray:
    """α at which the error falls to a fraction of the plateau's; NaN where it does not.

    All runs of the record begin with the same error.
    """
    first = float(record["error"].isel(time=0).mean())
    return ld.analysis.fall_time(record, fraction=fraction * plateau_error / first)


def apart(record: xr.Dataset) -> xr.DataArray:
    """R minus its mean over students."""
    return record["R"] - record["R"].mean("student")


def spread(record: xr.Dataset) -> xr.DataArray:
    """Root mean square of R minus its mean over students, at every time."""
    return (apart(record) ** 2).mean(["student", "teacher"]) ** 0.5


def growth_time(record: xr.Dataset, begin: float, R_star: float) -> float:
    """The e-folding time in α of the students' deviations while they are small.

    Differences in time are fitted, so that constant deviations drop out.

    Args:
        record: with R at equally spaced times.
        begin: the earliest beginning of the fit.
        R_star: the plateau; the fit ends where a deviation exceeds LINEAR times it, and begins LAST
            e-folds below, where decaying and slowly growing deviations are negligible.
    """
    largest = abs(apart(record)).max(["student", "teacher"])
    small = largest <= LINEAR * R_star
    grown = largest >= LINEAR * R_star * np.exp(-LAST)
    window = max(begin, float(record["time"][grown].min())), float(record["time"][small].max())
    steps = apart(record).diff("time")
    size = (steps**2).sum(["student", "teacher"]) ** 0.5
    return 1 / ld.analysis.fit_rate(size["time"].values, size.values, window=window).slope


def linear_stage(record: xr.Dataset, tau: float, R_star: float) -> dict[str, float]:
    """How long the students' spread grows linearly, for the mean growth time and the plateau.

    Returns:
        `linear_sigma`, the spread at α = SETTLING · τ, and `linear_length`, from there until it is
        LINEAR · R*; NaN where that is not in the record.
    """
    size, level = spread(record), LINEAR * R_star
    times, logs = record["time"].values, np.log(size.values / level)
    begin = SETTLING * tau
    beyond = np.flatnonzero((logs >= 0) & (times > begin))
    sigma = float(level * np.exp(np.interp(begin, times, logs)))
    if not len(beyond) or sigma >= level:
        return {"linear_sigma": sigma, "linear_length": float("nan")}
    around = slice(beyond[0] - 1, beyond[0] + 1)
    end = float(np.interp(0.0, logs[around], times[around]))
    return {"linear_sigma": sigma, "linear_length": end - begin}


def linear_folds(one: xr.Dataset, R_star: float) -> tuple[float, float]:
    """Expected e-folds of the linear stage, ln(LINEAR R*/σ), and their tolerance.

    The M − 1 growth times mix, and the growth is linear up to LINEAR.
    """
    times = one["times_exact"]
    folds = erf_uniform.escape_length(1.0, LINEAR * R_star, float(one["linear_sigma"]))
    return folds, folds * float((times.max() - times.min()) / (2 * times.mean())) + LINEAR


def flattest_point(record: xr.Dataset, tau: float) -> dict[str, float]:
    """Where the error changes least on its plateau: height, time, and a bound on its distance.

    Decaying deviations (faster than 1/α by then) and escaping ones (at 2/τ) both lower the error
    exponentially: its distance from the fixed point is at most |dε_g/dα| · max(α, τ/2).

    Args:
        record: with the error at equally spaced times.
        tau: the slowest growth time.
    """
    plateau = ld.analysis.find_plateau(record)
    on_it = record["error"].sel(time=slice(plateau.start, plateau.end))
    slope = abs(on_it.differentiate("time"))
    flattest = float((slope * on_it["time"]).idxmin("time"))
    distance = float(slope.sel(time=flattest)) * max(flattest, tau / 2)
    return {"height": float(on_it.sel(time=flattest)), "flattest": flattest, "distance": distance}


def late_stage(L: int, N: int, times: np.ndarray, alpha_0: float, key: int) -> xr.Dataset:
    """The flow's error, and the equations of the late stage from its state at α₀.

    Args:
        L: number of eigenvalues.
        N: input dimension.
        times: α, increasing; `alpha_0` is among them.
        alpha_0: where the equations begin.
        key: seed of teacher and student.

    Returns:
        Over time: error; eq121, the first-order error of the flow's own r, s, q, c; leading, the
        error to leading order in J − B; distance |J − B|/|B|; and from α₀ on, NaN before,
        eq122, linear (the same for the drawn T) and hessian. Also slow_rate, the smallest decay
        rate per α of `linear`.
    """
    inputs, M, eta = ld.PowerLaw(N, L, LATE_BETA), LATE_M, LATE_ETA
    lam, system = inputs.values, committee_system("erf", inputs, K=M, M=M, eta=eta, sigma_J=SIGMA_J)
    # The error falls to 10⁻⁷.
    flow = ld.solve(system, times, key=key, order="flow", states=True, rtol=1e-10, atol=1e-14)
    blocks = zip(*(flow[f"state_{name}"].values for name in "QRT"), strict=True)
    states = [deviations.in_teachers_order(ld.Overlaps(*each), lam) for each in blocks]
    first = int(np.argmin(np.abs(times - alpha_0)))
    begin, since = states[first], times[first:] - times[first]
    T = moment(begin.T, lam, 1)
    after = lambda curve: np.concatenate([np.full(first, np.nan), curve])
    rows = {
        "error": flow["error"].values,
        "eq121": [erf_symmetric.state_error(state, lam) for state in states],
        "leading": [erf_hessian.end_curve([0.0], state, lam, eta)[0] for state in states],
        "distance": [deviations.distance(state, lam) for state in states],
        "eq122": after(erf_symmetric.late_curve(since, begin, lam, eta)),
        "linear": after(erf_late.late_curve(since, deviations.deviation(begin), T, lam, eta)),
        "hessian": after(erf_hessian.end_curve(since, begin, lam, eta)),
    }
    curves = {name: ("time", np.asarray(values)) for name, values in rows.items()}
    coords = {"time": ("time", times, {"long_name": "α", "unit": "steps / N"})}
    slow_rate = eta * erf_late.late_modes(begin.T, T, lam)[0].min()
    return xr.Dataset(curves, coords).assign(slow_rate=slow_rate)
