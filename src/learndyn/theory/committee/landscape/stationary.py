"""Stationary points of the quadratic committee's population risk.

Scaling of Sec. 7.2 of Bocchi et al., arXiv:2604.03068 (rows of V and V* with Q = V Vᵀ, see
`risk`), with an orthonormal teacher, T = I. At a stationary point VᵀV = a P_s + b P_r, with
P_s a projector of rank s inside the span of the teacher and P_r one of rank r orthogonal to it.
The paper lists the points with s = 0 or r = 0. Points with s > 0 and r > 0 also exist; they are
called `mixed` here. The Hessian spectra are in `spectra`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from learndyn.numerics import stiefel
from learndyn.runtime import checks
from learndyn.runtime.types import Int
from learndyn.theory.committee.landscape import risk


@dataclass(frozen=True)
class StationaryPoint:
    """A family of stationary points, VᵀV = a P_s + b P_r; build it with `stationary_point`.

    Attributes:
        p: number of student units.
        p_star: number of teacher units.
        s: rank inside the span of the teacher.
        r: rank orthogonal to the teacher.
        a: eigenvalue of VᵀV inside the span of the teacher, 0 if s = 0.
        b: eigenvalue of VᵀV orthogonal to the teacher, 0 if r = 0.
        risk: population risk at these points.
    """

    p: Int
    p_star: Int
    s: Int
    r: Int
    a: float
    b: float
    risk: float

    @property
    def kind(self) -> str:
        """One of zero, uncorrelated, correlated, zero_error, mixed."""
        if self.s == 0:
            return "uncorrelated" if self.r else "zero"
        if self.r:
            return "mixed"
        return "zero_error" if self.s == self.p_star else "correlated"


def stationary_point(p: Int, p_star: Int, s: Int, r: Int) -> StationaryPoint:
    """The stationary points of rank s inside and r orthogonal to the teacher (Sec. 7.2.1).

    r = 0:   a = p (2 + p*) / (p* (2 + s))                        (Eq. 30; zero error at s = p*)
    r >= 1:  b = p (1 − s/p*) / (s + r + 2),  a = b + p/p*        (s = 0: Eq. 28)
    R = 1 + 2/p* − (a s + b r)/p − 2 a s/(p p*).

    Args:
        p: number of student units.
        p_star: number of teacher units.
        s: rank inside the span of the teacher, 0 <= s <= p*.
        r: rank orthogonal to it, 0 <= r, with r + s <= p, and r = 0 if s = p*.

    Returns:
        The family, with a = 0 if s = 0 and b = 0 if r = 0.

    Raises:
        ValueError: if the ranks do not fit.

    Examples:
        >>> point = stationary_point(3, 2, s=1, r=1)
        >>> point.a, point.b, point.risk
        (1.875, 0.375, 0.625)
    """
    _check_ranks(p, p_star, s, r)
    a = p * (2 + p_star) / (p_star * (2 + s))
    b = 0.0
    if r:
        b = p * (1 - s / p_star) / (s + r + 2)
        a = b + p / p_star
    a = a if s else 0.0
    level = 1 + 2 / p_star - (a * s + b * r) / p - 2 * a * s / (p * p_star)
    return StationaryPoint(p, p_star, s, r, a, b, level)


def families(p: Int, p_star: Int, N: Int | None = None) -> list[StationaryPoint]:
    """All families of stationary points, by s and then r.

    There are no others. At a stationary point V B = 0 with B = m I + (2/p*) P* − (2/p) VᵀV, where
    P* is the projector on the teacher. Then VᵀV B = 0 is symmetric, so that VᵀV and P* commute, and
    on its range VᵀV has the eigenvalue p m/2 + p/p* inside the teacher's span and p m/2 outside.

    Args:
        p: number of student units.
        p_star: number of teacher units.
        N: input dimension, which bounds r by N − p*; by default there is no bound.

    Returns:
        The families.
    """
    most = p if N is None else min(p, N - p_star)
    ranks = [(s, r) for s in range(min(p, p_star) + 1) for r in range(min(p - s, most) + 1)]
    return [stationary_point(p, p_star, s, r) for s, r in ranks if s < p_star or r == 0]


def realise(
    point: StationaryPoint, N: Int, seed: Int | np.random.Generator = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draws weights at a stationary point: V = M (sqrt(a) U V* ; sqrt(b) Oᵀ) (Eqs. 28 and 30).

    M (p, s + r) has orthonormal columns; U (s, p*), the teacher V* (p*, N) and Oᵀ (r, N) have
    orthonormal rows, and V* O = 0. All are uniform under these constraints.

    Args:
        point: the family.
        N: input dimension, at least p* + r.
        seed: an integer, or a NumPy generator.

    Returns:
        (V, V_star), shapes (p, N) and (p*, N).

    Raises:
        ValueError: if N is too small.
    """
    least = check_dimension(point, N)
    rng = np.random.default_rng(seed)
    frame = stiefel.random_point(N, least, rng).T
    V_star, Ot = frame[: point.p_star], frame[point.p_star :]
    U = stiefel.random_point(point.p_star, point.s, rng).T
    M = stiefel.random_point(point.p, point.s + point.r, rng)
    return M @ np.concatenate([np.sqrt(point.a) * U @ V_star, np.sqrt(point.b) * Ot]), V_star


