"""Measurements for `equations`: each equation by something that does not contain it.

The field `what` of the rows is only a detail here; `equations` has the names of the quantities.
"""

import dataclasses

import equinox as eqx
import numpy as np
from scipy import stats

import learndyn as ld
from learndyn.numerics.gaussian import ACTIVATIONS
from learndyn.numerics.quadrature import gaussian_average
from learndyn.runtime.precision import in_float64
from learndyn.simulation import measure_drift
from learndyn.solving.fixed_points import find_fixed_point, jacobian_spectrum
from learndyn.studies.printed import Row
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import moments
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.late_stage import erf_symmetric
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.power_law import features, learning_curve
from learndyn.theory.committee.setting import CommitteeSetting

Z = 3.3  # standard errors that an average may be off: one in a thousand
ROUNDING = 1e-9  # relative, of dense algebra and Newton
SPECTRUM = ld.PowerLaw(200, 2, 1.0)
LAM, PHI = SPECTRUM.values, SPECTRUM.counts / SPECTRUM.dim
COVARIANCE = np.array(
    [[1.0, 0.4, 0.5, 0.2], [0.4, 0.8, 0.3, 0.5], [0.5, 0.3, 1.2, 0.6], [0.2, 0.5, 0.6, 0.9]]
)
UNIFORM = (0.3, 0.15), (0.2, -0.05)  # T and off-diagonal row sum D of each level


@dataclasses.dataclass(frozen=True)
class Params:
    """Linear students trained, SGD steps averaged, samples of the pre-activations."""

    runs: int = 200
    trials: int = 40_000
    samples: int = 400_000
    key: int = 0


def _students(params: Params) -> list[Row]:
    """Eq. 6 against linear students at η = 1/2."""
    eta, alpha = 0.5, 2.0
    system = committee_system("linear", SPECTRUM, eta=eta, sigma_J=1.0, typical=True)
    phi = PHI[:, None, None]
    start, times = ld.start(system, state=ld.Overlaps(phi, 0 * phi, phi)), [0.0, alpha]
    runs = {"runs": params.runs, "key": params.key, "method": "direct", "dtype": "float64"}
    last = ld.simulate(system, times, start=start, **runs)["error"].isel(time=-1).values
    exact = lambda order: ld.solve(system, times, start=start, order=order)["error"].values[-1]
    right = exact("full")
    error = Z * last.std(ddof=1) / np.sqrt(params.runs) + abs(exact("finite") - right)
    printed = errata.printed_eq6(np.array([alpha]), SPECTRUM, eta, 1.0)[0]
    how = f"{params.runs} students, N = {SPECTRUM.dim}"
    return [Row("6", "", how, last.mean(), error, right, printed)]


def _features(params: Params) -> list[Row]:
    """Eq. 11 against the sum of Eq. 10."""
    L, n, alpha, beta = 1000, 50, 100.0, 1.0
    given, lam = units(L, beta, eta=0.01, sigma_J=0.01), ld.PowerLaw(L, L, beta).values
    measured = features.error(alpha, lam, n, eta=0.01, sigma_J=0.01)
    forms = (form(alpha, n, **given) for form in (features.error_integral, errata.printed_eq79))
    # Euler-Maclaurin: half of the summand at each end of both integrals.
    ends = float(learning_curve.end_correction(alpha, **{**given, "L": n})) * n / L
    return [Row("11", "", "the sum of Eq. 10", measured, 2 * abs(ends), *forms)]


