"""What Figs. 4 and 17 to 19 share: the system, predictions for its teacher, measurements.

Measured are students apart from each other: R minus its mean over students has no part in the
plateau itself.
"""

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.numerics.types import Int
from learndyn.problems import Spectrum
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.setting import Setting
from learndyn.theory.committee.state import Overlaps

BETA, ETA, SIGMA_J = 0.25, 0.1, 0.01
SETTLED = "what the error still changes: |dε/dα| · max(α, τ/2)"
FOLDS = "1 + ln M e-folds: the largest of M² deviations leaves first, and growth ends non-linear"
LINEAR = 0.02  # deviations from the plateau count as small up to this share of R*


def plateau_system(L: int, M: int, N: int, sigma_J: float = SIGMA_J) -> ld.System:
    """K = M units and L levels; N goes down to the next multiple of L."""
    inputs = ld.PowerLaw(N // L * L, L, BETA)
    return committee_system("erf", inputs, K=M, M=M, eta=ETA, sigma_J=sigma_J)


def spectrum_of(system: ld.System) -> Spectrum:
    """The levels of a system's inputs."""
    return Setting.of(system).spectrum


def predictions(system: ld.System, state: Overlaps) -> xr.Dataset:
    """Heights and times of the plateau for the teacher of a state: exact, and by the paper.

    Args:
        system: of `plateau_system`.
        state: whose T is taken.

    Returns:
        R, Q, error and times (of growth, in α, M − 1 of them) with the endings _exact, _13, _95,
        _99, _116, and the unevenness of T^(1) and T^(2).
    """
    lam = spectrum_of(system).values
    T1, T2 = (moment(state.T, lam, l) for l in (1, 2))
    M, (T, D), (T_2, D_2) = len(T1), erf_uniform.uniform_part(T1), erf_uniform.uniform_part(T2)
    exact = erf_plateau.plateau_state(state.T, lam)
    R, Q = moment(exact.R, lam, 1)[0], float(moment(exact.Q, lam, 1)[0, 0])
    R_13, Q_13 = erf_uniform.plateau_overlaps(T, D, M)
    R_95, Q_95 = erf_uniform.approximate_overlaps(T1)
    rates = ETA * erf_plateau.escape_rates(T1, T2)[: M - 1]
    found = {
        "R_exact": ("teacher", R),
        "R_95": ("teacher", R_95),
        "R_13": R_13,
        "Q_exact": Q,
        "Q_95": Q_95,
        "Q_13": Q_13,
        "error_exact": error_of(Q, R, T1),
        "error_95": error_of(Q_95, R_95, T1),
        "error_99": erf_uniform.plateau_error(T, D, M),
        "error_99_printed": errata.printed_eq99(T, D, M),
        "times_exact": ("mode", 1 / rates),
        "time_116": erf_uniform.escape_time(T, D, T_2, D_2, M, ETA),
        "uneven_1": erf_uniform.unevenness(T1),
        "uneven_2": erf_uniform.unevenness(T2),
    }
    return xr.Dataset(found)


def error_of(Q: float, R: np.ndarray, T: np.ndarray) -> float:
    """ε_g of equal students with overlaps Q and R_n, for pre-activations of covariance T."""
    M = len(T)
    theory = ld.theory_of(plateau_system(1, M, 1000))
    state = Overlaps(np.full((M, M), Q), np.tile(R, (M, 1)), T)
    return float(theory.observe(state)["error"])


def apart(record: xr.Dataset) -> xr.DataArray:
    """R minus its mean over students."""
    return record["R"] - record["R"].mean("student")


def spread(record: xr.Dataset) -> xr.DataArray:
    """Root mean square of R minus its mean over students, at every time."""
    return (apart(record) ** 2).mean(["student", "teacher"]) ** 0.5


def growth_time(record: xr.Dataset, begin: float, R_star: float) -> float:
    """The e-folding time in α of the students' deviations while they are small.

    Differences in time are fitted: deviations that neither grow nor decay drop out.

    Args:
        record: with R at equally spaced times.
        begin: of the fit.
        R_star: the plateau; the fit ends where a deviation exceeds LINEAR times it.

    Returns:
        The time.
    """
    small = abs(apart(record)).max(["student", "teacher"]) <= LINEAR * R_star
    window = begin, float(record["time"][small].max())
    steps = apart(record).diff("time")
    size = (steps**2).sum(["student", "teacher"]) ** 0.5
    return 1 / ld.analysis.fit_rate(size["time"].values, size.values, window=window).slope


def flattest_point(record: xr.Dataset, tau: float) -> dict[str, float]:
    """Where the error changes least on its plateau: height, time, and distance at most.

    What relaxes (faster than 1/α by then) and what escapes (at 2/τ) both lessen the error,
    exponentially: its distance from the fixed point is at most |dε_g/dα| · max(α, τ/2).

    Args:
        record: with the error at equally spaced times.
        tau: the slowest time of growth.

    Returns:
        `height`, `flattest`, `distance`.
    """
    plateau = ld.analysis.find_plateau(record)
    on_it = record["error"].sel(time=slice(plateau.start, plateau.end))
    slope = abs(on_it.differentiate("time"))
    flattest = float((slope * on_it["time"]).idxmin("time"))
    distance = float(slope.sel(time=flattest)) * max(flattest, tau / 2)
    return {
        "height": float(on_it.sel(time=flattest)),
        "flattest": flattest,
        "distance": distance,
    }


def departure(record: xr.Dataset, R_star: float) -> float:
    """α_P of App. C.4: when the largest R first reaches e R*; NaN where it never does."""
    largest, times = record["R"].max(["student", "teacher"]).values, record["time"].values
    level = R_star + departure_size(R_star)
    beyond = np.flatnonzero(largest >= level)
    if not len(beyond):
        return float("nan")
    around = slice(beyond[0] - 1, beyond[0] + 1)
    return float(np.interp(level, largest[around], times[around]))


def departure_size(R_star: float) -> float:
    """B of App. C.4, from R* to e R*."""
    return (np.e - 1) * R_star


def length_prediction(tau: float, R_star: float, sigma_P: float) -> float:
    """α_P − α_0 by τ ln(B/σ_P)."""
    return erf_uniform.escape_length(tau, departure_size(R_star), sigma_P)


def printed_length(tau: float, R_star: float, sigma_P: float, N: Int) -> float:
    """α_P − α_0 as App. C.4 computes it: half of τ_esc, and ½ ln N besides a σ_P ∝ 1/√N."""
    constant = np.log(departure_size(R_star) * SIGMA_J / sigma_P)
    return erf_uniform.plateau_length(tau / 2, constant, SIGMA_J, N)


def folds_tolerance(M: int) -> float:
    """By how much ln(B/σ_P) may miss the e-folds of the plateau; see FOLDS."""
    return float(1 + np.log(M))
