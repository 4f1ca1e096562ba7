"""What the paper's equations speak of, measured without them: samples, steps, dense algebra.

Each function returns rows (equation, measured, error, corrected, printed), `error` being what the
measurement itself is uncertain by.
"""

from typing import NamedTuple, cast

import equinox as eqx
import numpy as np
from scipy import special

import learndyn as ld
from learndyn.numerics.gaussian import ACTIVATIONS
from learndyn.numerics.precision import in_float64
from learndyn.simulation import measure_drift
from learndyn.solving.fixed_points import find_fixed_point, jacobian_spectrum
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import moments
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.late_stage import erf_symmetric
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.power_law import features, learning_curve

Z = 3.3  # standard errors that an average may be off: one in a thousand
ROUNDING = 1e-9  # relative, of dense algebra and Newton


class Row(NamedTuple):
    """One equation.

    Attributes:
        equation: its number.
        what: the quantity compared.
        how: how it was measured.
        measured: its value.
        error: what the measurement may be off by.
        corrected: by the corrected form.
        printed: by the printed form.
    """

    equation: str
    what: str
    how: str
    measured: float
    error: float
    corrected: float
    printed: float


SPECTRUM = ld.PowerLaw(200, 2, 1.0)
LAM, PHI = SPECTRUM.values, SPECTRUM.counts / SPECTRUM.dim


def linear_error(runs: int, key: int) -> list[Row]:
    """Eq. 6 against linear students at η = 1/2."""
    eta, alpha = 0.5, 2.0
    system = committee_system("linear", SPECTRUM, eta=eta, sigma_J=1.0, typical=True)
    phi = PHI[:, None, None]
    start = ld.start(system, state=ld.Overlaps(phi, 0 * phi, phi))
    times = [0.0, alpha]
    found = ld.simulate(
        system, times, start=start, runs=runs, key=key, method="direct", dtype="float64"
    )
    last = found["error"].isel(time=-1).values
    right = ld.solve(system, times, start=start)["error"].values[-1]
    finite = ld.solve(system, times, start=start, order="finite")["error"].values[-1]
    error = Z * last.std(ddof=1) / np.sqrt(runs) + abs(finite - right)
    printed = errata.printed_eq6(np.array([alpha]), SPECTRUM, eta, 1.0)[0]
    how = f"{runs} students, N = {SPECTRUM.dim}"
    what = f"ε_g of a linear student, η = {eta:g}, α = {alpha:g}"
    return [Row("6", what, how, last.mean(), error, right, float(printed))]


def feature_error() -> list[Row]:
    """Eq. 11 against the sum of Eq. 10."""
    L, n, alpha, beta = 1000, 50, 100.0, 1.0
    size = {"lam_plus": learning_curve.lam_plus(L, beta), "L": L, "beta": beta}
    rest = {**size, "eta": 0.01, "sigma_J": 0.01}
    lam = ld.PowerLaw(L, L, beta).values
    measured = float(features.error(alpha, lam, n, eta=0.01, sigma_J=0.01))
    right = float(features.error_integral(alpha, n, **rest))
    printed = float(errata.printed_eq79(alpha, n, **rest))
    # Euler-Maclaurin: half of the summand at each end of both integrals.
    ends = float(learning_curve.end_correction(alpha, **{**rest, "L": n})) * n / L
    what = f"ε_g with N_l = {n} of L = {L} directions trained, α = {alpha:g}"
    return [Row("11", what, "the sum of Eq. 10", measured, 2 * abs(ends), right, printed)]


def steps(trials: int, key: int) -> list[Row]:
    """Eqs. 18 and 25 against the mean of single SGD steps."""
    eta, K, M = 1.0, 2, 3
    system = committee_system("erf", SPECTRUM, K=K, M=M, eta=eta, sigma_J=0.5)
    start = ld.start(system, key=key)
    found, error = _moments(measure_drift(system, start, trials=trials, key=key))
    state = moments.moments_of(start.state, LAM)
    right, printed = (form(state, LAM, PHI, eta) for form in (moments.drift, errata.printed_eq18))
    flow = moments.drift(state, LAM, PHI, eta, "erf", "flow").Q[0, 0, 0]
    how = f"{trials} SGD steps, N = {SPECTRUM.dim}"
    size, R = f"K = {K}, M = {M}", "dR^(0)_11/dα"
    rows = [
        Row("18, dR", f"{R}, {size}", how, *(m.R[0, 0, 0] for m in (found, error, right, printed)))
    ]
    noise = [m.Q[0, 0, 0] - flow for m in (found, right, printed)]
    ahead = moments.moments_of(_advance(ld.theory_of(system), start.state), LAM)
    finite = SPECTRUM.dim * (ahead.Q - state.Q)[0, 0, 0]  # the exact mean of a step at this N
    off = error.Q[0, 0, 0] + abs(finite - right.Q[0, 0, 0])
    rows.append(Row("18, dQ", f"η² part of dQ^(0)_11/dα, {size}", how, noise[0], off, *noise[1:]))
    return [*rows, _last_power(trials, key)]


