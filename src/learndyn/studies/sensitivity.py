"""What a verdict depends on: claims checked on data that are wrong.

A claim that holds whatever the data are says nothing about them. `turned` runs a study's `check`
on mutated data and tells which mutations turn each verdict; where none does, the claim is a
theorem, or nothing.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from learndyn.studies.claims import COUNTED, Claim, Status

Check = Callable[[xr.Dataset], list[Claim]]
SCALES = (0.8, 1.25)
LATER = 1.05  # times scaled
DRAWS = 3  # of shuffles and noise: one alone leaves an order as it was by chance


def counted(claims: Sequence[Claim]) -> dict[str, Status]:
    """Name → status of the claims that mutations have to turn: decided, and no theorems."""
    return {c.name: c.status for c in claims if c.kind in COUNTED and c.status != "open"}


def mutations(data: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Each variable scaled, shuffled and replaced by noise; each axis of numbers stretched.

    Integers move by one at least. Text is shuffled only. Missing values stay missing.

    Args:
        data: what `compute` gave.

    Yields:
        What was done, and the data.
    """
    for name, values in data.data_vars.items():
        for how, mutated in _mutated(values.values):
            yield f"{name} {how}", data.assign({name: values.copy(data=mutated)})
    for name, values in data.coords.items():
        if values.dims == (name,) and values.dtype.kind == "f":
            yield f"{name} {LATER}", data.assign_coords({name: values * LATER})


def turned(
    check: Check, data: xr.Dataset, *, until_all: bool = False
) -> dict[str, tuple[str, ...]]:
    """The mutations that turn each verdict, from holding to failing or back.

    A check that raises an error has turned nothing: it speaks of one row, and would excuse all
    others. Nor is a claim turned that mutated data leave open or unsaid.

    Args:
        check: of a study.
        data: what its `compute` gave.
        until_all: stop as soon as every verdict has turned once.

    Returns:
        Name of each counted claim → the mutations.
    """
    before = counted(check(data))
    found: dict[str, tuple[str, ...]] = {name: () for name in before}
    for what, mutated in mutations(data):
        after = _quietly(check, mutated)
        for name in before:
            if after.get(name, before[name]) != before[name]:
                found[name] += (what,)
        if until_all and all(found.values()):
            break
    return found


def unturned(check: Check, data: xr.Dataset) -> list[str]:
    """The counted claims that hold whatever the mutation; one that fails has shown that it can."""
    holds = [name for name, status in counted(check(data)).items() if status == "holds"]
    by = turned(check, data, until_all=True)
    return [name for name in holds if not by[name]]


def _quietly(check: Check, data: xr.Dataset) -> dict[str, Status]:
    """Statuses on mutated data; none where the check raises an error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return counted(check(data))
        except Exception:  # whatever a study raises on data that cannot be
            return {}


def _mutated(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    rng, kind = np.random.default_rng(0), values.dtype.kind
    if kind in "fi":
        for scale in SCALES:
            yield f"× {scale}", _scaled(values, scale)
    if kind == "b":
        yield "negated", ~values
    for _ in range(DRAWS):
        if kind in "fi":
            yield "noise", _noise(values, rng)
        if values.size > 1:
            yield "shuffled", rng.permuted(values.reshape(-1)).reshape(values.shape)


def _scaled(values: np.ndarray, scale: float) -> np.ndarray:
    if values.dtype.kind == "i":  # away from the value, else small counts would not move
        moved = (np.floor if scale < 1 else np.ceil)(scale * values)
        return np.asarray(moved, values.dtype)
    return np.asarray(scale * values)


def _noise(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal numbers of the root mean square of what is there, of one sign where that is."""
    given = values[np.isfinite(values)].astype(np.float64)
    size = np.sqrt(np.mean(given**2)) if given.size else 0.0
    drawn = size * np.asarray(rng.standard_normal(values.shape))
    if given.size and (np.all(given >= 0) or np.all(given <= 0)):  # logarithms stay possible
        drawn = np.copysign(drawn, given[np.argmax(np.abs(given))])
    if values.dtype.kind == "i":
        return np.asarray(np.rint(drawn), values.dtype)
    return np.where(np.isfinite(values), drawn, values).astype(values.dtype)
