"""Descent whose rate is raised some times, as in Fig. 4.8: each raise is to trigger a catapult."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.zhu2024catapults._features import Task, best, course, critical

CLOSE, FAR = 20, 10  # readings of a stage: after each of the first steps, then spread out
READ = "train", "validation", "test", "alignment"  # blank after a run has diverged


def descents(
    task: Task,
    model: ld.Model,
    shares: Sequence[float],
    lengths: Sequence[int],
    *,
    probes: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Descent with k = 0, 1, … raises of the rate, all of the same length.

    Args:
        task: what is learned.
        model: where it begins.
        shares: the first rate and those it is raised to, over η_crit at the beginning.
        lengths: steps of the stages; with k raises the rate stays from stage k on.
        probes: more of what is read.

    Returns:
        What `best` gives over `raises`, with the spikes of the training loss until then as
        `catapults`, and the courses of training and validation loss.
    """
    unit, now = critical(task, model), model
    before: list[xr.Dataset] = []
    rows: list[xr.Dataset] = []
    for k, share in enumerate(shares):
        rest, flat = _stages(task, now, share * unit, lengths[k:], probes)
        rows.append(_told(_joined([*before, rest])).assign(rate=share * unit))
        before.append(rest.isel(reading=slice(CLOSE + FAR + 1)))
        now = None if now is None else _with_weights(now, flat[CLOSE + FAR])
    return xr.concat(rows, xr.Variable("raises", np.arange(len(shares))))


def descent(task: Task, model: ld.Model, rate: float, lengths: Sequence[int]) -> xr.Dataset:
    """The same at one rate throughout."""
    return _told(_stages(task, model, rate, lengths)[0]).assign(rate=rate)


def _told(found: xr.Dataset) -> xr.Dataset:
    """What is reported: `best`, catapults by the loss, and curves."""
    kept, loss = best(found), found["train"].values
    spikes = ld.analysis.find_catapults(loss[np.isfinite(loss)]).spikes
    steps = found["step"].values
    number = sum(steps[each.onset] < float(kept["step"]) for each in spikes)
    curves = {"steps": found["step"], "train_curve": found["train"], "curve": found["validation"]}
    return kept.assign({"catapults": float(number), **curves})


def _stages(
    task: Task,
    model: ld.Model | None,
    rate: float,
    lengths: Sequence[int],
    probes: Mapping[str, Any] | None = None,
) -> tuple[xr.Dataset, np.ndarray]:
    """Stages at one rate, as one run: what is read of them, and the weights, (readings, all)."""
    steps = np.zeros(1)
    for length in lengths:
        far = np.rint(np.linspace(CLOSE, length, FAR + 1))[1:]
        steps = np.concatenate([steps, steps[-1] + np.arange(1.0, CLOSE + 1), steps[-1] + far])
    if model is None:
        blank = {name: ("reading", np.full(len(steps), np.nan)) for name in READ}
        return xr.Dataset({**blank, "step": ("reading", steps)}), np.zeros((len(steps), 0))
    read = {"weights": _flat, **(probes or {})}
    found = course(task, model, ld.GradientDescent(rate), steps, key=0, probes=read)
    return found.drop_vars("weights"), found["weights"].values


def _with_weights(model: ld.Model, flat: np.ndarray) -> ld.Model | None:
    """The same network elsewhere; None where it has diverged."""
    if not np.all(np.isfinite(flat)):
        return None
    _, back = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, model.weights))
    return ld.Model(model.network, jax.tree.map(np.asarray, back(jnp.asarray(flat, jnp.float32))))


def _flat(model: ld.Model) -> Any:
    return jax.flatten_util.ravel_pytree(model.weights)[0]


def _joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Stages one after the other; the first reading of each is the last of the one before."""
    rows, at = [parts[0]], float(parts[0]["step"][-1])
    for part in parts[1:]:
        rows.append(part.isel(reading=slice(1, None)).assign(step=part["step"][1:] + at))
        at += float(part["step"][-1])
    return xr.concat(rows, "reading")