@in_float64
def _advance(theory, state: ld.Overlaps) -> ld.Overlaps:
    return eqx.filter_jit(lambda theory, state: theory.advance(state))(theory, state)


def _last_power(trials: int, key: int) -> Row:
    eta = 0.3
    system = committee_system("linear", SPECTRUM, eta=eta, sigma_J=0.5)
    start = ld.start(system, key=key)
    found, error = _moments(measure_drift(system, start, trials=trials, key=key))
    state = moments.moments_of(start.state, LAM)
    right = moments.drift(state, LAM, PHI, eta, "linear").R[-1, 0, 0]
    printed = errata.printed_eq25(state, LAM, PHI, eta)[0][0, 0]
    how = f"{trials} SGD steps, N = {SPECTRUM.dim}"
    values = (found.R[-1, 0, 0], error.R[-1, 0, 0], right, printed)
    return Row("25", "dR^(L−1)/dα of a linear student", how, *map(float, values))


def _moments(drift) -> tuple[moments.Moments, moments.Moments]:
    """Mean and error of the moments; errors of levels are added, as if they went together."""
    mean, error = (moments.moments_of(part, LAM) for part in drift)
    return mean, moments.Moments(*(Z * np.asarray(x) for x in (error.Q, error.R, error.T)))


def samples(count: int, key: int) -> Row:
    """Eq. 19 against samples of the pre-activations."""
    K, M = 2, 3
    system = committee_system("erf", SPECTRUM, K=K, M=M, eta=1.0, sigma_J=0.7)
    overlaps = ld.start(system, key=key).state
    state, C = moments.moments_of(overlaps, LAM), np.einsum("k,kij->ij", LAM, overlaps.gram)
    rng, scales = np.random.default_rng(key), _scales(system)
    g = _erf(rng.standard_normal((count, K + M)) @ np.linalg.cholesky(C).T)
    loss = (g @ np.repeat(scales, (K, M))) ** 2 / 2
    error = Z * loss.std() / np.sqrt(count)
    forms = float(moments.error(state, LAM)), float(errata.printed_eq19(state, LAM))
    what = f"ε_g, K = {K}, M = {M}"
    return Row("19", what, f"{count} samples", float(loss.mean()), float(error), *forms)


def _scales(system: ld.System) -> tuple[float, float]:
    """Of students and teachers in target − output."""
    student = cast(ld.Committee, system.network)
    teacher = cast(ld.Committee, cast(ld.TeacherStudent, system.problem).teacher)
    return -float(student.scale), float(teacher.scale)


COVARIANCE = np.array(
    [[1.0, 0.4, 0.5, 0.2], [0.4, 0.8, 0.3, 0.5], [0.5, 0.3, 1.2, 0.6], [0.2, 0.5, 0.6, 0.9]]
)


def fourth_average() -> Row:
    """Eq. 91 against a product rule of Gauss and Hermite."""
    coarse, fine = (_quadrature(COVARIANCE, nodes) for nodes in (14, 20))
    what = "I4 = E[g'(z₁) g'(z₂) g(z₃) g(z₄)]"
    forms = _fourth(COVARIANCE)
    return Row("91", what, "Gauss-Hermite rule", fine, abs(fine - coarse), *forms)


def _quadrature(C: np.ndarray, nodes: int) -> float:
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(x, x, x, x, indexing="ij"), -1).reshape(-1, 4)
    weights = np.prod(np.meshgrid(w, w, w, w, indexing="ij"), axis=0).ravel() / w.sum() ** 4
    z = grid @ np.linalg.cholesky(C).T
    slopes, values = _slope(z[:, :2]), _erf(z[:, 2:])
    return float(weights @ (slopes.prod(1) * values.prod(1)))


def _erf(z: np.ndarray) -> np.ndarray:
    return special.erf(z / np.sqrt(2))


def _slope(z: np.ndarray) -> np.ndarray:
    return np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)


@in_float64
def _fourth(C: np.ndarray) -> tuple[float, float]:
    return float(ACTIVATIONS["erf"].I4(C)), float(errata.printed_eq91(C))


