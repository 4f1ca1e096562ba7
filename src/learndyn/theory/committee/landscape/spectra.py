"""Hessian spectra of the quadratic committee's population risk at its stationary points.

Scaling and equation numbers are those of `stationary`, with an orthonormal teacher, T = I.
"""

from collections.abc import Callable

import numpy as np

from learndyn.runtime import checks
from learndyn.runtime.types import Int
from learndyn.theory.committee.landscape.stationary import StationaryPoint, check_dimension

KINDS = ("tabula_rasa", "plateau", "zero_error", "aligned")


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
        ValueError: if the kind is unknown or the sizes do not fit.

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
    """Eigenvalues and multiplicities of the Hessian at any stationary point, including mixed ones.

    The paper treats four of them (`predicted_spectrum`). Let m = 1 − (a s + b r)/p, with
    t = p* − s unlearned directions of the teacher, z = p − s − r unused directions of the units
    and n = N − p* − r free input directions. On a product of a left and a right direction H is
    −(4/p)(e − 2 q/p), with e the eigenvalue of B (see `families`) and q that of V Vᵀ. Inside the
    range of V, with D = diag(√a …, √b …), it is X -> (8/p²) [tr(D X) D + D Xᵀ D + D² X].

    Args:
        point: the family.
        N: input dimension, at least p* + r.

    Returns:
        (eigenvalue, multiplicity), ascending, without empty entries, equal eigenvalues merged.

    Raises:
        ValueError: if N is too small.
    """
    check_dimension(point, N)
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

    It is (p − s)(p* − s) + (p − s − r)(N − p* − r) for s < p* and 0 for s = p*. For p >= p* every
    stationary point of non-zero error is therefore a saddle or the maximum V = 0.

    Args:
        point: the family.
        N: input dimension, at least p* + r.

    Returns:
        The number.
    """
    check_dimension(point, N)
    p, q, s, r = point.p, point.p_star, point.s, point.r
    return (p - s) * (q - s) + (p - s - r) * (N - q - r) if s < q else 0


def negative_to_null_ratio(N: Int, p: Int, p_star: Int) -> float:
    """The ratio of negative to null eigenvalues on the plateau, p*/(N − p* − p/2 − 1/2) (Eq. 29).

    It grows with p up to p = N − p*, the largest p with a plateau of rank p, and not up to p = N
    as published.

    Args:
        N: input dimension, at least p + p*.
        p: number of student units.
        p_star: number of teacher units.

    Returns:
        The ratio; infinite if there are no null eigenvalues (p = 1, N = p* + 1).

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
    # If a group is empty, the 2 × 2 matrix has an eigenvalue zero that belongs to no direction.
    kept = both[2 - (s > 0) - (r > 0) :]
    return pairs + diagonal + [(unit * float(value), 1) for value in kept]


def _merge(entries):
    merged: list[tuple[float, int]] = []
    for value, count in sorted((value, count) for value, count in entries if count):
        if merged and np.isclose(value, merged[-1][0], rtol=1e-12, atol=1e-12):
            value, count = merged[-1][0], count + merged.pop()[1]
        merged.append((value + 0.0, count))  # + 0.0 turns −0.0 into 0.0
    return merged


def _check_sizes(N, p, p_star):
    checks.positive_int("p", p)
    checks.positive_int("p_star", p_star)
    if checks.positive_int("N", N) < p_star:
        raise ValueError(f"N: got {N}; allowed is at least p_star = {p_star}")


def _check_plateau(N, p, p_star):
    if p + p_star > N:
        raise ValueError(f"N: got {N}; allowed is at least p + p_star = {p + p_star} on a plateau")
