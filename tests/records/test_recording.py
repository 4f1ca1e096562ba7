"""What is kept: everything until a trajectory has diverged, nothing behind."""

import numpy as np

from learndyn.records import Outcome, Recording, Variable

TIMES = np.array([0.0, 1.0, 2.0, 3.0])


def test_runs_that_diverge_are_blank_from_there_on():
    kept = Recording({"run": 3}, TIMES, {"x": Variable(("side",), "a side", "m")})
    values = {"x": np.arange(12.0).reshape(3, 2, 2)}
    first = kept.take((slice(0, 3),), 0, values, np.array([[0, 0], [0, 1], [0, 0]], bool))
    later = kept.take((slice(0, 3),), 2, values, np.array([[0, 0], [0, 0], [1, 1]], bool))
    assert first and later
    dims, x, text = kept.variables()["x"]
    assert dims == ("run", "time", "side") and text["long_name"] == "a side"
    np.testing.assert_array_equal(np.isnan(x[..., 0]), [[0] * 4, [0, 1, 1, 1], [0, 0, 1, 1]])
    assert [o.what for o in kept.outcomes] == ["finished", "diverged", "diverged"]
    assert [o.at for o in kept.outcomes[1:]] == [1.0, 2.0]
    assert not kept.take((slice(1, 3),), 3, {}, np.zeros((2, 1), bool))


def test_an_end_between_two_times():
    kept = Recording({}, TIMES, {})
    kept.take((), 0, {"x": np.array([1.0, 2.0, 3.0, np.inf])}, np.zeros(4, bool))
    kept.end((), Outcome("diverged", 1.5))
    np.testing.assert_array_equal(kept.variables()["x"][1], [1.0, 2.0, np.nan, np.nan])
    assert kept.outcomes == [Outcome("diverged", 1.5)]