def _steps(params: Params) -> list[Row]:
    """Eq. 18 against the mean of single SGD steps, so large that their part ∝ η² outweighs ∝ η."""
    eta, K, M = 20.0, 2, 3
    system = committee_system("erf", SPECTRUM, K=K, M=M, eta=eta, sigma_J=0.5)
    start, found, error, how = _drift(system, params)
    state = moments.moments_of(start.state, LAM)
    right, printed = (form(state, LAM, PHI, eta) for form in (moments.drift, errata.printed_eq18))
    flow = moments.drift(state, LAM, PHI, eta, "erf", "flow").Q[0, 0, 0]
    noise = [m.Q[0, 0, 0] - flow for m in (found, right, printed)]
    advance = in_float64(eqx.filter_jit(lambda theory, state: theory.advance(state)))
    ahead = moments.moments_of(advance(ld.theory_of(system), start.state), LAM)
    finite = SPECTRUM.dim * (ahead.Q - state.Q)[0, 0, 0]  # the exact mean of a step at this N
    off = error.Q[0, 0, 0] + abs(finite - right.Q[0, 0, 0])
    return [
        Row("18, dR", "", how, *(m.R[0, 0, 0] / eta for m in (found, error, right, printed))),
        Row("18, dQ", "", how, *(x / eta**2 for x in (noise[0], off, *noise[1:]))),
    ]


def _last_power(params: Params) -> list[Row]:
    """Eq. 25 against the mean of single SGD steps."""
    eta = 0.3
    system = committee_system("linear", SPECTRUM, eta=eta, sigma_J=0.5)
    start, found, error, how = _drift(system, params)
    state = moments.moments_of(start.state, LAM)
    right = moments.drift(state, LAM, PHI, eta, "linear").R[-1, 0, 0]
    printed = errata.printed_eq25(state, LAM, PHI, eta)[0][0, 0]
    values = found.R[-1, 0, 0], error.R[-1, 0, 0], right, printed
    return [Row("25", "", how, *values)]


def _drift(system: ld.System, params: Params):
    """A start, the mean drift of its moments, and its error, as if all levels erred together."""
    start = ld.start(system, key=params.key)
    drift = measure_drift(system, start, trials=params.trials, key=params.key)
    mean, error = (moments.moments_of(part, LAM) for part in drift)
    error = moments.Moments(*(Z * np.asarray(x) for x in (error.Q, error.R, error.T)))
    return start, mean, error, f"{params.trials} SGD steps, N = {SPECTRUM.dim}"


def _samples(params: Params) -> list[Row]:
    """Eq. 19 against samples of the pre-activations."""
    K, M, count = 2, 3, params.samples
    system = committee_system("erf", SPECTRUM, K=K, M=M, eta=1.0, sigma_J=0.7)
    overlaps, setting = ld.start(system, key=params.key).state, CommitteeSetting.of(system)
    state, C = moments.moments_of(overlaps, LAM), moments.moment(overlaps.gram, LAM, 1)
    drawn = np.random.default_rng(params.key).standard_normal((count, K + M))
    scales = [-float(setting.student.scale)] * K + [float(setting.teacher.scale)] * M
    loss = (_erf(drawn @ np.linalg.cholesky(C).T) @ scales) ** 2 / 2
    error = Z * loss.std() / np.sqrt(count)
    forms = moments.error(state, LAM), errata.printed_eq19(state, LAM)
    return [Row("19", "", f"{count} samples", loss.mean(), error, *forms)]


def _erf(z: np.ndarray) -> np.ndarray:
    return 2 * stats.norm.cdf(z) - 1


def _dense(params: Params) -> list[Row]:
    """Eq. 91 against a product rule of Gauss and Hermite, Eq. 44 against a dense inverse."""
    slopes = lambda z: (2 * stats.norm.pdf(z)).prod(axis=1)
    product = lambda z: slopes(z[:, :2]) * _erf(z[:, 2:]).prod(axis=1)
    coarse, fine = (gaussian_average(product, COVARIANCE, nodes) for nodes in (14, 20))
    eta, spectrum = 1.0, ld.PowerLaw(40, 4, 1.0)
    lam, phi = spectrum.values, spectrum.counts / spectrum.dim
    corner = float(np.linalg.inv(moments.student_matrix(lam, phi, eta))[0, 0])
    fourth = in_float64(lambda form: float(form(COVARIANCE)))
    forms, off = map(fourth, (ACTIVATIONS["erf"].I4, errata.printed_eq91)), ROUNDING * abs(corner)
    corners = moments.inverse_corner(lam, eta), errata.printed_eq44(lam, eta)
    return [
        Row("91", "", "Gauss-Hermite rule", fine, abs(fine - coarse), *forms),
        Row("44", "", "dense inverse", corner, off, *corners),
    ]


