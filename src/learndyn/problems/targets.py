"""Checks of targets, for data sets and for probes."""

import math

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from learndyn.problems.losses import AbstractLoss, CrossEntropy
from learndyn.runtime.checks import finite
from learndyn.runtime.types import Array


def checked_targets(
    name: str, y: Array, loss: AbstractLoss, shape: tuple[int, ...] | None = None
) -> Array:
    """Targets in the form that a loss needs, or a one-line error.

    Integers are labels if there is one per example, or with a cross-entropy one per token of
    outputs (tokens, classes), and numbers otherwise. The values of targets
    that are being traced are unknown and not checked.

    Args:
        name: the name of the argument.
        y: real numbers, (examples, …).
        loss: the loss that compares them with outputs.
        shape: of the outputs for one example; None if the network is not known yet.

    Returns:
        Labels as int32, or floats.
    """
    floats, known = jnp.issubdtype(y.dtype, jnp.floating), not isinstance(y, jax.core.Tracer)
    each = () if shape is None else loss.label_shape(shape)
    labels = not floats and y.shape[1:] in ((), each)
    if shape is not None:
        _check_shape(name, y.shape, labels, shape, each)
    if known and labels:
        _check_labels(name, np.asarray(y), loss, shape)
    if known and not labels:
        loss.check_numbers(name, finite(name, np.asarray(y)))
    return y if floats else y.astype(np.int32 if labels else float)


def _check_shape(
    name: str, came: tuple[int, ...], labels: bool, shape: tuple[int, ...], each: tuple[int, ...]
) -> None:
    if labels and len(shape) > 1 and came[1:] != each:
        raise ValueError(
            f"outputs: got shape {shape} for each example beside integer labels {came}; allowed is "
            "a scalar or one axis of classes, or for CrossEntropy one label per token"
        )
    if labels and len(shape) > 1:
        return
    long = lambda axes: tuple(n for n in axes if n != 1)  # axes of length one are ignored
    flat = math.prod(came[1:]) == math.prod(shape) and len(long(came[1:])) <= 1
    if not labels and not flat and long(came[1:]) != long(shape):
        allowed = f"{(came[0], *shape)}, the shape of the outputs, or integer labels {came[:1]}"
        raise ValueError(f"{name}: got shape {came}; allowed is {allowed}")


def _check_labels(
    name: str, y: np.ndarray, loss: AbstractLoss, shape: tuple[int, ...] | None
) -> None:
    counted = loss.counted(y)
    y = y if counted is None else y[np.asarray(counted)]
    if not y.size:
        raise ValueError(
            f"{name}: got only labels that {loss} ignores; allowed is at least one other label"
        )
    low, high = int(y.min()), int(y.max())
    if low < 0:
        left_out = f", or CrossEntropy(ignore_index={low}), which ignores it"
        raise ValueError(
            f"{name}: got the label {low}; allowed are integer labels from 0, or targets as floats"
            f"{left_out if isinstance(loss, CrossEntropy) else ''}"
        )
    # A single output has two labels, 0 and 1; without a network, int32 is the only bound.
    classes = 2**31 if shape is None else max(math.prod(shape[-1:]), 2)
    if high >= classes:
        allowed, outputs = f"the labels 0 to {classes - 1}", f"{classes} outputs"
        if shape is not None and math.prod(shape) == 1:
            allowed, outputs = "the labels 0 and 1, or targets as floats", "one output"
        raise ValueError(f"{name}: got the label {high} for {outputs}; allowed are {allowed}")
