"""The covariance of a linear stochastic equation along a path that is known.

    dP/dt = J P + P Jᵀ + D,

with J and D given at the Chebyshev nodes of a stretch of time, and polynomials in between. Over a
piece of it P becomes Φ P Φᵀ + W; two pieces in a row are one, (Φ₂ Φ₁, Φ₂ W₁ Φ₂ᵀ + W₂). Short pieces
are a Magnus expansion of order 6. Pieces of twice the length follow from them, and as J and D
change slowly so do Φ and W with the time at which a piece begins: `STARTS` of each length suffice.
So stiffness costs a logarithm, and P stays positive semidefinite, however small it is along some
directions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import polynomial

NODES = 7
STARTS = 5  # of pieces of one length
PARTS = 8  # P goes through so many parts for what joining them would cost
SHORT = 0.4  # |J| × (length) of the shortest pieces


def chebyshev(count: int) -> np.ndarray:
    """Chebyshev's places on [0, 1], its ends among them."""
    return (1 - np.cos(np.pi * np.arange(count) / (count - 1))) / 2


PLACES = chebyshev(NODES)


Pair = tuple[Any, Any]  # J and D


class Stretch(NamedTuple):
    """J and D on a stretch of time.

    Attributes:
        length: of the stretch.
        J: Jacobians at its nodes, (NODES, n, n).
        D: diffusions at its nodes, (NODES, n, n).
    """

    length: float
    J: np.ndarray
    D: np.ndarray

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """J and D at a time since the beginning."""
        weights = lagrange(PLACES, time / self.length)
        return np.tensordot(weights, self.J, 1), np.tensordot(weights, self.D, 1)


class Piece(NamedTuple):
    """P becomes Φ P Φᵀ + W."""

    phi: np.ndarray
    W: np.ndarray

    def __call__(self, P: np.ndarray) -> np.ndarray:
        return self.phi @ P @ self.phi.T + self.W

    def then(self, other: "Piece") -> "Piece":
        """This piece, and another after it."""
        return Piece(other.phi @ self.phi, other(self.W))

    def mixed(self, weights: np.ndarray) -> "Piece":
        """A sum of pieces, where they are stacked."""
        return Piece(np.tensordot(weights, self.phi, 1), np.tensordot(weights, self.W, 1))


def misfit(stretch: Stretch, P: np.ndarray, floor: float = 0.0) -> float:
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
    weights = np.insert(-lagrange(np.delete(PLACES, middle), PLACES[middle]), middle, 1.0)
    error = np.tensordot(weights, stretch.J, 1) @ P
    error += error.T + np.tensordot(weights, stretch.D, 1)
    made, held = np.diag(stretch.D[middle]), np.diag(P) + floor
    rates = np.sqrt(np.abs(made) + np.abs(held) / stretch.length)
    scale = np.outer(rates, rates)
    return float(np.max(np.abs(error) / np.where(scale > 0, scale, np.inf)))


def carry(stretch: Stretch, P: np.ndarray, parts: int) -> list[np.ndarray]:
    """P at the ends of equal parts of a stretch, from that at its beginning.

    Args:
        stretch: the stretch.
        P: the covariance at its beginning.
        parts: how many at least, a power of two; there are more where that costs nothing.

    Returns:
        P at the beginning, and at the end of each part.
    """
    count = max(parts, int(2 ** np.ceil(np.log2(_norm(stretch) * stretch.length / SHORT + 1e-9))))
    parts = max(parts, min(PARTS, count))
    short, starts = stretch.length / count, _starts(count)
    pieces = _stacked([_short(stretch, start * short, short) for start in starts])
    at = lambda start: pieces.mixed(lagrange(starts, start))
    while count > parts:
        count //= 2
        longer = _stacked([at(2 * start).then(at(2 * start + 1)) for start in _starts(count)])
        pieces, starts = longer, _starts(count)
    found = [P]
    for part in range(parts):
        found.append(at(float(part))(found[-1]))
    return found


