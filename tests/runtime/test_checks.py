"""Validators say in one line what came and what is allowed."""

import numpy as np
import pytest

from learndyn.runtime import checks


@pytest.mark.parametrize("value", [0, 7, 2**63 - 1, np.int8(7), np.uint64(2**63 - 1)])
def test_seeds(value):
    found = checks.seed("key", value)
    assert found == value and type(found) is int


@pytest.mark.parametrize(
    "value", [-1, 2**63, np.int32(-1), np.uint64(2**63), True, np.True_, 1.0, "1", None, [1]]
)
def test_invalid_seeds_are_refused(value):
    with pytest.raises(
        ValueError, match=r"^key: got .*; allowed is an integer from 0 to 2\^63 − 1$"
    ):
        checks.seed("key", value)
