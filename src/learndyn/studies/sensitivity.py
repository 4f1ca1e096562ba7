"""Checks claims on wrong data, to see what their verdicts depend on.

A claim that holds for any data says nothing about them. `turned` runs a study's `check` on mutated
data and returns the mutations that change each verdict. If none does, the claim is a theorem or
should be removed.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from learndyn.studies.claims import COUNTED, Claim, Status

Check = Callable[[xr.Dataset], list[Claim]]
SCALES = (0.8, 1.25)
LATER = 1.05  # factor by which coordinates, such as times, are stretched
DRAWS = 3  # shuffles and noises per variable: a single shuffle may keep an order by chance


def counted(claims: Sequence[Claim]) -> dict[str, Status]:
    """Name → status, of the claims that mutations should change: those that the data decide.

    Theorems are left out, and what is open whatever the data are. A claim whose interval is too
    wide has been judged by its data, and counts.
    """
    judged = lambda c: c.status != "open" or c.undecided
    return {c.name: c.status for c in claims if c.kind in COUNTED and judged(c)}


def mutations(data: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Scales, shuffles and replaces by noise each variable; stretches each numerical axis.

    Integers change by at least one. Text is only shuffled. Missing values stay missing.

    Args:
        data: what `compute` returned.

    Yields:
        A description of the mutation, and the mutated data.
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
    """The mutations that change each verdict.

    A mutation on which the check raises an error does not count: the error is about one claim, and
    would hide that the others are insensitive. A claim that is open by a reason other than a wide
    interval, or that the check does not state for the mutated data, has not changed either.

    Args:
        check: the `check` of a study.
        data: what its `compute` returned.
        until_all: stop as soon as every verdict has changed once.

    Returns:
        Name of each counted claim → the mutations that change its verdict.
    """
    before = counted(check(data))
    changes: dict[str, tuple[str, ...]] = {name: () for name in before}
    for what, mutated in mutations(data):
        after = _quietly(check, mutated)
        for name in before:
            if after.get(name, before[name]) != before[name]:
                changes[name] += (what,)
        if until_all and all(changes.values()):
            break
    return changes


def unturned(check: Check, data: xr.Dataset) -> list[str]:
    """The counted claims that hold, and hold for all mutations."""
    # Claims that do not hold for the true data are left out: they are sensitive to some data.
    holds = [name for name, status in counted(check(data)).items() if status == "holds"]
    changes = turned(check, data, until_all=True)
    return [name for name in holds if not changes[name]]


def _quietly(check: Check, data: xr.Dataset) -> dict[str, Status]:
    """Statuses on mutated data, without warnings; empty if the check raises an error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return counted(check(data))
        except Exception:  # impossible data may raise anything
            return {}


def _mutated(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    # A fixed seed: the same claims are found insensitive every time.
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
    if values.dtype.kind == "i":  # rounded away from the value, or small counts would not change
        moved = (np.floor if scale < 1 else np.ceil)(scale * values)
        return np.asarray(moved, values.dtype)
    return np.asarray(scale * values)


def _noise(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normal numbers with the root mean square of the values, and with their sign if all agree."""
    finite = values[np.isfinite(values)].astype(np.float64)
    scale = np.sqrt(np.mean(finite**2)) if finite.size else 0.0
    noise = scale * np.asarray(rng.standard_normal(values.shape))
    # Positive data stay positive, so that a study can still take their logarithm.
    if finite.size and (np.all(finite >= 0) or np.all(finite <= 0)):
        noise = np.copysign(noise, finite[np.argmax(np.abs(finite))])
    if values.dtype.kind == "i":
        return np.asarray(np.rint(noise), values.dtype)
    return np.where(np.isfinite(values), noise, values).astype(values.dtype)