def search(
    N: int, p: int, p_star: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """A zero of the gradient, by Levenberg-Marquardt from a random start, without the families.

    Args:
        N: input dimension.
        p: number of student units.
        p_star: number of teacher units.
        rng: draws the start, normal and of a size uniform in 0 to 2.

    Returns:
        (V, V_star, left): the student, the teacher, and the gradient's largest entry.
    """
    V_star, eps = np.eye(p_star, N), np.finfo(np.float64).eps
    start = rng.uniform(0, 2) * rng.standard_normal(p * N) / np.sqrt(N)
    gradient = lambda x: risk.gradient(x.reshape(p, N), V_star).ravel()
    hessian = lambda x: risk.hessian(x.reshape(p, N), V_star)
    # Tolerances at machine precision: the search ends where rounding stops it.
    tight: dict[str, Any] = {"method": "lm", "xtol": eps, "ftol": eps, "gtol": eps}
    zero = scipy.optimize.least_squares(gradient, start, jac=hessian, **tight)  # pyright: ignore[reportArgumentType]
    return zero.x.reshape(p, N), V_star, float(np.abs(zero.fun).max())


def ranks(V: np.ndarray, V_star: np.ndarray, tolerance: float) -> tuple[int, int]:
    """Ranks s and r of V inside the span of an orthonormal teacher and orthogonal to it."""
    inside = V @ V_star.T
    rank = lambda part: int(np.linalg.matrix_rank(part, tol=tolerance))
    return rank(inside), rank(V - inside @ V_star)


def _check_ranks(p, p_star, s, r):
    checks.positive_int("p", p)
    checks.positive_int("p_star", p_star)
    if not 0 <= s <= min(p, p_star):
        raise ValueError(f"s: got {s}; allowed is 0 to min(p, p_star) = {min(p, p_star)}")
    # For s = p* the eigenvalue b = p (1 − s/p*)/(s + r + 2) vanishes, and r must be 0.
    most = p - s if s < p_star else 0
    if not 0 <= r <= most:
        raise ValueError(f"r: got {r}; allowed is 0 to {most} for p = {p}, s = {s}")


def check_dimension(point: StationaryPoint, N: Int) -> int:
    """The least input dimension of a point, p* + r; a ValueError if N is below it."""
    least = point.p_star + point.r
    if checks.positive_int("N", N) < least:
        raise ValueError(f"N: got {N}; allowed is at least p_star + r = {least}")
    return least
