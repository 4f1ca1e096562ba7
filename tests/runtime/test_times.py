"""Times and the steps nearest to them."""

import numpy as np
import pytest

from learndyn.runtime import times


def test_step_numbers_are_the_nearest_steps():
    found = times.step_numbers(np.array([0.0, 0.004, 0.006, 1.0, 2.0**52]), 100)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [0, 0, 1, 100, 100 * 2**52])
    np.testing.assert_array_equal(times.step_numbers(np.array([2.0**62]), 1), [2**62])


@pytest.mark.parametrize("per_time", [100, np.float32(100), 1e300])
def test_steps_that_no_integer_holds_are_refused(per_time):
    with pytest.raises(ValueError, match=r"^times: got 1e\+30, which is step .*up to 2\^62$"):
        times.step_numbers(np.array([0.0, 1e30]), per_time)


def test_the_refused_step_is_named():
    said = r"times: got 1e\+30, which is step 1e\+32; allowed are steps up to 2\^62"
    with pytest.raises(ValueError, match=said):
        times.step_numbers(np.array([1e30, 1e31]), 100)
