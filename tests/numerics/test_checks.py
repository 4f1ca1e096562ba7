"""Validators say in one line what came and what is allowed."""

import numpy as np
import pytest

from learndyn.numerics import checks


@pytest.mark.parametrize("value", [0, 7, 2**63 - 1, np.int8(7), np.uint64(2**63 - 1)])
def test_seeds(value):
    found = checks.seed("key", value)
    assert found == value and type(found) is int


@pytest.mark.parametrize(
    "value", [-1, 2**63, np.int32(-1), np.uint64(2**63), True, np.True_, 1.0, "1", None, [1]]
)
def test_what_is_no_seed(value):
    with pytest.raises(
        ValueError, match=r"^key: got .*; allowed is an integer from 0 to 2\^63 − 1$"
    ):
        checks.seed("key", value)


def test_step_numbers_are_the_nearest_steps():
    found = checks.step_numbers(np.array([0.0, 0.004, 0.006, 1.0, 2.0**52]), 100)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [0, 0, 1, 100, 100 * 2**52])
    np.testing.assert_array_equal(checks.step_numbers(np.array([2.0**62]), 1), [2**62])


@pytest.mark.parametrize("per_time", [100, np.float32(100), 1e300])
def test_steps_that_no_integer_holds_are_refused(per_time):
    with pytest.raises(ValueError, match=r"^times: got 1e\+30, which is step .*up to 2\^62$"):
        checks.step_numbers(np.array([0.0, 1e30]), per_time)


def test_the_refused_step_is_named():
    said = r"times: got 1e\+30, which is step 1e\+32; allowed are steps up to 2\^62"
    with pytest.raises(ValueError, match=said):
        checks.step_numbers(np.array([1e30, 1e31]), 100)
