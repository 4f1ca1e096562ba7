"""Fixed points of a theory's flow and their stability, from the true vector field.

They are exact where a paper has approximate heights and rates: Newton's method on `drift`, and the
eigenvalues of its Jacobian, by automatic differentiation. Jacobians are dense, so this is for small
systems. The variables are the theory's `vector`: those that move and are independent.

The damping is our own: fixed points on plateaus come in families, to which the trust region of
library versions of Levenberg-Marquardt converges linearly, but a damping of |drift|² quadratically.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.checks import one_of, positive_int
from learndyn.runtime.precision import full_precision, to_numpy
from learndyn.runtime.types import Array
from learndyn.theory import AbstractTheory, Flow
from learndyn.theory.dynamics import State

MOST_VARIABLES = 3000  # a dense Jacobian of this size takes 72 MB, its eigenvalues minutes
NULL = 1e-8  # relative size of singular values that count as zero, along a family of solutions
ROUNDING = 1e-14  # rounding error of the drift, relative to |Jacobian| · |variables|


class FixedPoint(NamedTuple):
    """The result of Newton's method.

    Attributes:
        state: the final state.
        residual: the largest |drift| there.
        steps: the number of Jacobians evaluated.
        converged: whether the residual is at the level of rounding errors of `drift`.
    """

    state: State
    residual: float
    steps: int
    converged: bool


class Stability(NamedTuple):
    """Eigenvalues and eigenvectors of the drift's Jacobian.

    Attributes:
        rates: complex, (n,), fastest growth first; per unit of time of `drift`, that is, including
            the learning rate.
        directions: a state whose leaves have a leading axis n: direction k grows at rates[k].
            Entries that do not move (T) are zero.
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

    Levenberg-Marquardt with damping |drift|². If fixed points are not isolated, as on plateaus, it
    converges quadratically to the nearest point of the family (Yamashita and Fukushima 2001).
    Stable and unstable fixed points are found alike. Where two families cross, convergence is only
    linear, unless `symmetry` selects one of them.

    Args:
        theory: a theory whose `order` is a flow.
        state: where to begin.
        order: "flow", or "full" for the fixed point at a finite learning rate.
        symmetry: a linear projection of states that commutes with the flow, such as
            `erf_plateau.equal_students`; the search stays in its image.
        max_steps: the largest number of Jacobians to evaluate.

    Returns:
        The fixed point, or the last iterate if it has not converged.

    Raises:
        ValueError: for an order that is not a flow, or more than 3000 variables.
    """
    positive_int("max_steps", max_steps)
    _check(theory, state, order)
    with full_precision():
        out, into = _coordinates(theory, state, symmetry)
        field = lambda y: into @ np.asarray(_field(theory, state, order, out @ y))
        y, steps, converged = into @ np.asarray(theory.vector(state)), 0, False
        while not converged and steps < max_steps:
            F, J = field(y), into @ np.asarray(_jacobian(theory, state, order, out @ y)) @ out
            scale = np.linalg.norm(J) * np.linalg.norm(y)
            converged = bool(np.linalg.norm(F) <= ROUNDING * scale)
            y = y if converged else _descend(field, y, F, J)
            steps += 1
        residual = float(np.abs(_field(theory, state, order, out @ y)).max())
        end = to_numpy(theory.with_vector(state, jnp.asarray(out @ y)))
        return FixedPoint(end, residual, steps, converged)


def jacobian_spectrum(theory: AbstractTheory, state: State, order: str = "flow") -> Stability:
    """Growth rates and directions of small deviations from a state.

    At a fixed point these are the rates of its linear stability.

    Args:
        theory: a theory whose `order` is a flow.
        state: where to linearise.
        order: "flow", or "full" for all terms in the learning rate.

    Returns:
        Eigenvalues and directions. Rounding turns a zero eigenvalue in a Jordan block into about
        1e-8 of the largest rate.

    Raises:
        ValueError: for an order that is not a flow, or more than 3000 variables.
    """
    _check(theory, state, order)
    with full_precision():
        J = np.asarray(_jacobian(theory, state, order, theory.vector(state)))
        values, vectors = np.linalg.eig(J)
        first = np.argsort(-np.real(values), kind="stable")  # keeps conjugate pairs together
        origin = jax.tree.map(jnp.zeros_like, state)
        along = lambda v: theory.with_vector(origin, v)
        directions = jax.vmap(along)(jnp.asarray(vectors.T[first]))
        return Stability(values[first].astype(complex), to_numpy(directions))


def _descend(
    field: Callable[[np.ndarray], np.ndarray], x: np.ndarray, F: np.ndarray, J: np.ndarray
) -> np.ndarray:
    """A damped Newton step that reduces |F|; the damping increases until one does."""
    # Without the null directions, along which a family of fixed points continues.
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
    theory: AbstractTheory, state: State, symmetry: Callable[[State], State] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(out, into): x = out @ y for coordinates y in the image of the symmetry, and y = into @ x."""
    x = jnp.zeros_like(jnp.asarray(theory.vector(state)))
    if symmetry is None:
        return np.eye(len(x)), np.eye(len(x))
    projected = lambda x: theory.vector(symmetry(theory.with_vector(state, x)))
    U, s, _ = np.linalg.svd(P := np.asarray(jax.jacfwd(projected)(x)))
    out = U[:, s > NULL * s[0]]
    return out, out.T @ P


@eqx.filter_jit
def _field(theory: AbstractTheory, state: State, order: str, x: Array) -> Array:
    return theory.vector(theory.drift(theory.with_vector(state, x), order))


@eqx.filter_jit
def _jacobian(theory: AbstractTheory, state: State, order: str, x: Array) -> Array:
    field = lambda x: theory.vector(theory.drift(theory.with_vector(state, x), order))
    return jax.jacfwd(field)(jnp.asarray(x))


def _check(theory: AbstractTheory, state: State, order: str) -> None:
    flows = tuple(o for o in theory.orders if isinstance(theory.dynamics(o), Flow))
    one_of("order", order, flows)
    n = np.size(theory.vector(state))
    if n > MOST_VARIABLES:
        raise ValueError(f"state: got {n} variables; allowed is at most {MOST_VARIABLES}")
