"""Fluctuations of a committee's overlaps under SGD: the covariance of one step.

N times the change of the overlaps in a step is, at leading order in 1/N and for one example,

    V_R = h a δ_i y^l_n,    V_Q = h a (δ_i x^l_j + x^l_i δ_j) + (h a)² λ_l φ_l δ_i δ_j / batch,
    V_v = h_v a g_i e,      V_b = h_b a δ_i,      e = Δ + label_noise · ε,      δ_i = v_i g'_i e,

in the notation of `terms`, where z^l = (x^l, y^l) is the part of the pre-activations that comes
from level l. The parts are independent, have covariance λ_l C_l, and sum to z. The mean of V, and
what decays, is the drift. A batch averages `batch` of these, so that in the linear noise
approximation P = Cov(state) obeys

    dP/dα = J P + P Jᵀ + D / N,    D = Cov[V] / batch,    J = the Jacobian of the drift.

Two terms of relative order 1/N are left out: the fluctuation of |P_l x|² about N_l λ_l, and the
products of different examples of a batch.

δ depends only on the sum z = Σ^½ u (u standard normal), and given z the z^l are Gaussian with
mean A_l u, A_l = λ_l C_l Σ^(-½), and covariance B_ll' = λ_l C_l [l = l'] − A_l A_l'ᵀ. Cov[V]
therefore follows from the moments of the products δ_i u_m, δ_i δ_j, g_i e and δ_i, for any number
of levels. These have closed forms for linear and quadratic activations without outputs or biases of
their own (see `numerics.wick`). For others they are averages over fixed quasi-random
points; `diffusion_error` estimates their error.

The moving variables are, in this order, the upper triangles of Q and all of R, level by level, and
the outputs and the biases where they are part of the state.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import wick
from learndyn.numerics.gaussian.points import normal_points
from learndyn.numerics.semidefinite import symmetric_roots
from learndyn.runtime.precision import in_float64
from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics import terms
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps

SEED = 0  # of quasi-random points: fixed, so that D is a smooth function of the state
CLOSED = ("linear", "quadratic")  # activations that need no points


@in_float64
def flatten(state: Overlaps) -> Array:
    """The independent moving entries of a state or drift: Q for i ≤ j, R, outputs, biases."""
    rows, columns = np.triu_indices(state.Q.shape[1])
    Q = jnp.asarray(state.Q)[:, rows, columns]
    parts = [part for part in (state.R, state.outputs, state.biases) if part is not None]
    return jnp.concatenate([Q.reshape(-1), *(jnp.asarray(part).reshape(-1) for part in parts)])


@in_float64
def unflatten(state: Overlaps, vector: Array) -> Overlaps:
    """The state with its moving entries replaced by those of a vector; the teacher stays."""
    L, K, M = state.R.shape
    rows, columns = np.triu_indices(K)
    place = np.zeros((K, K), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    Q, rest = vector[: L * len(rows)].reshape(L, len(rows))[:, place], vector[L * len(rows) :]
    R, rest = rest[: L * K * M].reshape(L, K, M), rest[L * K * M :]
    own = {}
    for name in ("outputs", "biases"):
        if getattr(state, name) is not None:
            own[name], rest = rest[:K], rest[K:]
    return dataclasses.replace(state, Q=Q, R=R, **own)


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
    closed = _is_closed(setting)
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
    mean, covariance = (
        _exact(setting, state, root) if exact else _averaged(setting, state, root, points)
    )
    A = covariances @ inverse

    # V is linear in the products. Its part that z determines, and the rest at given z.
    def seen(products: Array) -> Array:
        first, second = products[: K * d].reshape(K, d), products[K * d : K * (d + K)]
        rest = products[K * (d + K) :].reshape(-1, K)
        first = jnp.einsum("lmn,in->lim", A, first)
        return _change(setting, state, first, second.reshape(K, K), rest, order)

    def unseen(first: Array) -> Array:
        nothing = jnp.zeros((K, K)), jnp.zeros((2, K))
        return _change(setting, state, first.reshape(L, K, d), *nothing, order)

    B = jnp.einsum("lk,lmn->lmkn", jnp.eye(L), covariances) - jnp.einsum("lmr,knr->lmkn", A, A)
    omega = mean[K * d : K * (d + K)].reshape(K, K)
    rest = jnp.einsum("ij,lmkn->limkjn", omega, B).reshape(L * K * d, L * K * d)
    drift = seen(mean) + _decay(setting, state)
    return drift, _both_sides(seen, covariance) + _both_sides(unseen, rest)


@in_float64
def diffusion_error(setting: CommitteeSetting, state: Overlaps) -> Array:
    """The relative error of D at a state, in the Frobenius norm; 0 for closed forms.

    From two independent scramblings of the points: |D − D'| / (√2 |D|).
    """
    if _is_closed(setting) or not setting.rule.noise:
        return jnp.zeros(())
    one, other = (step_moments(setting, state, seed=SEED + i)[1] for i in range(2))
    return jnp.sqrt(jnp.sum((one - other) ** 2) / (2 * jnp.sum(one**2)))


def _is_closed(setting: CommitteeSetting) -> bool:
    plain = setting.special in ("", "decay")
    return plain and setting.student.activation in CLOSED


def _exact(setting: CommitteeSetting, state: Overlaps, root: Array) -> tuple[Array, Array]:
    """Moments of (δ_i u_m, δ_i δ_j) by Wick's rule, over the variables (s_1 … s_K, u).

    Linear: s_i = Δ + label_noise · ε = δ_i is Gaussian itself. Quadratic: s_i = 2 x_i, and
    δ_i = s_i (Δ + label_noise · ε) needs the tilt by the quadratic form Δ.
    """
    K, d, square = setting.student.units, len(root), setting.student.activation == "quadratic"
    c, noise = setting.c(state), setting.problem.label_noise
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


def _averaged(
    setting: CommitteeSetting, state: Overlaps, root: Array, u: Array
) -> tuple[Array, Array]:
    """The moments of `_exact` by an average over points u, positive semidefinite by construction.

    They are followed by those of g_i e and of δ_i if the state has outputs or biases. The label
    noise ε is averaged exactly: the products are expanded in the orthogonal polynomials 1, ε and
    ε² − 1, whose squares have the means 1, 1 and 2.
    """
    K, noise = setting.student.units, setting.problem.label_noise
    b, v = setting.biases(state), setting.v(state)
    z = u @ root if b is None else u @ root + b
    g, f = jax.jvp(setting.student.g, (z[:, :K],), (jnp.ones_like(z[:, :K]),))
    f = f if v is None else v * f
    units = jnp.concatenate([g, setting.teacher.g(z[:, K:])], axis=1)
    gap = (units @ setting.c(state))[:, None]
    outer = lambda right: (f[:, :, None] * right[:, None, :]).reshape(len(u), -1)
    # `once` is multiplied by e, and `twice` by e².
    once, twice = [outer(u)], outer(f)
    if state.outputs is not None or state.biases is not None:
        once += [g, f]
    place = 1  # of the products with e² among the others
    mix = lambda of_once, of_twice: jnp.concatenate(
        [*(of_once * each for each in once[:place]), of_twice * twice]
        + [of_once * each for each in once[place:]],
        axis=1,
    )
    products = mix(gap, gap**2 + noise**2)
    mean = jnp.mean(products, axis=0)
    squared = lambda term: term.T @ term / len(u)

    def of_noise() -> Array:
        return squared(noise * mix(1.0, 2 * gap)) + 2 * squared(noise**2 * mix(0.0, 1.0))

    # This is two thirds of the work, and not needed for labels without noise.
    rest = jax.lax.cond(jnp.asarray(noise) > 0, of_noise, lambda: jnp.zeros((len(mean),) * 2))
    return mean, squared(products - mean) + rest


def _change(
    setting: CommitteeSetting, state: Overlaps, first: Array, second: Array, rest: Array, order: str
) -> Array:
    """V as a vector, linear in δ_i z^l_m (L, K, K + M), δ_i δ_j (K, K), and g_i e, δ_i (2, K)."""
    _, student, teacher, rule, spectrum, _ = setting
    L, K, M = len(first), student.units, teacher.units
    h = setting.h * student.scale * jnp.asarray(setting.learning)[:, None, None]
    Q = h * (first[:, :, :K] + first[:, :, :K].swapaxes(1, 2))
    if order == "full" and rule.noise:
        share = spectrum.values * spectrum.counts / jnp.sum(spectrum.counts)
        Q += h**2 * rule.noise * share[:, None, None] * second
    parts = {}
    for name, rate, product in zip(("outputs", "biases"), setting.part_rates, rest, strict=False):
        if getattr(state, name) is not None:
            parts[name] = rate * student.scale * (name in student.train) * product
    return flatten(Overlaps(Q, h * first[:, :, K:], jnp.zeros((L, M, M)), **parts))


def _decay(setting: CommitteeSetting, state: Overlaps) -> Array:
    """The part of the drift that does not depend on examples."""
    sigma = jnp.zeros(())  # decay does not depend on it
    present = [t for t in terms.terms(setting, "flow") if t in (terms.decay, terms.output_decay)]
    changes = {k: v for term in present for k, v in term(setting, state, sigma).items()}
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), state)
    return flatten(dataclasses.replace(zero, **changes))


def _both_sides(map_: Callable[[Array], Array], C: Array) -> Array:
    """M C Mᵀ for a linear map M, given as a function, and a symmetric C."""
    return jax.vmap(map_)(jax.vmap(map_)(C).T)
