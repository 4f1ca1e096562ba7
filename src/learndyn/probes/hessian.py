"""Products with the Hessian of a function of the outputs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator

from learndyn.numerics.lanczos import Product
from learndyn.probes.arguments import ArrayLike, MeanLoss, is_traced, known, labelled
from learndyn.problems import AbstractLoss
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array

FORMED = 2048  # number of weights up to which a Hessian is formed while tracing


def hessian_operator(
    model: Any, x: ArrayLike, y: ArrayLike, *, loss: AbstractLoss | None = None
) -> LinearOperator:
    """The Hessian of the mean loss with respect to the weights, as a linear operator.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.

    Returns:
        A `scipy.sparse.linalg.LinearOperator`, (weights, weights), in the order of
        `ravel_pytree(model.weights)`. A product is a forward derivative of the gradient.
    """
    model, x, mean = prepared(model, x, y, loss)
    return operator_of(model, x, mean)


def prepared(
    model: Any, x: ArrayLike, y: ArrayLike, loss: AbstractLoss | None
) -> tuple[Any, Array, Any]:
    """A model, inputs, and the mean loss as a function of the outputs, checked."""
    model, x, y, loss = labelled(model, x, y, loss)
    if not is_traced(model, x, y):
        model = model.placed()
    return model, x, MeanLoss(loss, y)


def product_of(model: Any, x: ArrayLike, function: Any) -> Product:
    """v ↦ ∂² function(outputs)/∂w² v, on the device if v is there."""
    if not is_traced(model, x):  # moved to the device once, for all products
        with full_precision():
            x, function = jax.tree.map(jnp.asarray, (x, function))
    return lambda v: model.hessian_product(function, x, v)


def operator_of(model: Any, x: ArrayLike, function: Any) -> LinearOperator:
    """Products with ∂² function(outputs)/∂w² of NumPy vectors."""
    of = product_of(model, x, function)

    def product(v: np.ndarray) -> np.ndarray:
        return known(model, "Hessian", of(v.reshape(-1).astype(model.dtype)))

    make: Any = LinearOperator  # the type stubs do not have the signature that SciPy documents
    shape = (model.size, model.size)
    return make(shape, matvec=product, rmatvec=product, dtype=model.dtype)


def start_of(model: Any) -> Any:
    """A normal vector of weights on the device, the same at every call: Lanczos begins from it."""
    return model.on_device(np.random.default_rng(0).standard_normal(model.size))


def formed_hessian(model: Any, x: ArrayLike, mean: Any) -> Array:
    """The Hessian as a matrix, while tracing."""
    if model.size > FORMED:
        raise ValueError(
            f"model: got {model.size} weights; allowed are up to {FORMED} while tracing, since the "
            "Hessian is then formed"
        )
    units = jnp.eye(model.size, dtype=model.dtype)
    matrix = jax.lax.map(lambda v: model.hessian_product(mean, x, v), units)
    return (matrix + matrix.T) / 2  # removes asymmetries from rounding


def convention_of(model: Any, x: ArrayLike, mean: MeanLoss) -> str:
    """Which Hessian it is, and how kinks are treated, in words."""
    which = f"Hessian of {mean.loss}, averaged over {len(x)} examples"
    return "; ".join(filter(None, (which, at_kinks(model, x))))


def at_kinks(model: Any, x: ArrayLike) -> str:
    """How points without a second derivative are treated, in words; empty if there are none."""
    names = ", ".join(model.kinks(x))
    return names and f"piecewise ({names}): the second derivative at a kink counts as 0"
