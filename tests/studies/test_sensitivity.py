"""Verdicts depend on the data: wrong data turn every claim that is counted."""

import numpy as np
import pytest
import xarray as xr

from learndyn.studies import sensitivity
from learndyn.studies.claims import claim


def test_wrong_data_turn_every_counted_claim(ran):
    assert not sensitivity.unturned(ran.study.check, ran.data)


DATA = xr.Dataset(
    {
        "x": ("time", [1.0, 2.0, np.nan]),
        "y": 1.0,
        "n": 1,
        "who": ("time", ["a", "b", "c"]),
        "on": True,
    },
    {"time": [0.0, 1.0, 2.0]},
)


def test_mutations_are_generic_and_move_everything():
    found = list(sensitivity.mutations(DATA))
    hows = {how for how, _ in found}
    assert {"x × 0.8", "x × 1.25", "x shuffled", "x noise", "who shuffled", "on negated"} <= hows
    assert "time 1.05" in hows and "who noise" not in hows
    assert len(found) == (2 + 6) + 2 * (2 + 3) + 3 + 1 + 1
    for how, mutated in found:
        assert "×" not in how or not mutated.identical(DATA), how
        assert mutated["x"].dtype == float and mutated["n"].dtype == int
        assert int(mutated["x"].isnull().sum()) == 1


def check(data):
    value = float(data["y"])
    return [
        claim("it is one", "Eq. 1", because="theory").equals(value, 1.0, within=0.1),
        claim("it is positive", "Eq. 2", because="a square").at_least(abs(value), 0.0),
        claim("a proof", "Eq. 3", kind="theorem", because="a square").at_least(abs(value), 0.0),
        claim("unknown", "Eq. 4").open("no data", value),
    ]


def test_claims_that_cannot_fail_are_found():
    assert sensitivity.unturned(check, DATA) == ["it is positive"]
    by = sensitivity.turned(check, DATA)
    assert set(by) == {"it is one", "it is positive"}
    assert {"y × 0.8", "y × 1.25"} <= set(by["it is one"]) and not by["it is positive"]


def test_an_error_turns_nothing():
    def strict(data):
        if not data["y"].equals(DATA["y"]):
            raise KeyError("y")
        return check(data)

    assert sensitivity.unturned(strict, DATA) == ["it is one", "it is positive"]


@pytest.mark.filterwarnings("error")
def test_warnings_of_wrong_data_are_no_errors():
    def noisy(data):
        np.log(-np.abs(data["y"].values))
        return check(data)

    with np.errstate(invalid="ignore", divide="ignore"):
        assert sensitivity.unturned(noisy, DATA) == ["it is positive"]
