"""Gradient descent whose rate is raised a few times (Fig. 4.8) to trigger catapults."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.zhu2024catapults._features import (
    Task,
    best,
    course,
    critical,
    flat,
    with_weights,
)

# Readings of a stage: after each of the first steps, then spread out. A stage of fewer steps is
# read at its last one again, so that all histories have the same length.
CLOSE, FAR = 20, 10
READ = "train", "validation", "test", "alignment"  # NaN once a run has diverged


def descents(
    task: Task,
    model: ld.Model,
    shares: Sequence[float],
    lengths: Sequence[int],
    *,
    probes: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Runs with k = 0, 1, … raises of the rate, all of the same length.

    `shares` are the first rate and those it is raised to, over the initial η_crit, and `lengths`
    the steps of the stages; with k raises the rate stays the same from stage k on. Returns what
    `best` does, over `raises`, with the number of spikes of the training loss up to there as
    `catapults`, and the histories of training and validation loss.
    """
    unit, now = critical(task, model), model
    before: list[xr.Dataset] = []
    rows: list[xr.Dataset] = []
    for k, share in enumerate(shares):
        rest, weights = _stages(task, now, share * unit, lengths[k:], probes)
        rows.append(_reported(_joined([*before, rest])).assign(rate=share * unit))
        before.append(rest.isel(reading=slice(CLOSE + FAR + 1)))
        vector = weights[CLOSE + FAR]
        now = with_weights(now, vector) if now and np.all(np.isfinite(vector)) else None
    return xr.concat(rows, xr.Variable("raises", np.arange(len(shares))))


def descent(task: Task, model: ld.Model, rate: float, lengths: Sequence[int]) -> xr.Dataset:
    """The same at one rate throughout."""
    return _reported(_stages(task, model, rate, lengths)[0]).assign(rate=rate)


def _reported(run: xr.Dataset) -> xr.Dataset:
    """What `best` returns, catapults counted by spikes of the loss, and the histories."""
    kept = best(run)
    steps, once = np.unique(run["step"].values, return_index=True)
    loss = run["train"].values[once]
    spikes = ld.analysis.find_catapults(loss[np.isfinite(loss)]).spikes
    number = sum(steps[each.onset] < float(kept["step"]) for each in spikes)
    curves = {"steps": run["step"], "train_curve": run["train"], "curve": run["validation"]}
    return kept.assign({"catapults": float(number), **curves})


def _stages(
    task: Task,
    model: ld.Model | None,
    rate: float,
    lengths: Sequence[int],
    probes: Mapping[str, Any] | None = None,
) -> tuple[xr.Dataset, np.ndarray]:
    """Stages at one rate, as one run: what was read, and the weights by reading."""
    steps = np.zeros(1)
    for length in lengths:
        close = np.minimum(np.arange(1.0, CLOSE + 1), length)
        far = np.rint(np.linspace(close[-1], length, FAR + 1))[1:]
        steps = np.concatenate([steps, steps[-1] + close, steps[-1] + far])
    if model is None:
        blank = {name: ("reading", np.full(len(steps), np.nan)) for name in READ}
        return xr.Dataset({**blank, "step": ("reading", steps)}), np.zeros((len(steps), 0))
    read = {"weights": flat, **(probes or {})}
    once, which = np.unique(steps, return_inverse=True)
    run = course(task, model, ld.GradientDescent(rate), once, key=0, probes=read)
    run = run.isel(reading=which)
    return run.drop_vars("weights"), run["weights"].values


def _joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Stages one after the other; each begins with the last reading of the one before."""
    rows, at = [parts[0]], float(parts[0]["step"][-1])
    for part in parts[1:]:
        rows.append(part.isel(reading=slice(1, None)).assign(step=part["step"][1:] + at))
        at += float(part["step"][-1])
    return xr.concat(rows, "reading")