def _norm(stretch: Stretch) -> float:
    """The largest spectral norm of J at the ends and in the middle, a little above."""
    found = 0.0
    for J in stretch.J[:: NODES // 2]:
        v = np.ones(len(J))
        for _ in range(10):
            v = J.T @ (J @ (v / max(np.linalg.norm(v), 1e-300)))
        found = max(found, np.sqrt(np.linalg.norm(v)))
    return 1.2 * found


def _starts(count: int) -> np.ndarray:
    """Where pieces begin that fill a stretch, in their own length: all, or `STARTS` of them."""
    return np.arange(float(count)) if count <= STARTS else (count - 1) * chebyshev(STARTS)


def _short(stretch: Stretch, start: float, length: float) -> Piece:
    """A piece that is short: the Magnus expansion of order 6, by three Gauss nodes.

    Of M = (J, D), which stands for the matrix ((J, D), (0, −Jᵀ)); the letters are those of
    Blanes, Casas, Oteo and Ros (Phys. Rep. 470, 2009).
    """
    apart = length * 0.15**0.5
    M1, M2, M3 = (stretch.at(start + length / 2 + side * apart) for side in (-1, 0, 1))
    once, twice = length * 15**0.5 / 3, length * 10 / 3
    a1, a2 = _sum((length, M2)), _sum((once, M3), (-once, M1))
    a3 = _sum((twice, M3), (-2 * twice, M2), (twice, M1))
    C1 = _commutator(a1, a2)
    C2 = _commutator(a1, _sum((-1 / 30, a3), (-1 / 60, C1)))
    last = _commutator(_sum((-20.0, a1), (-1.0, a3), (1.0, C1)), _sum((1.0, a2), (1.0, C2)))
    return _exponential(*_sum((1.0, a1), (1 / 12, a3), (1 / 240, last)))


def _sum(*terms: tuple[float, Pair]) -> Pair:
    return sum(w * J for w, (J, _) in terms), sum(w * D for w, (_, D) in terms)


def _commutator(X: Pair, Y: Pair) -> Pair:
    (A, S), (B, T) = X, Y
    half = A @ T - B @ S
    return A @ B - B @ A, half + half.T


def _exponential(A: np.ndarray, S: np.ndarray) -> Piece:
    """Φ = e^A and W = ∫ e^(A s) S e^(Aᵀ s) ds over [0, 1], by their Taylor series to order 6."""
    one, A2 = np.eye(len(A)), A @ A
    A3 = A2 @ A
    phi = one + A + A2 / 2 + A3 @ (one / 6 + A / 24 + A2 / 120 + A3 / 720)
    made, W = S, S.copy()
    for order in range(2, 7):
        made = A @ made / order
        made = made + made.T
        W += made
    return Piece(phi, W)


def _stacked(pieces: Sequence[Piece]) -> Piece:
    return Piece(*(np.stack(each) for each in zip(*pieces, strict=True)))


def course(
    stretch: Stretch, parts: int, part: int, P0: np.ndarray, P1: np.ndarray
) -> Callable[[float, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """P on one of the equal parts of a stretch, given at its two ends.

    Args:
        stretch: the stretch.
        parts: of how many parts.
        part: which.
        P0: the covariance at its beginning.
        P1: the covariance at its end.

    Returns:
        (a place in [0, 1], gradients g (…, n)) → gᵀ P g, by the polynomial with P and its first
        two derivatives at the ends; and by how much that with the first alone is apart from it.
    """
    ends = (part / parts, P0), ((part + 1) / parts, P1)
    known = np.stack([each for end in ends for each in _derivatives(stretch, parts, *end)])

    def read(place: float, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        change = hermite(place, 2)
        change[[0, 1, 3, 4]] -= hermite(place, 1)
        pair = (np.tensordot(w, known, 1) for w in (hermite(place, 2), change))
        value, apart = (np.asarray(np.sum((slopes @ P) * slopes, axis=-1)) for P in pair)
        return value, np.asarray(np.abs(apart))

    return read


def _derivatives(stretch: Stretch, parts: int, place: float, P: np.ndarray) -> list[np.ndarray]:
    """P, P' and P'' at a place in a stretch, in units of one of its equal parts."""
    h, powers = stretch.length / parts, np.vander(PLACES, increasing=True)
    change = polynomial.polyval(place, polynomial.polyder(np.eye(NODES), axis=0))
    weights = np.linalg.solve(powers.T, change) / stretch.length
    J, D = stretch.at(place * stretch.length)
    once = J @ P
    once = h * (once + once.T + D)
    twice = h * np.tensordot(weights, stretch.J, 1) @ P + J @ once
    return [P, once, h * (twice + twice.T + h * np.tensordot(weights, stretch.D, 1))]


def hermite(place: float, most: int) -> np.ndarray:
    """Weights of value and derivatives at 0, then at 1, in the polynomial with these."""
    count = 2 * (most + 1)
    rows = [polynomial.polyder(np.eye(count), m, axis=0) for m in range(most + 1)]
    conditions = [polynomial.polyval(x, row) for x in (0.0, 1.0) for row in rows]
    return np.linalg.solve(np.stack(conditions).T, place ** np.arange(count))


def lagrange(places: np.ndarray, at: float) -> np.ndarray:
    """The weights of values at `places` in the polynomial through them, (places,)."""
    others = np.array([np.delete(places, k) for k in range(len(places))])
    return np.prod((at - others) / (places[:, None] - others), axis=1)
