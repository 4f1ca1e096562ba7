"""Stationary points of the quadratic committee's population risk, and their Hessian spectra.

Scaling of Sec. 7.2 of Bocchi et al., arXiv:2604.03068 (rows of V and V* with Q = V Vᵀ, see
`landscape`), with an orthonormal teacher, T = I. At a stationary point VᵀV = a P_s + b P_r, with
P_s a projector of rank s inside the span of the teacher and P_r one of rank r orthogonal to it.
The paper lists the points with s = 0 or r = 0; those with both, here `mixed`, also exist.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from learndyn.numerics import checks, stiefel
from learndyn.numerics.types import Int

KINDS = ("tabula_rasa", "plateau", "zero_error", "aligned")


@dataclass(frozen=True)
class StationaryPoint:
    """A family of stationary points, VᵀV = a P_s + b P_r; build it with `stationary_point`.

    Attributes:
        p: number of student units.
        p_star: number of teacher units.
        s: rank inside the span of the teacher.
        r: rank orthogonal to the teacher.
        a: eigenvalue of VᵀV inside the span of the teacher, 0 where s = 0.
        b: eigenvalue of VᵀV orthogonal to the teacher, 0 where r = 0.
        risk: population risk there.
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
        r: rank orthogonal to it, 0 <= r, with r + s <= p, and r = 0 where s = p*.

    Returns:
        The family, with a = 0 where s = 0 and b = 0 where r = 0.

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
    risk = 1 + 2 / p_star - (a * s + b * r) / p - 2 * a * s / (p * p_star)
    return StationaryPoint(p, p_star, s, r, a, b, risk)


