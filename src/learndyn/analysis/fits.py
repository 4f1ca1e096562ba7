"""Lines, rates, minima and parabolas fitted to curves."""

from typing import Any, NamedTuple

import numpy as np
import scipy

from learndyn.analysis.arguments import points, require_positive, window_of
from learndyn.runtime.checks import between, number, positive
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Number


@shown_as_table
class Fit(NamedTuple):
    """A straight line through points.

    Attributes:
        slope: the slope of the line, in logarithms for power laws and rates.
        error: its standard error, corrected for the correlation of neighbouring residuals.
        intercept: the value of the line at zero.
        window: the lowest and highest x used.
        points: the number of points used.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> fit = ld.analysis.fit_line([0.0, 1.0, 2.0, 3.0], [0.1, 0.9, 2.1, 2.9])
        >>> [round(end, 2) for end in fit.interval(0.95)]
        [0.72, 1.2]
    """

    slope: float
    error: float
    intercept: float
    window: tuple[float, float]
    points: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval of the slope.

        Args:
            level: of confidence, between 0 and 1.

        Returns:
            Its ends, by Student's distribution.

        Raises:
            ValueError: for a level that is not between 0 and 1.
        """
        level = float(between("level", level, 0, 1))
        half = float(scipy.special.stdtrit(self.points - 2, (1 + level) / 2)) * self.error
        return self.slope - half, self.slope + half

    def _shown(self) -> Shown:
        low, high = self.interval()
        rows = [
            ("slope", f"{self.slope:.4g} ± {self.error:.2g}"),
            ("95 % interval", f"{low:.4g} … {high:.4g}"),
            ("intercept", float(self.intercept)),
            ("window", f"{self.window[0]:.4g} … {self.window[1]:.4g}, {self.points} points"),
        ]
        return Shown("Fit of a straight line", rows)


@shown_as_table
class Minimum(NamedTuple):
    """The minimum of a curve.

    Attributes:
        x: its position.
        y: its height.
        at_edge: whether it is the first or the last sample, see `EdgeMinimum`.
    """

    x: float
    y: float
    at_edge = False

    def _shown(self) -> Shown:
        where = "at the edge of the curve" if self.at_edge else "of a curve"
        return Shown(f"Minimum {where}", rows_of(self))


class EdgeMinimum(Minimum):
    """A minimum at the first or last sample: the curve may continue to fall beyond it."""

    __slots__ = ()
    at_edge = True


@shown_as_table
class Parabola(NamedTuple):
    """y = height + curvature (x − vertex)²/2.

    Attributes:
        curvature: the second derivative.
        vertex: the x of the extremum.
        height: the y there.
    """

    curvature: float
    vertex: float
    height: float

    def _shown(self) -> Shown:
        return Shown("y = height + curvature (x − vertex)²/2", rows_of(self))


def rows_of(fitted: Any) -> list[tuple[str, float]]:
    """The fitted numbers with their names, as a table shows them."""
    return [(name, float(value)) for name, value in fitted._asdict().items()]


def fit_line(x, y, *, window: tuple[Number, Number] | None = None) -> Fit:
    """Fits y = intercept + slope · x by least squares.

    Args:
        x: numbers.
        y: numbers.
        window: use only x inside (low, high).

    Returns:
        The fit.

    Raises:
        ValueError: for fewer than three points, or numbers that are not finite.

    Example:
        >>> import learndyn as ld
        >>> fit = ld.analysis.fit_line([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
        >>> round(fit.slope, 6), round(fit.intercept, 6)
        (2.0, 1.0)
    """
    x, y = finite_points("x", x, y, window)
    return line_through(x, y, x)


def proportional(x, y) -> np.ndarray:
    """The values c x nearest to y, by least squares in c.

    Args:
        x: numbers, not all of them 0.
        y: as many numbers.

    Returns:
        c x, an array like x.

    Raises:
        ValueError: for shapes that differ, and if all x are 0.

    Example:
        >>> import learndyn as ld
        >>> ld.analysis.proportional([1.0, 2.0], [3.0, 6.0]).tolist()
        [3.0, 6.0]
    """
    x, y = points("x", x, y)
    if not x @ x > 0:
        raise ValueError("x: got numbers whose squares vanish; allowed are numbers other than 0")
    return x * (y @ x) / (x @ x)


def fit_minimum(x, y) -> Minimum:
    """The minimum of a curve, from the parabola through its lowest sample and its neighbours.

    Args:
        x: increasing numbers.
        y: numbers; those that are not finite are left out.

    Returns:
        The minimum. If the lowest sample is the first or the last one, as in a monotone or flat
        curve, it is that sample as an `EdgeMinimum`, whose `at_edge` is True.

    Raises:
        ValueError: if fewer than three samples are finite, or x does not increase.

    Example:
        >>> import learndyn as ld
        >>> minimum = ld.analysis.fit_minimum([0.0, 1.0, 2.0, 3.0], [2.0, 0.5, 1.0, 3.5])
        >>> round(minimum.x, 3), minimum.at_edge
        (1.25, False)
    """
    x, y = finite_points("x", x, y, None)
    if np.any(np.diff(x) <= 0):
        raise ValueError("x: got numbers that do not increase; allowed are increasing ones")
    i = int(np.argmin(y))
    if i in (0, len(x) - 1):
        return EdgeMinimum(float(x[i]), float(y[i]))
    curve = np.polynomial.Polynomial.fit(x[i - 1 : i + 2], y[i - 1 : i + 2], 2)
    lowest = float(curve.deriv().roots()[0])
    return Minimum(lowest, float(curve(lowest)))


def fit_parabola(x, y) -> Parabola:
    """Fits a parabola by least squares.

    Args:
        x: numbers.
        y: numbers; those that are not finite are left out.

    Returns:
        Its second derivative, vertex and height.

    Raises:
        ValueError: if fewer than three samples are finite.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> x = np.arange(5.0)
        >>> parabola = ld.analysis.fit_parabola(x, 1 + (x - 2) ** 2)
        >>> round(parabola.vertex, 6), round(parabola.curvature, 6)
        (2.0, 2.0)
    """
    x, y = finite_points("x", x, y, None)
    places = len(np.unique(x))
    if places < 3:
        raise ValueError(f"x: got {places} places; allowed are at least 3 different ones")
    curve = np.polynomial.Polynomial.fit(x, y, 2).convert()
    if curve.degree() < 2 or curve.coef[2] == 0:
        raise ValueError("y: got points on a straight line; allowed are points of a parabola")
    vertex = float(-curve.coef[1] / (2 * curve.coef[2]))
    return Parabola(float(2 * curve.coef[2]), vertex, float(curve(vertex)))


def fit_rate(t, y, *, window: tuple[Number, Number] | None = None) -> Fit:
    """Fits y ∝ exp(slope · t) by least squares on the logarithm of y.

    Args:
        t: times.
        y: positive numbers.
        window: use only t inside (low, high).

    Returns:
        The fit.

    Raises:
        ValueError: for fewer than three points, and for values that are not positive.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> t = np.linspace(0, 5, 11)
        >>> round(ld.analysis.fit_rate(t, 2 * np.exp(-0.7 * t)).slope, 6)
        -0.7
    """
    t, y = finite_points("t", t, y, window)
    return line_through(t, np.log(require_positive("y", y)), t, "t")


def finite_points(name: str, x, y, window) -> tuple[np.ndarray, np.ndarray]:
    """The finite points inside a window, at least three of them."""
    x, y = points(name, x, y)
    keep = np.isfinite(x) & np.isfinite(y)
    if window is not None:
        low, high = window_of(window)
        keep &= (x >= low) & (x <= high)
    if np.sum(keep) < 3:
        where = "" if window is None else " in the window"
        raise ValueError(f"{name}: got {np.sum(keep)} points{where}; allowed are at least 3")
    return x[keep], y[keep]


def line_through(x: np.ndarray, y: np.ndarray, shown: np.ndarray, name: str = "x") -> Fit:
    """The straight line through points (x, y); `shown` are the x that the user gave.

    Args:
        x: numbers, or their logarithms.
        y: as many numbers, or their logarithms.
        shown: the numbers that the window and errors name.
        name: what errors call them.

    Returns:
        The fit.
    """
    if np.all(x == x[0]):
        raise ValueError(f"{name}: got {shown[0]:g} in every point; allowed are different ones")
    line: Any = scipy.stats.linregress(x, y)
    error = line.stderr * _inflation(y - line.intercept - line.slope * x)
    window = (float(np.min(shown)), float(np.max(shown)))
    return Fit(float(line.slope), float(error), float(line.intercept), window, len(x))


def _inflation(residuals: np.ndarray) -> float:
    """The factor by which correlated residuals, AR(1), widen a standard error."""
    power = residuals @ residuals
    if len(residuals) < 10 or power == 0:
        return 1.0
    # Two parameters were fitted, so the estimate is too low by about 4/n.
    r = residuals[1:] @ residuals[:-1] / power + 4 / len(residuals)
    r = min(max(r, 0.0), 0.98)
    # Correlations that white noise has by chance are not corrected.
    return float(np.sqrt((1 + r) / (1 - r))) if r > 2.5 / np.sqrt(len(residuals)) else 1.0


def doubling_rate(half: Number, whole: Number, t: Number) -> float:
    """The rate of y ∝ exp(rate · t) − 1 from its values at t/2 and at t.

    (e^(2x) − 1)/(e^x − 1) = e^x + 1: the prefactor drops out.

    Args:
        half: y at t/2.
        whole: y at t, of the same sign and larger in magnitude.
        t: the time.

    Returns:
        The rate.

    Raises:
        ValueError: for values that no such curve can have.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> y = lambda t: np.exp(0.3 * t) - 1
        >>> round(ld.analysis.doubling_rate(y(5.0), y(10.0), 10.0), 6)
        0.3
    """
    first, second = float(number("half", half)), float(number("whole", whole))
    if not (first and second / first > 1):
        raise ValueError(f"whole: got {second:g} beside half {first:g}; allowed is a larger one")
    return float(np.log(second / first - 1) / (float(positive("t", t)) / 2))
