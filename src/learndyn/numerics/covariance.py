"""The covariance of a linear stochastic equation along a known path.

    dP/dt = J P + P Jᵀ + D,

with J and D given at the Chebyshev nodes of a stretch of time, and interpolated by polynomials in
between. Over a piece of the stretch P becomes Φ P Φᵀ + W, and two consecutive pieces combine into
one, (Φ₂ Φ₁, Φ₂ W₁ Φ₂ᵀ + W₂). The shortest pieces come from a Magnus expansion of order 4, and
repeated doubling gives the longer ones. Since J and D change slowly, Φ and W depend smoothly on
the time at which a piece begins, so only the pieces that begin at the nodes are computed.
The cost therefore grows with the logarithm of the stiffness, and P stays positive semidefinite
even where it is very small along some directions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import polynomial

from learndyn.runtime.types import Array

NODES = 7  # odd, so that one node is the middle
PLACES = (1 - np.cos(np.pi * np.arange(NODES) / (NODES - 1))) / 2  # positions of the nodes, [0, 1]
PARTS = 8  # equal parts of a stretch; P is known at their ends
SHORT = 0.2  # |J| × length of the shortest pieces: their Taylor series err by 0.2⁷/7! = 3e-9


class Stretch(NamedTuple):
    """J and D on a stretch of time.

    Attributes:
        length: duration of the stretch.
        J: Jacobians at its nodes, (NODES, n, n).
        D: diffusion matrices at its nodes, (NODES, n, n).
    """

    length: Array
    J: Array
    D: Array

    def at(self, place: Any) -> tuple[Array, Array]:
        """J and D at places in [0, 1], (…, n, n)."""
        return _mixed((self.J, self.D), lagrange(place))


class Piece(NamedTuple):
    """The map P ↦ Φ P Φᵀ + W over a piece of a stretch."""

    phi: Array
    W: Array

    def __call__(self, P: Array) -> Array:
        return self.phi @ P @ self.phi.T + self.W


def misfit(stretch: Stretch, P: Array, floor: Any = 0.0) -> Array:
    """The interpolation error at the middle node of the polynomials through all other nodes.

    It is the error of J P + P Jᵀ + D there, relative to the rates at which variances are created
    and forgotten, D_ii + (P_ii + floor) / length.

    Args:
        stretch: the stretch.
        P: the covariance at its beginning.
        floor: a variance below which accuracy does not matter.

    Returns:
        The largest relative error of all entries.
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
    # An entry of scale 0 belongs to a variable that never varies: it counts as exact.
    return jnp.max(jnp.abs(half + half.T + D) / jnp.where(scale > 0, scale, jnp.inf))


def carry(stretch: Stretch, P: Array) -> Array:
    """P at the ends of the parts of a stretch, from P at its beginning.

    Args:
        stretch: the stretch.
        P: the covariance at its beginning.

    Returns:
        P at the beginning, and at the end of each part, (PARTS + 1, n, n).
    """
    # The number of doublings that makes the shortest pieces as short as SHORT; 1e-9 stands for
    # J = 0, whose logarithm would be infinite.
    levels = jnp.ceil(jnp.log2(_norm(stretch) * stretch.length / (SHORT * PARTS) + 1e-9))
    levels = jnp.maximum(levels, 0)
    count = PARTS * 2.0**levels
    pieces = jax.lax.map(lambda place: _short(stretch, place, count), jnp.asarray(PLACES))

    def doubled(_: Any, now: tuple[Array, Piece]) -> tuple[Array, Piece]:
        count, pieces = now

        def joined(k: Array) -> Piece:
            """Pieces number k and k + 1 as one; k need not be an integer."""
            phi, W = _mixed(pieces, lagrange(jnp.stack([k, k + 1]) / (count - 1)))
            return Piece(phi[1] @ phi[0], Piece(phi[1], W[1])(W[0]))

        # The new piece at place x is number (count/2 − 1) x, whose first half is twice that.
        return count / 2, jax.lax.map(joined, 2 * (count / 2 - 1) * PLACES)

    _, pieces = jax.lax.fori_loop(0, levels.astype(int), doubled, (count, pieces))
    part = lambda k: Piece(*_mixed(pieces, lagrange(k / (PARTS - 1))))
    _, ends = jax.lax.scan(lambda P, k: (part(k)(P),) * 2, P, jnp.arange(PARTS))
    return jnp.concatenate([P[None], ends])