def families(p: Int, p_star: Int, N: Int | None = None) -> list[StationaryPoint]:
    """All families of stationary points, by s and then r.

    That there are no others: at a stationary point V B = 0 with B = m I + (2/p*) P* − (2/p) VᵀV,
    P* the projector on the teacher. Then VᵀV B = 0 is symmetric, so that VᵀV and P* commute, and
    on the range of VᵀV its eigenvalue is p m/2 + p/p* inside the teacher and p m/2 outside.

    Args:
        p: number of student units.
        p_star: number of teacher units.
        N: input dimension, which bounds r by N − p*; None is any.

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
    least = _check_dimension(point, N)
    rng = np.random.default_rng(seed)
    frame = stiefel.random_point(N, least, rng).T
    V_star, Ot = frame[: point.p_star], frame[point.p_star :]
    U = stiefel.random_point(point.p_star, point.s, rng).T
    M = stiefel.random_point(point.p, point.s + point.r, rng)
    return M @ np.concatenate([np.sqrt(point.a) * U @ V_star, np.sqrt(point.b) * Ot]), V_star


def predicted_spectrum(kind: str, N: Int, p: Int, p_star: Int) -> list[tuple[float, int]]:
    """Eigenvalues and multiplicities of the Hessian at the paper's four points (Sec. 7.2.2).

    Args:
        kind: "tabula_rasa" (V = 0), "plateau" (s = 0, r = p; needs p + p* <= N), "zero_error"
            (s = p*, r = 0; needs p >= p*) or "aligned" (all to one teacher: s = 1, r = 0).
        N: input dimension, at least p*.
        p: number of student units.
        p_star: number of teacher units.

    Returns:
        (eigenvalue, multiplicity), ascending, without empty entries, equal eigenvalues merged.
        Multiplicities add up to p N; eigenvalues are rates per t = η α.

    Raises:
        ValueError: if the kind is unknown or the sizes do not fit it.

    Examples:
        >>> predicted_spectrum("plateau", 10, 2, 2)
        [(-2.0, 4), (0.0, 13), (2.0, 2), (4.0, 1)]
    """
    checks.one_of("kind", kind, KINDS)
    _check_sizes(N, p, p_star)
    if kind == "plateau":
        _check_plateau(N, p, p_star)
    if kind == "zero_error" and p < p_star:
        raise ValueError(f"p: got {p}; allowed is at least p_star = {p_star}")
    return _merge(_ENTRIES[kind](N, p, p_star))


def full_spectrum(point: StationaryPoint, N: Int) -> list[tuple[float, int]]:
    """Eigenvalues and multiplicities of the Hessian at any stationary point, mixed ones too.

    The paper has four of them (`predicted_spectrum`). With m = 1 − (a s + b r)/p, and with
    t = p* − s teacher directions unlearnt, z = p − s − r units' directions unused and
    n = N − p* − r input directions free, H on a product of a left and a right direction is
    −(4/p)(e − 2 q/p), e the eigenvalue of B (see `families`) and q that of V Vᵀ. Inside the
    range of V, with D = diag(√a …, √b …), it is X -> (8/p²) [tr(D X) D + D Xᵀ D + D² X].

    Args:
        point: the family.
        N: input dimension, at least p* + r.

    Returns:
        (eigenvalue, multiplicity), ascending, without empty entries, equal eigenvalues merged.

    Raises:
        ValueError: if N is too small.
    """
    _check_dimension(point, N)
    p, q, s, r, a, b = point.p, point.p_star, point.s, point.r, point.a, point.b
    m = 1 - (a * s + b * r) / p
    t, z, n = q - s, p - s - r, N - q - r
    outside = [
        (-8 / (p * q), r * t),
        (-4 / p * (m + 2 / q), z * t),
        (-4 / p * m, z * n),
        (0.0, s * t + r * n + z * (s + r)),
        (8 / (p * q), s * n),
    ]
    return _merge(outside + _inside(p, s, r, a, b))


def negative_directions(point: StationaryPoint, N: Int) -> int:
    """Number of negative eigenvalues of the Hessian at a stationary point.

    (p − s)(p* − s) + (p − s − r)(N − p* − r) for s < p*, and none for s = p*: for p >= p* every
    stationary point with an error is a saddle or the maximum V = 0.

    Args:
        point: the family.
        N: input dimension, at least p* + r.

    Returns:
        The number.
    """
    _check_dimension(point, N)
    p, q, s, r = point.p, point.p_star, point.s, point.r
    return (p - s) * (q - s) + (p - s - r) * (N - q - r) if s < q else 0


def negative_to_null_ratio(N: Int, p: Int, p_star: Int) -> float:
    """Negative over null eigenvalues on the plateau, p*/(N − p* − p/2 − 1/2) (Eq. 29).

    It grows with p up to p = N − p*, the largest p with a plateau of rank p, and not to p = N
    as printed.

    Args:
        N: input dimension, at least p + p*.
        p: number of student units.
        p_star: number of teacher units.

    Returns:
        The ratio; infinite where nothing is null (p = 1, N = p* + 1).

    Examples:
        >>> negative_to_null_ratio(20, 3, 2)
        0.125
    """
    _check_sizes(N, p, p_star)
    _check_plateau(N, p, p_star)
    null = 2 * (N - p_star) - p - 1
    return 2 * p_star / null if null else float("inf")


def _tabula_rasa(N, p, q):
    return [(-4 / p * (1 + 2 / q), p * q), (-4 / p, p * (N - q))]


def _plateau(N, p, q):
    pairs = p * (p - 1) // 2
    return [
        (-8 / (p * q), p * q),
        (0.0, p * (N - q - p) + pairs),
        (16 / (p * (p + 2)), pairs + p - 1),
        (8 / p, 1),
    ]


def _zero_error(N, p, q):
    unit = 8 / (p * q)
    return [
        (0.0, N * (p - q) + q * (q - 1) // 2),
        (unit, q * (N - q)),
        (2 * unit, q * (q + 1) // 2 - 1),
        (unit * (2 + q), 1),
    ]


def _aligned(N, p, q):
    unit = 8 / (p * q)
    return [
        (-unit * (q + 2) / 3, (q - 1) * (p - 1)),
        (-unit * (q - 1) / 3, (N - q) * (p - 1)),
        (0.0, p + q - 2),
        (unit, N - q),
        (unit * (2 + q), 1),
    ]


_ENTRIES: dict[str, Callable] = dict(
    zip(KINDS, (_tabula_rasa, _plateau, _zero_error, _aligned), strict=True)
)


def _inside(p, s, r, a, b):
    """Spectrum on the range of V: a pair i < j gives 0 and d_i² + d_j², the diagonal the rest."""
    k, unit = s + r, 8 / p**2
    pairs = [(0.0, k * (k - 1) // 2), (unit * (a + b), s * r)]
    pairs += [(2 * unit * a, s * (s - 1) // 2), (2 * unit * b, r * (r - 1) // 2)]
    # 2 D² + d dᵀ: constant on each of the two groups, or summing to zero in one of them.
    diagonal = [(2 * unit * a, max(s - 1, 0)), (2 * unit * b, max(r - 1, 0))]
    cross = np.sqrt(a * b * s * r)
    both = np.linalg.eigvalsh([[(2 + s) * a, cross], [cross, (2 + r) * b]])
    # Of an empty group the 2 × 2 matrix holds a zero that is no direction.
    kept = both[2 - (s > 0) - (r > 0) :]
    return pairs + diagonal + [(unit * float(value), 1) for value in kept]


def _merge(entries):
    merged: list[tuple[float, int]] = []
    for value, count in sorted((value, count) for value, count in entries if count):
        if merged and np.isclose(value, merged[-1][0], rtol=1e-12, atol=1e-12):
            value, count = merged[-1][0], count + merged.pop()[1]
        merged.append((value + 0.0, count))
    return merged


def _check_ranks(p, p_star, s, r):
    checks.positive_int("p", p)
    checks.positive_int("p_star", p_star)
    if not 0 <= s <= min(p, p_star):
        raise ValueError(f"s: got {s}; allowed is 0 to min(p, p_star) = {min(p, p_star)}")
    # Of rank p* inside the teacher, b = p (1 − s/p*)/(s + r + 2) vanishes.
    most = p - s if s < p_star else 0
    if not 0 <= r <= most:
        raise ValueError(f"r: got {r}; allowed is 0 to {most} for p = {p}, s = {s}")


def _check_dimension(point, N):
    least = point.p_star + point.r
    if checks.positive_int("N", N) < least:
        raise ValueError(f"N: got {N}; allowed is at least p_star + r = {least}")
    return least


def _check_sizes(N, p, p_star):
    checks.positive_int("p", p)
    checks.positive_int("p_star", p_star)
    if checks.positive_int("N", N) < p_star:
        raise ValueError(f"N: got {N}; allowed is at least p_star = {p_star}")


def _check_plateau(N, p, p_star):
    if p + p_star > N:
        raise ValueError(f"N: got {N}; allowed is at least p + p_star = {p + p_star} on a plateau")
