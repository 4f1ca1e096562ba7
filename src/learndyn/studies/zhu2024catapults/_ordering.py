"""Trends and orders over seeds, judged by Student's t of pairs or of slopes."""

import dataclasses
import math
from typing import Any

import numpy as np
import xarray as xr

from learndyn.studies.claims import Claim, Sentence
from learndyn.studies.statistics import slopes, student_bound, student_tolerance


def t_of(differences: xr.DataArray) -> xr.DataArray:
    """Student's t of the mean over seeds against 0."""
    error = differences.std("seed", ddof=1) / math.sqrt(differences.sizes["seed"])
    return differences.mean("seed") / error


def positive(sentence: Sentence, differences: xr.DataArray, what: str = "pairs") -> Claim:
    """That the means over seeds are positive: the smallest t is at least Student's bound."""
    t, count = t_of(differences), differences.sizes["seed"]
    reason = student_tolerance(0.0, count, what, entries=t.size, sides=1)
    # The level bounds the chance of seeing an effect that is not there; it is no promise that an
    # effect is seen at every key, which the rate would be.
    reason = dataclasses.replace(reason, rate=1.0)
    return sentence.at_least(t.min(), student_bound(count, t.size, sides=1), reason)


def rising(sentence: Sentence, values: xr.DataArray, over: str) -> Claim:
    """That values rise from each entry of `over` to the next, by pairs of the same seed."""
    return positive(sentence, values.diff(over))


def trend(sentence: Sentence, values: xr.DataArray, over: str, at: Any) -> Claim:
    """That values rise along `over`, whose entries lie at `at`: one slope per seed."""
    return positive(sentence, slopes(values, over, at), "seeds")


def growing_as_batches_shrink(sentence: Sentence, values: xr.DataArray) -> Claim:
    """That values, over `seed` and `batch`, rise with −log b of the batch size b."""
    return trend(sentence, values, "batch", -np.log(values["batch"].values.astype(float)))
