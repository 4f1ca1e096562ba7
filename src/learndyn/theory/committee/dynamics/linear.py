"""The exact linear student at every learning rate, spectrum and size (worschech2024scaling).

With E = Σ_n b B_n − a Σ_i J_i, the weights of target − output, and s = 2 · loss_scale · η a² K,
all rows of the student receive the same increment, a K (J_i(α) − J_i(0)) = E(0) − E(α). In
level l the overlap of E(α) with any fixed vector decays as exp(−s λ_l α), and e_l = |P_l E|²/N
obeys

    de_l/dα = −2 s λ_l e_l + (s²/batch) λ_l φ_l (Σ_j λ_j e_j + label_noise²),

which f_l = e_l/√φ_l turns into the symmetric matrix s (−2Λ + κ w wᵀ), κ = s/batch and
w_l = λ_l √φ_l: a diagonal matrix plus one of rank one. Its eigensystem (μ_j, u_j), found once in
O(L²) operations, gives the curve at any α without integration. The paper has s = η M/K. Levels
that do not learn stay constant, and their Σ_l λ_l e_l acts as label noise on the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from learndyn.numerics.secular import RankOne
from learndyn.problems import Spectrum
from learndyn.runtime.checks import one_of
from learndyn.runtime.precision import in_float64
from learndyn.runtime.times import increasing_times
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps

_TIMES_AT_ONCE = 256  # limits the memory for exp(−rate · time) to this many vectors


def curve(
    setting: CommitteeSetting, state: Overlaps, times: ArrayLike, order: str = "full"
) -> dict[str, np.ndarray]:
    """Overlaps and generalisation error of a linear student, in closed form.

    Args:
        setting: a covered system whose activations are linear.
        state: the overlaps at time 0.
        times: α = steps / N, increasing, non-negative.
        order: "full", or "flow" without the η² term (which `GradientDescent` never has).

    Returns:
        Q (time, K, K) and R (time, K, M), summed over levels with λ_l, and error (time,).
        Above the critical learning rate they grow, in the end to infinity.
    """
    one_of("activation", setting.student.activation, ("linear",))
    if setting.special:
        raise ValueError(f"system: got {setting.special}; allowed are equal, fixed output weights")
    one_of("order", order, ("full", "flow"))
    times, K = increasing_times(times), setting.student.units
    C, lam, learns = np.asarray(state.gram), setting.spectrum.values, _learns(setting)
    c = _output_weights(setting, state)
    E = C @ c  # overlaps of E(0) with every row, (L, K + M)
    e = E @ c
    # Overlaps of a K (J_i(α) − J_i(0)) with every row and with E(0), then its square.
    learned = _learned(setting, np.column_stack([E, e])[learns], times)
    step, along = float(setting.student.scale) * K, learned[:, -1]
    now, frozen = _excess(setting, e, times, order), lam[~learns] @ e[~learns]
    square = 2 * along - lam[learns] @ e[learns] + now
    rows, start = learned[:, :-1] / step, np.einsum("l,lij->ij", lam, C)
    Q = start[:K, :K] + rows[:, :K, None] + rows[:, None, :K]
    Q += square[:, None, None] / step**2
    R = start[:K, K:] + rows[:, None, K:]
    return {"Q": Q, "R": R, "error": float(setting.problem.loss_scale) * (now + frozen)}


def mean_curve(
    setting: CommitteeSetting, times: ArrayLike, order: str = "full"
) -> dict[str, np.ndarray]:
    """The curve averaged over random students and teachers (Eq. 6; Eqs. 7, 8 for "flow").

    Everything is linear in the initial overlaps, so this is the curve that starts from their
    mean. For K = M in the paper's scales

        error = (1 + σ_J²)/2 Σ_j (u_j·w)(u_j·√φ) exp(η μ_j α).

    Eqs. 6 and 56 as printed are wrong (matrix A_1 + ηU, sign, a factor 1/L, T^(l)); this is
    the corrected form.

    Args:
        setting: a covered system whose activations are linear.
        times: α = steps / N.
        order: "full" or "flow".

    Returns:
        As `curve`.
    """
    return curve(setting, mean_state(setting), times, order)


def mean_state(setting: CommitteeSetting) -> Overlaps:
    """The expected overlaps at the start: Q_l = φ_l σ_J² I, R_l = 0, T_l = φ_l σ_B² I."""
    K, M, phi = setting.student.units, setting.teacher.units, _phi(setting.spectrum)[:, None, None]
    Q = setting.student.init.variance * phi * np.eye(K)
    T = setting.teacher.init.variance * phi * np.eye(M)
    return Overlaps(Q, np.zeros((len(phi), K, M)), T)


def even_state(setting: CommitteeSetting) -> Overlaps:
    """A state whose error is exactly the mean error, for K = M = 1 with equal scales.

    The student is at 0 and the square of every mode of J − B at its expectation,
    φ_l (σ_J² + σ_B²).
    """
    mean = mean_state(setting)
    nothing = np.zeros_like(mean.R)
    return Overlaps(nothing, nothing, mean.T + mean.Q)


class ExcessModes(NamedTuple):
    """Modes of the excess e at a finite learning rate, in descending order of `rates`.

    Attributes:
        rates: λ̃_k = −μ_k/2: mode k of e decays as exp(−2 s λ̃_k α).
        b: (u_k·√φ)², the coefficients of Σ_l e_l; they sum to 1.
        weights: (u_k·w)(u_k·√φ), the coefficients of Σ_l λ_l e_l; b_k λ̃_k · 2/(2 − κ ν_1) with
            ν_1 = Σ φ_l λ_l.
    """

    rates: np.ndarray
    b: np.ndarray
    weights: np.ndarray


def modes(spectrum: Spectrum, kappa: float | int) -> ExcessModes:
    """Rates and coefficients at any learning rate (Eqs. 6, 56 and 57; Figs. 10 to 13).

    The matrix B of App. B.2.1 has the eigenvalues −2 λ̃_k at a = 2 and ϵ = κ. Its inverse
    eigenvector matrix, Eq. 57, is not needed: in the level basis the problem is symmetric.

    Args:
        spectrum: levels of the input covariance.
        kappa: κ = s/batch, which is η for K = M in the paper's scales.

    Returns:
        Rates and coefficients.
    """
    lam, phi = spectrum.values, _phi(spectrum)
    w = lam * np.sqrt(phi)
    system = RankOne(-2 * lam, w, kappa)
    along_w, along_root = system.overlaps(np.column_stack([w, np.sqrt(phi)])).T
    return ExcessModes(-system.values / 2, along_root**2, along_w * along_root)


def strength(setting: CommitteeSetting) -> float:
    """s = 2 · loss_scale · η · a² · K, the rate at which E is learned in a level with λ = 1."""
    problem, student, _, rule, *_ = setting
    gain = 2 * problem.loss_scale * rule.learning_rate * student.scale**2 * student.units
    return float(gain)


def critical_learning_rate(setting: CommitteeSetting) -> float:
    """The largest η at which the error does not grow, where (s/(2 batch)) Σ_l φ_l λ_l = 1.

    The sum is over the levels that learn. It is infinite for a rule without sampling, whose flow
    is stable at every η.
    """
    if not setting.rule.noise:
        return np.inf
    learns = _learns(setting)
    trace = _phi(setting.spectrum)[learns] @ setting.spectrum.values[learns]
    per_eta = strength(setting) / setting.rule.learning_rate
    return float(2 / (setting.rule.noise * per_eta * trace))


def finite_size_margin(setting: CommitteeSetting) -> float:
    """One minus the stability sum of the exact mean at finite N; positive if learning is stable.

    The mean of e_l over one step is

        e_l − (2s/N) λ_l e_l + (s²/N²)[N_l λ_l Σ_j λ_j e_j / batch + (1 + 1/batch) λ_l² e_l],

    a map on the levels that learn, which contracts if and only if (1 + 1/batch) s λ_1 < 2N and

        (s/(2 batch N)) Σ_l N_l λ_l / (1 − (1 + 1/batch) s λ_l/(2N)) < 1.

    Returns:
        The margin; −inf if a level is unstable by itself.
    """
    s, learns, N = strength(setting), _learns(setting), setting.spectrum.dim
    lam, counts = setting.spectrum.values[learns], setting.spectrum.counts[learns]
    sampling = setting.rule.noise
    own = 1 - (1 + sampling) * s * lam / (2 * N)
    if own.min() <= 0:
        return -np.inf
    return float(1 - sampling * s / (2 * N) * np.sum(counts * lam / own))


def _excess(setting: CommitteeSetting, e: np.ndarray, times: np.ndarray, order: str) -> np.ndarray:
    """Σ_l λ_l e_l over the levels that learn at every time, from all e_l at time 0."""
    s, learns = strength(setting), _learns(setting)
    lam, phi = setting.spectrum.values[learns], _phi(setting.spectrum)[learns]
    if order == "flow" or not setting.rule.noise:
        return _sum_of_exponentials(-2 * s * lam, lam * e[learns], times)
    kappa, w = s * setting.rule.noise, lam * np.sqrt(phi)
    system = RankOne(-2 * lam, w, kappa)
    along_w, along_f = system.overlaps(np.column_stack([w, e[learns] / np.sqrt(phi)])).T
    rates = s * system.values
    own = _sum_of_exponentials(rates, along_w * along_f, times)
    noise = float(setting.problem.label_noise) ** 2 + setting.spectrum.values[~learns] @ e[~learns]
    # Without a source nothing is added: an unstable mode would make it 0 · ∞ = NaN.
    return own + s * kappa * noise * _response(rates, along_w**2, times) if noise else own


def _learned(setting: CommitteeSetting, overlaps: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Σ_l λ_l (1 − exp(−s λ_l α)) overlaps_l over the levels that learn, (time, columns)."""
    lam, s = setting.spectrum.values[_learns(setting)], strength(setting)
    weights = lam[:, None] * overlaps
    # expm1 keeps the digits of 1 − exp(−x) for the slowest levels, where x is tiny.
    return _over_times(lambda t: -np.expm1(-s * np.outer(t, lam)) @ weights, times)


