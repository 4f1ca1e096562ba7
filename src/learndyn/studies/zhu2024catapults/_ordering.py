"""Orders that are shown, or not, by pairs of runs that differ in one thing alone."""

import math
from typing import Any

import numpy as np
import xarray as xr

from learndyn.studies.claims import Claim, Kind, claim
from learndyn.studies.statistics import student_bound

LEVEL = 0.01


def t_of(differences: xr.DataArray) -> xr.DataArray:
    """Student's t of the mean over seeds against 0."""
    error = differences.std("seed", ddof=1) / math.sqrt(differences.sizes["seed"])
    return differences.mean("seed") / error


def interval(differences: xr.DataArray, level: float = LEVEL) -> tuple[xr.DataArray, xr.DataArray]:
    """The ends of Student's interval of the mean over seeds."""
    count = differences.sizes["seed"]
    half = student_bound(count, level=level) * differences.std("seed", ddof=1) / math.sqrt(count)
    return differences.mean("seed") - half, differences.mean("seed") + half


def rising(
    values: xr.DataArray, over: str, said: str, source: str, *, kind: Kind = "claim"
) -> Claim:
    """That values rise from each entry to the next, shown by pairs of the same seed.

    Args:
        values: over `seed` and `over`.
        over: along which they rise.
        said: the sentence.
        source: where it stands.
        kind: whose it is.

    Returns:
        The claim: the least t of neighbours is at least Student's one-sided bound.
    """
    steps, count = values.diff(over), values.sizes["seed"]
    bound = student_bound(count, entries=steps.sizes[over], level=LEVEL, sides=1)
    because = f"Student's one-sided bound, {count} pairs, {steps.sizes[over]} neighbours, 1 %"
    sentence = claim(f"{said}: least t of pairs of neighbours", source, kind=kind)
    return sentence.at_least(t_of(steps).min(), bound, because=because)


def trend(
    values: xr.DataArray, over: str, at: Any, said: str, source: str, *, kind: Kind = "claim"
) -> Claim:
    """That values rise along a dimension: slopes by least squares, one a seed.

    Args:
        values: over `seed` and `over`.
        over: along which they rise.
        at: numbers of its entries.
        said: the sentence, which says against what.
        source: where it stands.
        kind: whose it is.

    Returns:
        The claim: Student's t of the slopes is at least its one-sided bound.
    """
    count = values.sizes["seed"]
    bound = student_bound(count, level=LEVEL, sides=1)
    because = f"Student's one-sided bound, {count} seeds, 1 %"
    sentence = claim(said, source, kind=kind)
    return sentence.at_least(t_of(slopes(values, over, at)), bound, because=because)


def growing_as_batches_shrink(
    values: xr.DataArray, said: str, source: str, *, kind: Kind = "claim"
) -> Claim:
    """That values, over `seed` and `batch`, rise as the batch size falls."""
    at = -np.log(values["batch"].values.astype(float))
    return trend(values, "batch", at, f"{said}: t of the slope against −log b", source, kind=kind)


def slopes(values: xr.DataArray, over: str, at: Any) -> xr.DataArray:
    """By least squares against the numbers of the entries, one a seed."""
    at = np.asarray(at, float)
    weight = xr.DataArray((at - at.mean()) / np.sum((at - at.mean()) ** 2), dims=over)
    return (values * weight).sum(over, skipna=False)