def inverse() -> Row:
    """Eq. 44 against a dense inverse."""
    eta, spectrum = 1.0, ld.PowerLaw(40, 4, 1.0)
    lam, phi = spectrum.values, spectrum.counts / spectrum.dim
    measured = float(np.linalg.inv(moments.student_matrix(lam, phi, eta))[0, 0])
    forms = moments.inverse_corner(lam, eta), errata.printed_eq44(lam, eta)
    what = f"(A₄⁻¹)₁₁, L = 4, η = {eta:g}"
    return Row("44", what, "dense inverse", measured, ROUNDING * abs(measured), *forms)


UNIFORM = (0.3, 0.2), (0.15, -0.05)  # T and off-diagonal row sums D of the two levels


def plateau() -> list[Row]:
    """Eqs. 98, 99 and 115 against Newton and the error itself, for a uniform T with D ≠ 0."""
    M, eta = 3, 0.3
    theory = ld.theory_of(committee_system("erf", SPECTRUM, K=M, M=M, eta=eta, sigma_J=1.0))
    T, D = (np.array(x)[:, None, None] for x in UNIFORM)
    t = T * np.eye(M) + D / (M - 1) * (1 - np.eye(M))
    (T1, D1), (T2, D2) = (
        erf_uniform.uniform_part(np.einsum("k,kij->ij", LAM**l, t)) for l in (1, 2)
    )
    # From students that are the mean of the teachers.
    mean = np.full((M, M), 1 / M)
    begin = ld.Overlaps(mean @ t @ mean, mean @ t, t)
    found = find_fixed_point(theory, begin, symmetry=erf_plateau.equal_students).state
    R2 = float(np.einsum("k,k->", LAM**2, found.R[:, 0, 0]))
    forms = erf_uniform.plateau_moments(T2, D2, T1, D1, M), errata.printed_eq98(T2, T1, D1, M)
    height = float(theory.observe(found)["error"])
    errors = erf_uniform.plateau_error(T1, D1, M), errata.printed_eq99(T1, D1, M)
    small, how = ROUNDING, f"Newton, uniform T, M = {M}"
    rows = [
        Row("98", "R*^(2) on the plateau", how, R2, small * R2, *(float(f[0]) for f in forms)),
        Row("99", "ε* on the plateau", how, height, small * height, *errors),
    ]
    return [*rows, _depth(theory, t, height, (T1, D1))]


def _depth(theory, t: np.ndarray, height: float, uniform: tuple[float, float]) -> Row:
    """How far below the plateau's the error is when students part from each other a little."""
    M, state = t.shape[1], erf_plateau.near_plateau(t, LAM, 1e-3)
    found = theory.observe(state)
    R, measured = np.asarray(found["R"])[0], height - float(found["error"])
    r0 = float(R[0] - R.mean())
    both = erf_uniform.error_escape, errata.printed_eq115
    forms = (float(form(0.0, r0, 1.0, *uniform, M)) for form in both)
    what = f"ε* − ε_g where R_ii = R* + r₀, r₀ = {r0:.2g}"
    # The next order is r₀/R*.
    return Row("115", what, "Eq. 19 by level", measured, measured * r0 / R.mean(), *forms)


def late() -> list[Row]:
    """Eqs. 17, 122 and 120 for M = 3 against the Jacobian at a typical teacher."""
    M = 3
    system = lambda eta: committee_system("erf", SPECTRUM, K=M, M=M, eta=eta, sigma_J=1.0)
    t = PHI[:, None, None] * np.eye(M)
    teacher = ld.Overlaps(t, t, t)
    rates = lambda eta, order: np.real(
        jacobian_spectrum(ld.theory_of(system(eta)), teacher, order).rates
    )
    fastest = -float(rates(1.0, "flow").min() / erf_symmetric.rate_unit(M, 1.0) / LAM[0])
    forms = erf_symmetric.late_exponents(M)[1], errata.printed_late_exponents()[1]
    how = "autodiff Jacobian at the teacher"
    what = f"largest decay rate over a λ₁, M = {M}"
    first = Row("17, 122", what, how, fastest, ROUNDING * fastest, *forms)
    eta = M / erf_late.critical_gain(M)
    growth = [rates(2 * eta, "full").max()]
    for form in (erf_symmetric.late_matrix, errata.printed_late_matrix):
        top = np.real(np.linalg.eigvals(form(LAM, PHI, M, 2 * eta))).max()
        growth.append(erf_symmetric.rate_unit(M, 2 * eta) * top)
    growth = [float(value) for value in growth]
    what = f"growth rate beyond η_c, M = {M}"
    return [first, Row("120", what, how, growth[0], ROUNDING * abs(growth[0]), *growth[1:])]
