"""Fluctuations of a committee's overlaps under SGD: the covariance of one step.

N times the change of the overlaps in a step is, at leading order in 1/N and for one example,

    V_R = h δ_i y^l_n,    V_Q = h (δ_i x^l_j + x^l_i δ_j) + h² λ_l φ_l δ_i δ_j / batch,
    δ_i = g'(x_i) (Δ + label_noise · ε),

in the notation of `overlaps`, where z^l = (x^l, y^l) is the part of the pre-activations that comes
from level l. The parts are independent, have covariance λ_l C_l, and sum to z. The mean of V is
the drift. A batch averages `batch` of these, so that in the linear noise approximation
P = Cov(overlaps) obeys

    dP/dα = J P + P Jᵀ + D / N,    D = Cov[V] / batch,    J = the Jacobian of the drift.

Two terms of relative order 1/N are left out: the fluctuation of |P_l x|² about N_l λ_l, and the
products of different examples of a batch.

δ depends only on the sum z = Σ^½ u (u standard normal), and given z the z^l are Gaussian with
mean A_l u, A_l = λ_l C_l Σ^(-½), and covariance B_ll' = λ_l C_l [l = l'] − A_l A_l'ᵀ. Cov[V]
therefore follows from the moments of the products δ_i u_m and δ_i δ_j, for any number of levels.
These have closed forms for linear and quadratic activations (see `numerics.wick`). For others
they are averages over `POINTS` fixed quasi-random points; `diffusion_error` estimates their error.

The moving variables are, in this order, the upper triangles of Q and all of R, level by level.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from learndyn.numerics import wick
from learndyn.numerics.semidefinite import symmetric_roots
from learndyn.runtime.precision import in_float64
from learndyn.runtime.types import Array
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps

POINTS = 16384  # quasi-random points per average; a power of two keeps Sobol points balanced
SEED = 0  # of their scrambling: fixed, so that D is a smooth function of the state
CLOSED = ("linear", "quadratic")  # activations that need no points


@in_float64
def flatten(state: Overlaps) -> Array:
    """The independent moving entries of a state (or of a drift): Q for i ≤ j, then R."""
    rows, columns = np.triu_indices(state.Q.shape[1])
    Q = jnp.asarray(state.Q)[:, rows, columns]
    return jnp.concatenate([Q.reshape(-1), jnp.asarray(state.R).reshape(-1)])


@in_float64
def unflatten(state: Overlaps, vector: Array) -> Overlaps:
    """The state with its moving entries replaced by those of a vector; T stays."""
    L, K, M = state.R.shape
    rows, columns = np.triu_indices(K)
    place = np.zeros((K, K), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    Q = vector[: L * len(rows)].reshape(L, len(rows))[:, place]
    return Overlaps(Q, vector[L * len(rows) :].reshape(L, K, M), state.T)


@in_float64
def diffusion(setting: CommitteeSetting, state: Overlaps, order: str = "full") -> Array:
    """D = Cov[V] / batch of the moving variables, (n, n): N times the growth of P per unit α.

    Args:
        setting: the system's parts.
        state: the overlaps.
        order: "full", or "flow", which drops the η² part of V as the drift does.

    Returns:
        D; zero for a rule that does not sample examples.
    """
    if not setting.rule.noise:
        return jnp.zeros((flatten(state).size,) * 2)
    return step_moments(setting, state, order)[1] * setting.rule.noise


@in_float64
def step_moments(setting: CommitteeSetting, state: Overlaps, order: str = "full", seed: int = SEED):
    """The mean (n,) of V, which is the drift, and its covariance (n, n), for one example."""
    closed = setting.student.activation in CLOSED
    points = None if closed else normal_points(state.gram.shape[1], seed)
    return _step_moments(setting, state, order, points)


@eqx.filter_jit
def _step_moments(
    setting: CommitteeSetting, state: Overlaps, order: str, points: Array | None
) -> tuple[Array, Array]:
    K, (L, d, _) = setting.student.units, state.gram.shape
    covariances = jnp.asarray(setting.spectrum.values)[:, None, None] * jnp.asarray(state.gram)
    root, inverse = symmetric_roots(jnp.sum(covariances, axis=0))
    exact = points is None
    mean, covariance = _exact(setting, root) if exact else _averaged(setting, root, points)
    A = covariances @ inverse

    # V is linear in the products. Its part that z determines, and the rest at given z.
    def seen(products: Array) -> Array:
        first, second = products[: K * d].reshape(K, d), products[K * d :].reshape(K, K)
        return _change(setting, jnp.einsum("lmn,in->lim", A, first), second, order)

    def unseen(first: Array) -> Array:
        return _change(setting, first.reshape(L, K, d), jnp.zeros((K, K)), order)

    B = jnp.einsum("lk,lmn->lmkn", jnp.eye(L), covariances) - jnp.einsum("lmr,knr->lmkn", A, A)
    omega = mean[K * d :].reshape(K, K)
    rest = jnp.einsum("ij,lmkn->limkjn", omega, B).reshape(L * K * d, L * K * d)
    return seen(mean), _both_sides(seen, covariance) + _both_sides(unseen, rest)


@in_float64
def diffusion_error(setting: CommitteeSetting, state: Overlaps) -> Array:
    """The relative error of D at a state, in the Frobenius norm; 0 for closed forms.

    From two independent scramblings of the points: |D − D'| / (√2 |D|).
    """
    if setting.student.activation in CLOSED or not setting.rule.noise:
        return jnp.zeros(())
    one, other = (step_moments(setting, state, seed=SEED + i)[1] for i in range(2))
    return jnp.sqrt(jnp.sum((one - other) ** 2) / (2 * jnp.sum(one**2)))


def _exact(setting: CommitteeSetting, root: Array) -> tuple[Array, Array]:
    """Moments of (δ_i u_m, δ_i δ_j) by Wick's rule, over the variables (s_1 … s_K, u).

    Linear: s_i = Δ + label_noise · ε = δ_i is Gaussian itself. Quadratic: s_i = 2 x_i, and
    δ_i = s_i (Δ + label_noise · ε) needs the tilt by the quadratic form Δ.
    """
    K, d, square = setting.student.units, len(root), setting.student.activation == "quadratic"
    c, noise = setting.problem.output_weights(setting.student), setting.problem.label_noise
    s = 2 * root[:K] if square else jnp.tile(c @ root, (K, 1))
    mix = jnp.concatenate([s, jnp.eye(d)])  # (s, u) = mix · u
    C = mix @ mix.T
    if square:
        series = wick.tilted(C, mix @ root, root @ root, c, noise, 4)
    else:
        series = wick.untilted(C.at[:K, :K].add(noise**2))
    (i, m), (j, k) = np.indices((K, d)).reshape(2, -1), np.indices((K, K)).reshape(2, -1)
    groups = wick.Pairs(int(square), i, K + m), wick.Pairs(2 * square, j, k)
    mean = jnp.concatenate([wick.means(series, group) for group in groups])
    return mean, wick.covariance(series, groups)


def _averaged(setting: CommitteeSetting, root: Array, u: Array) -> tuple[Array, Array]:
    """The moments of `_exact` by an average over points u, positive semidefinite by construction.

    The label noise ε is averaged exactly: the products are expanded in the orthogonal polynomials
    1, ε and ε² − 1, whose squares have the means 1, 1 and 2.
    """
    z = u @ root
    g, slopes = jax.jvp(setting.student.g, (z,), (jnp.ones_like(z),))
    f, noise = slopes[:, : setting.student.units], setting.problem.label_noise
    gap = (g @ setting.problem.output_weights(setting.student))[:, None]
    first, second = ((f[:, :, None] * v[:, None, :]).reshape(len(u), -1) for v in (u, f))
    products = jnp.concatenate([gap * first, (gap**2 + noise**2) * second], axis=1)
    mean = jnp.mean(products, axis=0)
    squared = lambda term: term.T @ term / len(u)

    def of_noise() -> Array:
        once = noise * jnp.concatenate([first, 2 * gap * second], axis=1)
        twice = noise**2 * jnp.concatenate([0 * first, second], axis=1)
        return squared(once) + 2 * squared(twice)

    # This is two thirds of the work, and not needed for labels without noise.
    rest = jax.lax.cond(jnp.asarray(noise) > 0, of_noise, lambda: jnp.zeros((len(mean),) * 2))
    return mean, squared(products - mean) + rest


def _change(setting: CommitteeSetting, first: Array, second: Array, order: str) -> Array:
    """V as a vector, from δ_i z^l_m (L, K, K + M) and δ_i δ_j (K, K); linear in both."""
    _, student, teacher, rule, spectrum = setting
    L, K, M = len(first), student.units, teacher.units
    h = setting.h * jnp.asarray(setting.learning)[:, None, None]
    Q = h * (first[:, :, :K] + first[:, :, :K].swapaxes(1, 2))
    if order == "full" and rule.noise:
        share = spectrum.values * spectrum.counts / jnp.sum(spectrum.counts)
        Q += h**2 * rule.noise * share[:, None, None] * second
    return flatten(Overlaps(Q, h * first[:, :, K:], jnp.zeros((L, M, M))))


def _both_sides(map_: Callable[[Array], Array], C: Array) -> Array:
    """M C Mᵀ for a linear map M, given as a function, and a symmetric C."""
    return jax.vmap(map_)(jax.vmap(map_)(C).T)


@functools.lru_cache(maxsize=8)
def normal_points(dim: int, seed: int = SEED) -> np.ndarray:
    """`POINTS` scrambled Sobol points, mapped to standard normal numbers, (POINTS, dim)."""
    points = scipy.stats.qmc.Sobol(dim, scramble=True, rng=seed).random(POINTS)
    # Sobol points have 30 bits, so a coordinate may be 0, whose normal quantile is −∞.
    points = scipy.special.ndtri(np.maximum(points, 2.0**-31))
    points.setflags(write=False)
    return points
