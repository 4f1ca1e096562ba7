"""Between which values the parameters of problems, networks and rules lie, for front ends."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from learndyn.runtime.checks import LARGEST_COUNT, a_kind

T = TypeVar("T", bound=Callable)


class Bounds(NamedTuple):
    """Which values a parameter may have.

    Attributes:
        low: the lower end.
        high: the upper end.
        whole: whether only integers are allowed.
        with_low: whether the lower end itself is allowed.
        with_high: whether the upper end itself is allowed.

    Example:
        >>> import learndyn as ld
        >>> rate = ld.bounds_of(ld.GradientDescent)["learning_rate"]
        >>> 0.5 in rate, -0.5 in rate
        (True, False)
    """

    low: float
    high: float
    whole: bool = False
    with_low: bool = True
    with_high: bool = True

    def __contains__(self, value: Any) -> bool:
        above = value >= self.low if self.with_low else value > self.low
        below = value <= self.high if self.with_high else value < self.high
        return bool(above and below and (not self.whole or value == int(value)))


POSITIVE = Bounds(0.0, math.inf, with_low=False, with_high=False)
NON_NEGATIVE = Bounds(0.0, math.inf, with_high=False)
FRACTION = Bounds(0.0, 1.0, with_high=False)
SHARE = Bounds(0.0, 1.0)
COUNT = Bounds(1, LARGEST_COUNT, whole=True)
_KNOWN: dict[Any, dict[str, Bounds]] = {}


def bounded(**bounds: Bounds) -> Callable[[T], T]:
    """Decorates a class or function: these are the bounds of its numeric parameters."""

    def known(constructor: T) -> T:
        _KNOWN[constructor] = bounds
        return constructor

    return known


def bounds_of(constructor: Any) -> dict[str, Bounds]:
    """The bounds of the numeric parameters of a problem, spectrum, network, start or rule.

    A value outside is refused by the constructor with a ValueError. A value inside may still be
    refused together with others, such as a number of levels that does not divide the dimension.

    Args:
        constructor: a public class or function, such as `ld.SGD` or `ld.PowerLaw`.

    Returns:
        Parameter → bounds, for parameters that are one number.

    Raises:
        ValueError: for anything that states no bounds.

    Example:
        >>> import learndyn as ld
        >>> ld.bounds_of(ld.NaturalGradient)["power"]
        Bounds(low=0.0, high=1.0, whole=False, with_low=True, with_high=True)
    """
    try:
        return dict(_KNOWN[constructor])
    except (KeyError, TypeError):
        came = getattr(constructor, "__name__", None) or a_kind(constructor)
        names = ", ".join(sorted(each.__name__ for each in _KNOWN))
        raise ValueError(f"constructor: got {came}; allowed are {names}") from None
