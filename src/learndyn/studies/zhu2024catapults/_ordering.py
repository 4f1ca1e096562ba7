"""Orders that are shown, or not, by pairs of runs that differ in one thing alone."""

import math

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


def alike(
    values: xr.DataArray, over: str, within: float, said: str, source: str, why: str, *,
    kind: Kind = "claim",
) -> Claim:  # fmt: skip
    """That values are alike along a dimension: the far end of the range's interval is small.

    Args:
        values: over `seed` and `over`.
        over: along which they are alike.
        within: the largest difference that is called none.
        said: the sentence.
        source: where it stands.
        why: where `within` comes from.
        kind: whose it is.

    Returns:
        The claim, of the largest end of the intervals of differences from the first entry.
    """
    low, high = interval(values - values.isel({over: 0}))
    far = float(np.maximum(abs(low), abs(high)).max())
    return claim(said, source, kind=kind).at_most(far, within, because=why)
