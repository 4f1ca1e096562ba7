"""Fixed points of a theory's flow and their stability, from the true vector field.

The exact partners of a paper's approximate heights and rates: Newton on `drift`, and the
eigenvalues of its Jacobian, which autodiff gives. Dense, so for small systems. The variables are
what moves and is independent: of `Overlaps` the upper triangles of Q and all of R, with T fixed;
of other states every entry.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.numerics.checks import one_of, positive_int
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.types import Array
from learndyn.theory.base import AbstractTheory, State
from learndyn.theory.committee.state import Overlaps

MOST_VARIABLES = 3000  # a dense Jacobian of this size takes 72 MB, its eigenvalues minutes
NULL = 1e-8  # singular values so small, relative to the largest, belong to a family of solutions
ROUNDING = 1e-14  # the drift's own rounding, relative to |Jacobian| · |variables|


class FixedPoint(NamedTuple):
    """Where Newton ended.

    Attributes:
        state: the state there.
        residual: the largest |drift| there.
        steps: Jacobians evaluated.
        converged: whether the residual is down at the rounding of `drift`.
    """

    state: State
    residual: float
    steps: int
    converged: bool


class Stability(NamedTuple):
    """Eigenvalues and eigenvectors of the drift's Jacobian.

    Attributes:
        rates: complex, (n,), fastest growth first; per the unit of time of `drift`, that is
            with the learning rate included.
        directions: a state whose leaves have a leading axis n: direction k grows with rates[k].
            Fixed entries (T) are zero.
    """

    rates: np.ndarray
    directions: Any


def find_fixed_point(
    theory: AbstractTheory,
    state: State,
    order: str = "flow",
    *,
    symmetry: Callable[[State], State] | None = None,
    max_steps: int = 50,
) -> FixedPoint:
    """The fixed point of a theory's flow near a given state.

    Levenberg-Marquardt with the damping |drift|², which converges quadratically to the nearest
    point of a family where fixed points are not isolated (Yamashita and Fukushima 2001), as on
    plateaus. Stable and unstable ones are found alike. Where two families cross, convergence is
    only linear; a symmetry of one of them restores it.

    Args:
        theory: a theory whose `order` is a flow.
        state: where to begin.
        order: "flow", or "full" for the fixed point at a finite learning rate.
        symmetry: a linear projection of states that commutes with the flow, such as
            `erf_plateau.equal_students`; the search stays in its image.
        max_steps: Jacobians to evaluate at most.

    Returns:
        The point, converged or not.

    Raises:
        ValueError: for an order that is no flow, or more than 3000 variables.
    """
    positive_int("max_steps", max_steps)
    _check(theory, state, order)
    with jax.enable_x64(True):
        out, into = _coordinates(state, symmetry)
        field = lambda y: into @ np.asarray(_field(theory, state, order, out @ y))
        y, steps, converged = into @ np.asarray(_pack(state)), 0, False
        while not converged and steps < max_steps:
            F, J = field(y), into @ np.asarray(_jacobian(theory, state, order, out @ y)) @ out
            scale = np.linalg.norm(J) * np.linalg.norm(y)
            converged = bool(np.linalg.norm(F) <= ROUNDING * scale)
            y = y if converged else _descend(field, y, F, J)
            steps += 1
        residual = float(np.abs(_field(theory, state, order, out @ y)).max())
        return FixedPoint(to_numpy(_unpack(state, out @ y)), residual, steps, converged)


def jacobian_spectrum(theory: AbstractTheory, state: State, order: str = "flow") -> Stability:
    """Growth rates and directions of small deviations from a state.

    At a fixed point these are the rates of its linear stability.

    Args:
        theory: a theory whose `order` is a flow.
        state: where to linearise.
        order: "flow", or "full" for all terms in the learning rate.

    Returns:
        Eigenvalues and directions. A zero in a Jordan block comes out as about 1e-8 of the
        largest rate.

    Raises:
        ValueError: for an order that is no flow, or more than 3000 variables.
    """
    _check(theory, state, order)
    with jax.enable_x64(True):
        J = np.asarray(_jacobian(theory, state, order, _pack(state)))
        values, vectors = np.linalg.eig(J)
        first = np.argsort(-np.real(values), kind="stable")
        origin = jax.tree.map(jnp.zeros_like, state)
        directions = jax.vmap(lambda v: _unpack(origin, v))(jnp.asarray(vectors.T[first]))
        return Stability(values[first].astype(complex), to_numpy(directions))


def _descend(
    field: Callable[[np.ndarray], np.ndarray], x: np.ndarray, F: np.ndarray, J: np.ndarray
) -> np.ndarray:
    """The damped Newton step that lessens |F|; more damping until one does."""
    U, s, Vt = np.linalg.svd(J)
    keep, size = s > NULL * s[0], np.linalg.norm(F)
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    damping = size**2
    for _ in range(30):
        trial = x - Vt.T @ (s / (s**2 + damping) * (U.T @ F))
        if np.linalg.norm(field(trial)) < size:
            return trial
        damping *= 10
    return x


def _coordinates(
    state: State, symmetry: Callable[[State], State] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(out, into): x = out @ y for coordinates y of the symmetry's image, and y = into @ x."""
    x = jnp.zeros_like(_pack(state))
    if symmetry is None:
        return np.eye(len(x)), np.eye(len(x))
    P = np.asarray(jax.jacfwd(lambda x: _pack(symmetry(_unpack(state, x))))(x))
    U, s, _ = np.linalg.svd(P)
    out = U[:, s > NULL * s[0]]
    return out, out.T @ P


@eqx.filter_jit
def _field(theory: AbstractTheory, state: State, order: str, x: Array) -> Array:
    return _pack(theory.drift(_unpack(state, x), order))


@eqx.filter_jit
def _jacobian(theory: AbstractTheory, state: State, order: str, x: Array) -> Array:
    return jax.jacfwd(lambda x: _pack(theory.drift(_unpack(state, x), order)))(jnp.asarray(x))


def _pack(state: State) -> Array:
    """The independent moving variables of a state, (n,)."""
    if not isinstance(state, Overlaps):
        return ravel_pytree(state)[0]
    upper = np.triu_indices(state.Q.shape[1])
    return jnp.concatenate([jnp.ravel(state.Q[:, *upper]), jnp.ravel(state.R)])


def _unpack(state: State, x: Array) -> State:
    """The state with its moving variables set to x; of x's type, real or complex."""
    if not isinstance(state, Overlaps):
        leaves, tree = jax.tree.flatten(state)
        parts = jnp.split(x, np.cumsum([np.size(leaf) for leaf in leaves])[:-1])
        shaped = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(tree, shaped)
    L, K, _ = state.R.shape
    i, j = np.triu_indices(K)
    q = x[: L * len(i)].reshape(L, -1)
    Q = jnp.zeros((L, K, K), x.dtype).at[:, i, j].set(q).at[:, j, i].set(q)
    return Overlaps(Q, x[L * len(i) :].reshape(state.R.shape), jnp.asarray(state.T))


def _check(theory: AbstractTheory, state: State, order: str) -> None:
    one_of("order", order, tuple(o for o in theory.orders if o not in theory.maps))
    n = sum(np.size(leaf) for leaf in jax.tree.leaves(state))
    if isinstance(state, Overlaps):
        L, K, M = state.R.shape
        n = L * (K * (K + 1) // 2 + K * M)
    if n > MOST_VARIABLES:
        raise ValueError(f"state: got {n} variables; allowed is at most {MOST_VARIABLES}")