def _plateau(params: Params) -> list[Row]:
    """Eqs. 98, 99 and 115 against Newton and the error itself, for a uniform T with D ≠ 0."""
    M, eta = 3, 0.3
    theory = ld.theory_of(committee_system("erf", SPECTRUM, K=M, M=M, eta=eta, sigma_J=1.0))
    t = np.stack([erf_uniform.uniform_overlaps(T, D, M) for T, D in UNIFORM])
    (T1, D1), (T2, D2) = (erf_uniform.uniform_part(moments.moment(t, LAM, l)) for l in (1, 2))
    mean = np.full((M, M), 1 / M)  # students that are the mean of the teachers
    begin = ld.Overlaps(mean @ t @ mean, mean @ t, t)
    found = find_fixed_point(theory, begin, symmetry=erf_plateau.equal_students).state
    R2 = float(moments.moment(found.R, LAM, 2)[0, 0])
    forms = erf_uniform.plateau_moments(T2, D2, T1, D1, M), errata.printed_eq98(T2, T1, D1, M)
    height = float(theory.observe(found)["error"])
    errors = erf_uniform.plateau_error(T1, D1, M), errata.printed_eq99(T1, D1, M)
    how = f"Newton, uniform T, M = {M}"
    return [
        Row("98", "", how, R2, ROUNDING * R2, *(float(form[0]) for form in forms)),
        Row("99", "", how, height, ROUNDING * height, *errors),
        _depth(theory, t, height, T1, D1),
    ]


def _depth(theory, t: np.ndarray, height: float, T: float, D: float) -> Row:
    """How far below the plateau's the error is when students part from each other a little."""
    M, found = t.shape[1], theory.observe(erf_plateau.near_plateau(t, LAM, 1e-3))
    R, measured = np.asarray(found["R"])[0], height - float(found["error"])
    r0 = float(R[0] - R.mean())
    both = erf_uniform.error_escape, errata.printed_eq115
    forms = (form(0.0, r0, 1.0, T, D, M) for form in both)
    error = measured * r0 / R.mean()  # the next order is r₀/R*
    return Row("115", f", r₀ = {r0:.2g}", "Eq. 19 by level", measured, error, *forms)


def _late(params: Params) -> list[Row]:
    """Eqs. 17, 122 and 120 for M = 3 against the Jacobian at a typical teacher."""
    M, t = 3, PHI[:, None, None] * np.eye(3)
    system = lambda eta: committee_system("erf", SPECTRUM, K=M, M=M, eta=eta, sigma_J=1.0)
    teacher = ld.Overlaps(t, t, t)
    spectrum = lambda eta, order: jacobian_spectrum(ld.theory_of(system(eta)), teacher, order)
    unit = lambda eta: erf_symmetric.rate_unit(M, eta)
    fastest = -float(np.real(spectrum(1.0, "flow").rates).min() / unit(1.0) / LAM[0])
    forms = erf_symmetric.late_exponents(M)[1], errata.printed_late_exponents()[1]
    eta = 2 * M / erf_late.critical_gain(M)
    growth = float(np.real(spectrum(eta, "full").rates).max())
    both = (erf_symmetric.late_matrix, errata.printed_late_matrix)
    tops = (np.real(np.linalg.eigvals(form(LAM, PHI, M, eta))).max() for form in both)
    growths = (unit(eta) * top for top in tops)
    how = "autodiff Jacobian at the teacher"
    return [
        Row("17, 122", "", how, fastest, ROUNDING * fastest, *forms),
        Row("120", "", how, growth, ROUNDING * abs(growth), *growths),
    ]


MEASUREMENTS = _students, _features, _steps, _last_power, _samples, _dense, _plateau, _late
