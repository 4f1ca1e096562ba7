"""Rates and exponents fitted to curves."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from learndyn.numerics.types import Number


class Fit(NamedTuple):
    """A straight line through points: slope with its standard error, and intercept."""

    slope: float
    error: float
    intercept: float

    def interval(self, points: int, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval of the slope, for independent errors on `points` points."""
        half = float(stats.t(points - 2).ppf((1 + level) / 2)) * self.error
        return self.slope - half, self.slope + half


class Minimum(NamedTuple):
    """Where a curve is lowest, and how low."""

    x: float
    y: float


def fit_line(x, y, *, window: tuple[Number, Number] | None = None) -> Fit:
    """Fits y = intercept + slope · x by least squares.

    Args:
        x: numbers.
        y: numbers.
        window: use x inside (low, high) only.

    Returns:
        The fit.
    """
    return _line("fit_line", *_inside(x, y, window))


def fit_minimum(x, y) -> Minimum:
    """The lowest point of a curve: of the parabola through its lowest sample and neighbours.

    Args:
        x: increasing numbers.
        y: numbers; those that are not finite are left out.

    Returns:
        The minimum; the lowest sample itself where it is the first or the last.

    Raises:
        ValueError: where fewer than three samples are finite.
    """
    x, y = _inside(x, y, None)
    if len(x) < 3:
        raise ValueError(f"fit_minimum: got {len(x)} points; allowed are at least 3")
    i = int(np.argmin(y))
    if i in (0, len(x) - 1):
        return Minimum(float(x[i]), float(y[i]))
    curve = np.polynomial.Polynomial.fit(x[i - 1 : i + 2], y[i - 1 : i + 2], 2)
    lowest = float(curve.deriv().roots()[0])
    return Minimum(lowest, float(curve(lowest)))


def fit_power_law(x, y, *, window: tuple[Number, Number] | None = None) -> Fit:
    """Fits y ∝ x^slope by least squares on logarithms.

    Args:
        x: positive numbers.
        y: positive numbers.
        window: use x inside (low, high) only.

    Returns:
        The fit; `exp(intercept)` is the prefactor.
    """
    x, y = _inside(x, y, window)
    return _line("fit_power_law", np.log(x), np.log(y))


def fit_rate(t, y, *, window: tuple[Number, Number] | None = None) -> Fit:
    """Fits y ∝ exp(slope · t) by least squares on the logarithm of y.

    Args:
        t: times.
        y: positive numbers.
        window: use t inside (low, high) only.

    Returns:
        The fit.
    """
    t, y = _inside(t, y, window)
    return _line("fit_rate", t, np.log(y))


def _inside(x, y, window) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    keep = np.isfinite(x) & np.isfinite(y)
    if window is not None:
        keep &= (x >= window[0]) & (x <= window[1])
    return x[keep], y[keep]


def _line(name: str, x: np.ndarray, y: np.ndarray) -> Fit:
    if len(x) < 3:
        raise ValueError(f"{name}: got {len(x)} points; allowed are at least 3")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ValueError(f"{name}: got numbers that are not positive; allowed are positive ones")
    line: Any = stats.linregress(x, y)
    return Fit(float(line.slope), float(line.stderr), float(line.intercept))