def _norm(stretch: Stretch) -> Array:
    """An estimate from above of the spectral norm of J, at the ends and in the middle."""

    def power_iteration(J: Array) -> Array:
        size = lambda v: jnp.sqrt(v @ v)
        unit = lambda v: v / jnp.maximum(size(v), 1e-300)
        v = jax.lax.fori_loop(0, 9, lambda _, v: unit(J.T @ (J @ v)), unit(jnp.ones(len(J))))
        return size(J @ v)

    # The power method estimates from below; the factor makes up for it. Too large a norm costs
    # at most one more doubling.
    return 1.2 * jnp.max(jax.lax.map(power_iteration, stretch.J[:: NODES // 2]))


def _short(stretch: Stretch, place: Any, count: Any) -> Piece:
    """One of `count` equal pieces, from the first (place 0) to the last (place 1).

    By the Magnus expansion of order 4 with two Gauss nodes, which is accurate since it is short.
    """
    middle, apart = (place * (count - 1) + 0.5) / count, 1 / 12**0.5 / count
    (A, B), (S, T) = stretch.at(jnp.stack([middle - apart, middle + apart]))
    turn, half = B @ A - A @ B, B @ S - A @ T
    once = stretch.length / count / 2
    twice = once**2 / 3**0.5
    return _exponential(once * (A + B) + twice * turn, once * (S + T) + twice * (half + half.T))


def _exponential(A: Array, S: Array) -> Piece:
    """Φ = e^A and W = ∫ e^(A s) S e^(Aᵀ s) ds over [0, 1], by Taylor series up to order 6."""
    one, A2 = jnp.eye(len(A)), A @ A
    A3 = A2 @ A
    phi = one + A + A2 / 2 + A3 @ (one / 6 + A / 24 + A2 / 120 + A3 / 720)
    term = W = S
    for order in range(2, 7):
        half = A @ term / order
        term = half + half.T
        W = W + term
    return Piece(phi, W)


def variances(stretch: Stretch, ends: Array, place: Any, slopes: Array) -> tuple[Array, Array]:
    """gᵀ P g at a place in a stretch, from P at the ends of its parts.

    Args:
        stretch: the stretch.
        ends: P at the ends of the parts, from `carry`.
        place: position in the stretch, in [0, 1].
        slopes: gradients g, (count, n).

    Returns:
        The value by Hermite interpolation with two derivatives at the ends of the part, and its
        distance from the interpolation with one derivative, as an error estimate; (count,) each.
    """
    part = jnp.clip(jnp.floor(place * PARTS), 0, PARTS - 1).astype(int)
    known = _derivatives(stretch, part, ends, slopes), _derivatives(stretch, part + 1, ends, slopes)
    within = place * PARTS - part
    value = hermite(within, 2) @ jnp.concatenate(known)
    return value, jnp.abs(value - hermite(within, 1) @ jnp.concatenate([k[:2] for k in known]))


def _derivatives(stretch: Stretch, end: Array, ends: Array, g: Array) -> Array:
    """gᵀ P g, gᵀ P' g and gᵀ P'' g at the end of a part, with time in units of parts, (3, count).

    P' = J P + P Jᵀ + D is the equation itself, and P'' its derivative, so both are exact.
    """
    place, P, dot = end / PARTS, ends[end], lambda x, y: jnp.sum(x * y, axis=-1)
    weights = jnp.stack([lagrange(place), jax.jacfwd(lagrange)(place) / PARTS])
    (J, dJ), (D, dD) = _mixed((stretch.J, stretch.D), stretch.length / PARTS * weights)
    gJ, Pg = g @ J, g @ P
    once = 2 * dot(gJ, Pg) + dot(g @ D, g)
    twice = 2 * dot(g @ dJ + gJ @ J, Pg) + 2 * dot(gJ @ P + g @ D, gJ) + dot(g @ dD, g)
    return jnp.stack([dot(g, Pg), once, twice])


def hermite(place: Any, most: int) -> Array:
    """Weights of the value and `most` derivatives at 0, then at 1, in the Hermite polynomial."""
    count = 2 * (most + 1)
    rows = [polynomial.polyder(np.eye(count), m, axis=0) for m in range(most + 1)]
    conditions = np.stack([polynomial.polyval(x, row) for x in (0.0, 1.0) for row in rows])
    return np.linalg.inv(conditions.T) @ place ** jnp.arange(count)


def lagrange(place: Any) -> Array:
    """The weights of the values at the nodes in the polynomial through them, (…, NODES)."""
    return _lagrange(PLACES, jnp.asarray(place))


def _lagrange(places: np.ndarray, at: Any) -> Any:
    # `at` may be a NumPy array, so that weights of fixed places are constants of the program.
    others = np.array([np.delete(places, k) for k in range(len(places))])
    return ((at[..., None, None] - others) / (places[:, None] - others)).prod(axis=-1)


def _mixed(values: tuple[Array, Array], weights: Any) -> tuple[Array, Array]:
    """Weighted sums of the matrices at the nodes, (NODES, n, n), by weights (…, NODES)."""
    flat = lambda each: (weights @ each.reshape(NODES, -1)).reshape(
        *weights.shape[:-1], *each[0].shape
    )
    return flat(values[0]), flat(values[1])
