"""The covariance of a linear stochastic equation along a path that is known.

    dP/dt = J P + P Jᵀ + D,

with J and D given at the Chebyshev nodes of a stretch of time, and polynomials in between. Over a
piece of it P becomes Φ P Φᵀ + W; two pieces in a row are one, (Φ₂ Φ₁, Φ₂ W₁ Φ₂ᵀ + W₂). Short pieces
are a Magnus expansion of order 4. Pieces of twice the length follow from them, and as J and D
change slowly so do Φ and W with the time at which a piece begins: those at the nodes suffice.
So stiffness costs a logarithm, and P stays positive semidefinite, however small it is along some
directions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import polynomial

from learndyn.numerics.types import Array

NODES = 7
PLACES = (1 - np.cos(np.pi * np.arange(NODES) / (NODES - 1))) / 2  # of the nodes, in [0, 1]
PARTS = 8  # of a stretch, at the ends of which P is known
SHORT = 0.2  # |J| × (length) of the shortest pieces


class Stretch(NamedTuple):
    """J and D on a stretch of time.

    Attributes:
        length: of the stretch.
        J: Jacobians at its nodes, (NODES, n, n).
        D: diffusions at its nodes, (NODES, n, n).
    """

    length: Array
    J: Array
    D: Array

    def at(self, place: Any) -> tuple[Array, Array]:
        """J and D at places in [0, 1], (…, n, n)."""
        return _mixed((self.J, self.D), lagrange(place))


class Piece(NamedTuple):
    """P becomes Φ P Φᵀ + W."""

    phi: Array
    W: Array

    def __call__(self, P: Array) -> Array:
        return self.phi @ P @ self.phi.T + self.W


def _joined(phi: Array, W: Array) -> Piece:
    """Two pieces in a row, stacked, as one."""
    return Piece(phi[1] @ phi[0], Piece(phi[1], W[1])(W[0]))


def misfit(stretch: Stretch, P: Array, floor: Any = 0.0) -> Array:
    """By how much the polynomials through all other nodes miss at the middle one.

    The error of J P + P Jᵀ + D there, relative to how fast variances are made and forgotten,
    D_ii + (P_ii + floor) / length.

    Args:
        stretch: the stretch.
        P: the covariance at its beginning.
        floor: variances below it need not be known.

    Returns:
        The largest of all entries.
    """
    middle = NODES // 2
    weights = np.insert(
        -_lagrange(np.delete(PLACES, middle), np.asarray(PLACES[middle])), middle, 1.0
    )
    J, D = _mixed((stretch.J, stretch.D), weights)
    half = J @ P
    made, held = jnp.diag(stretch.D[middle]), jnp.diag(P) + floor
    rates = jnp.sqrt(jnp.abs(made) + jnp.abs(held) / stretch.length)
    scale = jnp.outer(rates, rates)
    return jnp.max(jnp.abs(half + half.T + D) / jnp.where(scale > 0, scale, jnp.inf))


def carry(stretch: Stretch, P: Array) -> Array:
    """P at the ends of the parts of a stretch, from that at its beginning.

    Args:
        stretch: the stretch.
        P: the covariance at its beginning.

    Returns:
        P at the beginning, and at the end of each part, (PARTS + 1, n, n).
    """
    levels = jnp.ceil(jnp.log2(_norm(stretch) * stretch.length / (SHORT * PARTS) + 1e-9))
    levels = jnp.maximum(levels, 0)
    count = PARTS * 2.0**levels
    pieces = jax.lax.map(lambda place: _short(stretch, place, count), jnp.asarray(PLACES))

    def joined(_: Any, now: tuple[Array, Piece]) -> tuple[Array, Piece]:
        count, pieces = now
        first = 2 * (count / 2 - 1) * PLACES  # of each pair, by its number
        pair = lambda k: _mixed(pieces, lagrange(jnp.stack([k, k + 1]) / (count - 1)))
        return count / 2, jax.lax.map(lambda k: _joined(*pair(k)), first)

    _, pieces = jax.lax.fori_loop(0, levels.astype(int), joined, (count, pieces))
    part = lambda k: Piece(*_mixed(pieces, lagrange(k / (PARTS - 1))))
    _, ends = jax.lax.scan(lambda P, k: (part(k)(P),) * 2, P, jnp.arange(PARTS))
    return jnp.concatenate([P[None], ends])


def _norm(stretch: Stretch) -> Array:
    """The largest spectral norm of J at the ends and in the middle, a little above."""

    def of(J: Array) -> Array:
        size = lambda v: jnp.sqrt(v @ v)
        unit = lambda v: v / jnp.maximum(size(v), 1e-300)
        v = jax.lax.fori_loop(0, 9, lambda _, v: unit(J.T @ (J @ v)), unit(jnp.ones(len(J))))
        return size(J @ v)

    return 1.2 * jnp.max(jax.lax.map(of, stretch.J[:: NODES // 2]))


def _short(stretch: Stretch, place: Any, count: Any) -> Piece:
    """One of `count` equal pieces, from the first (place 0) to the last (place 1).

    It is short: the Magnus expansion of order 4, by two Gauss nodes.
    """
    middle, apart = (place * (count - 1) + 0.5) / count, 1 / 12**0.5 / count
    (A, B), (S, T) = stretch.at(jnp.stack([middle - apart, middle + apart]))
    turn, half = B @ A - A @ B, B @ S - A @ T
    once = stretch.length / count / 2
    twice = once**2 / 3**0.5
    return _exponential(once * (A + B) + twice * turn, once * (S + T) + twice * (half + half.T))


def _exponential(A: Array, S: Array) -> Piece:
    """Φ = e^A and W = ∫ e^(A s) S e^(Aᵀ s) ds over [0, 1], by their Taylor series to order 6."""
    one, A2 = jnp.eye(len(A)), A @ A
    A3 = A2 @ A
    phi = one + A + A2 / 2 + A3 @ (one / 6 + A / 24 + A2 / 120 + A3 / 720)
    made = W = S
    for order in range(2, 7):
        half = A @ made / order
        made = half + half.T
        W = W + made
    return Piece(phi, W)


def variances(stretch: Stretch, ends: Array, place: Any, slopes: Array) -> tuple[Array, Array]:
    """gᵀ P g at a place in a stretch, from P at the ends of its parts.

    Args:
        stretch: the stretch.
        ends: what `carry` gives.
        place: in [0, 1].
        slopes: gradients g, (count, n).

    Returns:
        That by the polynomial with the value and its first two derivatives at the ends of the
        part; and by how much that with the first alone is apart from it; (count,) each.
    """
    part = jnp.clip(jnp.floor(place * PARTS), 0, PARTS - 1).astype(int)
    known = _derivatives(stretch, part, ends, slopes), _derivatives(stretch, part + 1, ends, slopes)
    within = place * PARTS - part
    value = hermite(within, 2) @ jnp.concatenate(known)
    return value, jnp.abs(value - hermite(within, 1) @ jnp.concatenate([k[:2] for k in known]))


def _derivatives(stretch: Stretch, end: Array, ends: Array, g: Array) -> Array:
    """gᵀ P g, gᵀ P' g and gᵀ P'' g at the end of a part, by the time in parts, (3, count)."""
    place, P, dot = end / PARTS, ends[end], lambda x, y: jnp.sum(x * y, axis=-1)
    weights = jnp.stack([lagrange(place), jax.jacfwd(lagrange)(place) / PARTS])
    (J, dJ), (D, dD) = _mixed((stretch.J, stretch.D), stretch.length / PARTS * weights)
    gJ, Pg = g @ J, g @ P
    once = 2 * dot(gJ, Pg) + dot(g @ D, g)
    twice = 2 * dot(g @ dJ + gJ @ J, Pg) + 2 * dot(gJ @ P + g @ D, gJ) + dot(g @ dD, g)
    return jnp.stack([dot(g, Pg), once, twice])


def hermite(place: Any, most: int) -> Array:
    """Weights of value and derivatives at 0, then at 1, in the polynomial with these."""
    count = 2 * (most + 1)
    rows = [polynomial.polyder(np.eye(count), m, axis=0) for m in range(most + 1)]
    conditions = np.stack([polynomial.polyval(x, row) for x in (0.0, 1.0) for row in rows])
    return np.linalg.inv(conditions.T) @ place ** jnp.arange(count)


def lagrange(place: Any) -> Array:
    """The weights of values at the nodes in the polynomial through them, (…, NODES)."""
    return _lagrange(PLACES, jnp.asarray(place))


def _lagrange(places: np.ndarray, at: Any) -> Any:
    others = np.array([np.delete(places, k) for k in range(len(places))])
    return ((at[..., None, None] - others) / (places[:, None] - others)).prod(axis=-1)


def _mixed(values: tuple[Array, Array], weights: Any) -> tuple[Array, Array]:
    """Sums of stacked matrices: (NODES, n, n) with weights (…, NODES) to (…, n, n)."""
    flat = lambda each: (weights @ each.reshape(NODES, -1)).reshape(
        *weights.shape[:-1], *each[0].shape
    )
    return flat(values[0]), flat(values[1])
