"""Products with the Hessian of a function of the outputs, and what counts as a Hessian."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator

from learndyn.networks import as_model
from learndyn.numerics.types import Array
from learndyn.probes.examples import (
    Given,
    MeanLoss,
    checked_inputs,
    checked_targets,
    is_traced,
    known,
)
from learndyn.problems import AbstractLoss
from learndyn.problems.losses import loss_given

FORMED = 2048  # weights up to which a Hessian is formed while tracing


def hessian_operator(
    model: Any, x: Given, y: Given, *, loss: AbstractLoss | None = None
) -> LinearOperator:
    """Multiplies by the Hessian of the mean loss with respect to the weights.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.

    Returns:
        A `scipy.sparse.linalg.LinearOperator`, (weights, weights), in the order of
        `ravel_pytree(model.weights)`; a product is a forward derivative of the gradient.
    """
    model, x, mean = labelled(model, x, y, loss)
    return operator_of(model, x, mean)


def labelled(model: Any, x: Given, y: Given, loss: AbstractLoss | None) -> tuple[Any, Array, Any]:
    """A model, inputs and the loss of its outputs, checked."""
    model, x = as_model(model), checked_inputs("x", x)
    y = checked_targets(y, len(x))
    model.outputs_each(x)
    if not is_traced(model, x, y):
        model = model.placed()
    return model, x, MeanLoss(loss_given(loss, None), y)


def operator_of(model: Any, x: Given, function: Any) -> LinearOperator:
    """Products with ∂² function(outputs)/∂w²."""
    if not is_traced(model, x):
        with jax.enable_x64(True):
            x, function = jax.tree.map(jnp.asarray, (x, function))

    def product(v: np.ndarray) -> np.ndarray:
        found = model.hessian_product(function, x, v.reshape(-1).astype(model.dtype))
        return known(model, "Hessian", found)

    make: Any = LinearOperator  # its signature is not the one that SciPy documents
    shape = (model.size, model.size)
    return make(shape, matvec=product, rmatvec=product, dtype=model.dtype)


def formed_hessian(model: Any, x: Given, mean: Any) -> Array:
    """The Hessian itself, while tracing."""
    if model.size > FORMED:
        raise ValueError(
            f"model: got {model.size} weights; allowed are {FORMED} while tracing, where the "
            "Hessian is formed"
        )
    units = jnp.eye(model.size, dtype=model.dtype)
    matrix = jax.lax.map(lambda v: model.hessian_product(mean, x, v), units)
    return (matrix + matrix.T) / 2


def convention_of(model: Any, x: Given, mean: MeanLoss) -> str:
    """Which Hessian it is, and what counts at kinks."""
    said = f"Hessian of {mean.loss}, averaged over {len(x)} examples"
    return "; ".join(filter(None, (said, at_kinks(model, x))))


def at_kinks(model: Any, x: Given) -> str:
    """What counts where the network has no second derivative."""
    found = ", ".join(model.kinks(x))
    return found and f"piecewise ({found}): the second derivative at a kink counts as 0"
