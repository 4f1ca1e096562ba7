"""Odd values of every kind."""

from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st


class Hostile:
    """An object that can be neither printed, compared, counted nor read as numbers."""

    def _refuse(self, *given: Any, **named: Any) -> Any:
        raise RuntimeError("hostile")

    __repr__ = __len__ = __iter__ = __array__ = __float__ = __bool__ = _refuse


# No argument means anything by these: a result would be a silent one.
NEVER = (object(), Hostile(), 1j, np.array([1 + 2j, 0]), b"bytes", {"odd": object()}, {1, 2})

SOMETIMES = (
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, 10**30, -(10**30), 0.0, -0.0, 0.5, -1.5, 1e-300,
    1e300, float("nan"), float("inf"), float("-inf"), "", "odd", "1", "a\nb", "x" * 500, (), [],
    [1], [1, 2], [0.5, -0.5], ["a"], [1, "a"], [[1], [1, 2]], [None], {}, {"a": 1}, range(3),
    np.int64(2), np.float32(0.5), np.array(1.0), np.zeros(0), np.zeros((0, 2)), np.ones(3),
    np.ones((2, 2)), np.ones((2, 2, 2)), np.array([np.nan, 1.0]), np.array(["a", "b"]),
    np.array([None, 1], object), len, lambda *given: None, int, type, xr.Dataset(),
    xr.Dataset({"error": ("step", [1.0, 2.0])}), xr.DataArray([1.0, 2.0]),
)  # fmt: skip


def anything() -> st.SearchStrategy[Any]:
    """A value of the tables above, or one that hypothesis makes."""
    numbers = st.one_of(st.integers(), st.floats(), st.complex_numbers())
    return st.one_of(
        st.sampled_from(NEVER), st.sampled_from(SOMETIMES), numbers, st.text(max_size=8),
        st.lists(st.floats() | st.integers(-9, 9) | st.none(), max_size=4),
    )  # fmt: skip
