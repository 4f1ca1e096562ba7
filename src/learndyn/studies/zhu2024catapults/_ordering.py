"""Trends and orders over seeds, judged by the interval of pairs' differences or of slopes."""

from typing import Any

import numpy as np
import xarray as xr

from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Sentence
from learndyn.studies.statistics import slopes


def positive(sentence: Sentence, differences: xr.DataArray, what: str = "pairs") -> Claim:
    """That the means over seeds are positive: the least of them is."""
    return sentence.at_least(intervals.of_mean(differences, what, over="seed", which="least"), 0.0)


def rising(sentence: Sentence, values: xr.DataArray, over: str) -> Claim:
    """That values rise from each entry of `over` to the next, by pairs of the same seed."""
    return positive(sentence, values.diff(over))


def trend(sentence: Sentence, values: xr.DataArray, over: str, at: Any) -> Claim:
    """That values rise along `over`, whose entries lie at `at`: one slope per seed."""
    return positive(sentence, slopes(values, over, at), "seeds")


def growing_as_batches_shrink(sentence: Sentence, values: xr.DataArray) -> Claim:
    """That values, over `seed` and `batch`, rise with −log b of the batch size b."""
    return trend(sentence, values, "batch", -np.log(values["batch"].values.astype(float)))