@in_float64
def _learns(setting: CommitteeSetting) -> np.ndarray:
    return np.asarray(setting.learning) > 0


def _sum_of_exponentials(rates: np.ndarray, weights: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Σ_j weights_j exp(rates_j t); an unstable mode may reach infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _over_times(lambda t: np.exp(np.outer(t, rates)) @ weights, times)


def _response(rates: np.ndarray, weights: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Σ_j weights_j ∫_0^t exp(rates_j t') dt', for a source that is constant in time."""
    # At the critical learning rate a rate is zero, and the integral is t.
    slow = np.abs(rates) < np.finfo(float).tiny
    safe = np.where(slow, 1.0, rates)
    integral = lambda t: np.where(slow, t[:, None], np.expm1(np.outer(t, safe)) / safe)
    with np.errstate(over="ignore", invalid="ignore"):
        return _over_times(lambda t: integral(t) @ weights, times)


def _over_times(function: Callable[[np.ndarray], np.ndarray], times: np.ndarray) -> np.ndarray:
    starts = range(0, len(times), _TIMES_AT_ONCE)
    return np.concatenate([function(times[i : i + _TIMES_AT_ONCE]) for i in starts])


@in_float64
def _output_weights(setting: CommitteeSetting, state: Overlaps) -> np.ndarray:
    return np.asarray(setting.c(state))


def _phi(spectrum: Spectrum) -> np.ndarray:
    return spectrum.counts / spectrum.dim
