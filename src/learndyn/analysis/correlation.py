"""Correlation of two quantities with others held fixed."""

from typing import Any

import numpy as np

from learndyn.runtime.checks import finite, numbers, shown


def partial_correlation(x: Any, y: Any, given: Any = ()) -> float:
    """The correlation of x and y after removing what the given quantities explain.

    Args:
        x: numbers, one per observation.
        y: likewise.
        given: a list of quantities, each likewise; empty for the plain correlation. Indicators of
            groups remove the means of the groups.

    Returns:
        Pearson's correlation of the residuals of least-squares fits with a constant.

    Raises:
        ValueError: for unequal lengths, and if the given quantities explain x or y completely.

    Example:
        >>> import learndyn as ld
        >>> z = [0.0, 1.0, 2.0, 3.0]
        >>> round(ld.analysis.partial_correlation([0, 1, 2, 4], [0, 1, 2, 2], [z]), 12)
        -1.0
    """
    x, y = (finite(name, numbers(name, v, 1)) for name, v in (("x", x), ("y", y)))
    if not isinstance(given, list | tuple) and getattr(given, "ndim", 0) != 2:
        raise ValueError(f"given: got {shown(given)}; allowed is a list of quantities")
    plain = lambda v: v * 1 if getattr(v, "dtype", "") == "bool" else v  # indicators of groups
    columns = [finite("given", numbers("given", plain(v), 1)) for v in [*given]]
    for name, values in (("y", y), *(("given", v) for v in columns)):
        if x.ndim != 1 or values.shape != x.shape:
            raise ValueError(f"{name}: got shape {values.shape} beside {x.shape}; allowed is one")
    # The result is independent of scales, and large ones would overflow when squared.
    x, y, *columns = (v / (np.max(np.abs(v), initial=0.0) or 1.0) for v in (x, y, *columns))
    design = np.column_stack([np.ones_like(x), *columns])
    rest = [v - design @ np.linalg.lstsq(design, v)[0] for v in (x, y)]
    for name, values, left in zip("xy", (x, y), rest, strict=True):
        if np.linalg.norm(left) <= 1e-12 * np.linalg.norm(values):
            raise ValueError(f"{name}: got what the given fix; allowed is what varies beside them")
    return float(rest[0] @ rest[1] / np.linalg.norm(rest[0]) / np.linalg.norm(rest[1]))
