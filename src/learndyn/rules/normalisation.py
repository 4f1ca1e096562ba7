"""Normalisation of weights after a step, as an optax transformation."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learndyn.runtime.checks import shown
from learndyn.runtime.types import Array


def normalise_rows(axis: int | None = None) -> Any:
    """Keeps the norm of every unit's input weights (Eq. 108 of hiratani2022perturbation).

    w_i ← ‖w_i‖ / ‖w_i + δw_i‖ · (w_i + δw_i), where δw_i is the update of the transformations
    before it, so that it comes last in `optax.chain`. Each unit keeps its initial norm. The mean
    step is then no longer along the gradient. Weights whose rows have a single entry, such as
    biases, are not normalised.

    Args:
        axis: the axis of the units in every array of weights. None is the convention of learndyn's
            networks: the last axis of convolutions (height, width, inputs, outputs), the first of
            all others. Use 0 for equinox modules, where it is always the first.

    Returns:
        An `optax.GradientTransformation`.

    Raises:
        ValueError: for an axis that is not an integer.

    Example:
        >>> import optax
        >>> import learndyn as ld
        >>> step = optax.chain(optax.sgd(0.1), ld.rules.normalise_rows())
        >>> rule = ld.Optax(step, estimator=ld.NodePerturbation(1.0, batch=10))
    """
    if axis is not None and (not isinstance(axis, int | np.integer) or isinstance(axis, bool)):
        raise ValueError(f"axis: got {shown(axis)}; allowed is an integer, or None")

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ValueError("params: got None; allowed are the weights, whose norms are preserved")
        return jax.tree.map(lambda d, w: _kept(d, w, axis), updates, params), state

    init: Any = lambda params: optax.EmptyState()
    return optax.GradientTransformation(init, update)


def _kept(change: Array, weight: Array, axis: int | None) -> Array:
    """The change of the weights that preserves the norm of every row."""
    if weight.ndim == 0:
        return change
    units = (-1 if weight.ndim == 4 else 0) if axis is None else axis
    others = tuple(i for i in range(weight.ndim) if i != units % weight.ndim)
    if math.prod(weight.shape[i] for i in others) == 1:  # only its sign would be left
        return change
    norm = lambda w: jnp.sqrt(jnp.sum(w**2, axis=others, keepdims=True))
    moved = weight + change
    size = norm(moved)
    # A row that becomes zero has no direction, and stays zero.
    return norm(weight) / jnp.where(size > 0, size, 1) * moved - weight
