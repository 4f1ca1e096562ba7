"""Power laws fitted to curves, pure ones and ones that reach zero at an end."""

from typing import Any, NamedTuple

import numpy as np
import scipy

from learndyn.analysis.arguments import points, require_positive
from learndyn.analysis.fits import Fit, finite_points, line_through, rows_of
from learndyn.runtime.checks import finite, non_negative, numbers, one_of, positive
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Number


@shown_as_table
class CutPowerLaw(NamedTuple):
    """y = amplitude (x^-exponent − end^-exponent), a power law that reaches zero at an end.

    Attributes:
        exponent: of the power law, positive.
        amplitude: its prefactor.
        end: the x at which y is zero; infinite for a pure power law.

    Example:
        >>> import learndyn as ld
        >>> law = ld.analysis.CutPowerLaw(exponent=1.0, amplitude=2.0, end=4.0)
        >>> law.at([1.0, 2.0]).tolist()
        [1.5, 0.5]
    """

    exponent: float
    amplitude: float
    end: float = np.inf

    def at(self, x) -> np.ndarray:
        """The fitted curve.

        Args:
            x: positive numbers.

        Returns:
            y at these x; it is negative beyond `end`.

        Raises:
            ValueError: for numbers that are not positive.
        """
        x = require_positive("x", numbers("x", x))
        return self.amplitude * (x**-self.exponent - self.end**-self.exponent)

    def _shown(self) -> Shown:
        return Shown("y = amplitude (x^-exponent − end^-exponent)", rows_of(self))


def fit_power_law(
    x,
    y,
    *,
    window: tuple[Number, Number] | str | None = None,
    straight: Number = 0.01,
    span: Number = 10.0,
) -> Fit:
    """Fits y ∝ x^slope by least squares on logarithms.

    Args:
        x: positive numbers.
        y: positive numbers.
        window: use only x inside (low, high); "auto" takes the longest window in which ln y is
            straight; None takes all.
        straight: for "auto", the largest relative deviation from the line, root mean square.
        span: for "auto", the smallest ratio of the window's ends.

    Returns:
        The fit; `exp(intercept)` is the prefactor.

    Raises:
        ValueError: for numbers that are not positive, too few numbers, or a curve that is nowhere
            straight.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> x = np.geomspace(1, 100, 20)
        >>> round(ld.analysis.fit_power_law(x, 3 / x**0.5).slope, 6)
        -0.5
    """
    options = float(positive("straight", straight)), float(positive("span", span))
    if isinstance(window, str):
        one_of("window", window, ("auto",))
        window = _straightest(*_positive("x", *finite_points("x", x, y, None)), *options)
    x, y = _positive("x", *finite_points("x", x, y, window))
    return line_through(np.log(x), np.log(y), x)


def fit_cut_power_law(x, y, *, end: Number = np.inf) -> CutPowerLaw:
    """Fits y = amplitude (x^-exponent − end^-exponent) by least squares in ln y.

    Args:
        x: numbers between 0 and `end`, at least two.
        y: positive numbers.
        end: the x at which y vanishes; infinite for a pure power law.

    Returns:
        Exponent, between 0 and 5, and amplitude.

    Raises:
        ValueError: for x outside (0, end), or y that is not positive.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> x = np.geomspace(1, 50, 20)
        >>> law = ld.analysis.fit_cut_power_law(x, 1 / x - 1 / 100, end=100.0)
        >>> round(law.exponent, 4), round(law.amplitude, 4)
        (1.0, 1.0)
    """
    x, y = points("x", x, y)
    end = _end(end)
    finite("x", x)
    finite("y", y)
    if len(x) < 2 or x.min() <= 0 or x.max() >= end or x.min() == x.max():
        came = f"{len(x)} from {x.min():g} to {x.max():g}" if len(x) else "none"
        raise ValueError(f"x: got {came}; allowed are two or more in (0, {end:g})")
    require_positive("y", y)
    gap = lambda s: np.log(y) + s * np.log(x) - np.log1p(-((x / end) ** s))
    options = {"xatol": 1e-10}
    best = scipy.optimize.minimize_scalar(
        lambda s: np.var(gap(s)), bounds=(1e-6, 5.0), method="bounded", options=options
    )
    return CutPowerLaw(float(best.x), float(np.exp(np.mean(gap(best.x)))), end)


def cut_power_law_tolerance(
    x, deviation: Number, exponent: Number, *, end: Number = np.inf
) -> float:
    """The largest error of the exponent of `fit_cut_power_law` if ln y is off by `deviation`.

    The slope of a least-squares line through evenly spaced g changes by at most
    3 · deviation/(largest − smallest g) (continuous limit). Here g = ∂ ln(x^-s − end^-s)/∂s, which
    is −ln x for a pure power law.

    Args:
        x: the x of the fit, evenly spaced in ln x.
        deviation: bound on |ln y − ln of the fitted form|.
        exponent: s, where g is evaluated.
        end: as in the fit.

    Returns:
        The bound.

    Raises:
        ValueError: for fewer than two points below `end`, and for exponents that the points
            cannot tell apart.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> x = np.geomspace(1, np.exp(3), 10)
        >>> round(ld.analysis.cut_power_law_tolerance(x, 0.01, 1.0), 6)
        0.01
    """
    x, end = require_positive("x", finite("x", numbers("x", x, 1))), _end(end)
    bound, s = float(non_negative("deviation", deviation)), float(positive("exponent", exponent))
    if len(x) < 2 or x[0] == x[-1] or x.max() >= end:
        raise ValueError(f"x: got {len(x)} numbers; allowed are two or more in (0, {end:g})")
    log = np.log(x)
    spread = abs(log[-1] - log[0])
    if np.isfinite(end):
        y = np.log(end) - log[[0, -1]]
        spread = np.ptp(y / -np.expm1(-s * y))
    if not spread > 0:
        raise ValueError(f"exponent: got {s:g}; allowed is one by which x^-exponent differs")
    return 3 * bound / float(spread)


def _straightest(x: np.ndarray, y: np.ndarray, straight: float, span: float) -> tuple[float, float]:
    """The longest window, in ln x, in which the residual from a line in logarithms is small."""
    ascending = np.argsort(x)
    u, v = np.log(x[ascending]), np.log(y[ascending])
    windows = ((i, j) for i in range(len(u)) for j in range(i + 2, len(u)))
    long = [(i, j) for i, j in windows if u[j] - u[i] >= np.log(span)]
    for i, j in sorted(long, key=lambda w: u[w[0]] - u[w[1]]):
        if _stray(u[i : j + 1], v[i : j + 1]) <= straight:
            return float(x[ascending[i]]), float(x[ascending[j]])
    raise ValueError(
        f"fit_power_law: no window over a factor {span:g} is straight to {straight:g}; "
        "allowed is a larger `straight` or a smaller `span`"
    )


def _stray(u: np.ndarray, v: np.ndarray) -> float:
    u, v = u - u.mean(), v - v.mean()
    return float(np.sqrt(np.mean((v - u * (u @ v) / (u @ u)) ** 2)))


def _positive(name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return require_positive(name, x), require_positive("y", y)


def _end(end: Any) -> float:
    """The x at which a cut power law vanishes, possibly infinite."""
    endless = isinstance(end, float | np.floating) and end == np.inf
    return np.inf if endless else float(positive("end", end))
