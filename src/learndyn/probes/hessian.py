"""Products with the Hessian of a function of the outputs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator

from learndyn.numerics.lanczos import Product
from learndyn.probes.arguments import ArrayLike, LossLike, is_traced, known, labelled, mean_of
from learndyn.probes.batches import Batches, batches_or_array
from learndyn.probes.tensors import in_tensors
from learndyn.runtime.memory import check_weights_fit
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array

FORMED = 2048  # number of weights up to which a Hessian is formed while tracing


def hessian_operator(
    model: Any, x: ArrayLike, y: ArrayLike | None = None, *, loss: LossLike = None
) -> LinearOperator:
    """The Hessian of the mean loss with respect to the weights, as a linear operator.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches (see docs/formats.md).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.

    Returns:
        A `scipy.sparse.linalg.LinearOperator`, (weights, weights), in the order of
        `ravel_pytree(model.weights)`. A product is a forward derivative of the gradient.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> hessian = ld.probes.hessian_operator(model, x, y)
        >>> hessian @ np.ones(2)
        array([2., 8.])
    """
    model, x, mean = prepared(model, x, y, loss)
    return operator_of(model, x, mean)


def prepared(model: Any, x: ArrayLike, y: ArrayLike, loss: Any) -> tuple[Any, Any, Any]:
    """A model, inputs, and the mean loss as a function of the outputs, checked.

    Batches take the place of both the inputs and the loss.
    """
    batches = batches_or_array(model, x, y, loss)
    if batches is not None:
        return batches.model, batches, batches
    model, x, y, loss = labelled(model, x, y, loss)
    if not is_traced(model, x, y):
        model = model.placed()
    return model, x, mean_of(loss, y)


def product_of(model: Any, x: ArrayLike, function: Any) -> Product:
    """v ↦ ∂² function(outputs)/∂w² v, on the device if v is there."""
    if isinstance(x, Batches):
        of = lambda mean: in_tensors(model, mean)
        return lambda v: x.mean(lambda part, mean: model.hessian_product(of(mean), part, v))
    if is_traced(model, x):
        return lambda v: model.hessian_product(function, x, v)
    function = in_tensors(model, function)
    if isinstance(function, eqx.Module):  # moved to the device once, for all products
        with full_precision():
            function = jax.tree.map(jnp.asarray, function)
    return model.hessian_products(function, model.held(x))


def operator_of(model: Any, x: ArrayLike, function: Any) -> LinearOperator:
    """Products with ∂² function(outputs)/∂w² of NumPy vectors."""
    of = product_of(model, x, function)

    def product(v: np.ndarray) -> np.ndarray:
        return known(model, "Hessian", of(v.reshape(-1).astype(model.dtype)))

    make: Any = LinearOperator  # the type stubs do not have the signature that SciPy documents
    shape = (model.size, model.size)
    return make(shape, matvec=product, rmatvec=product, dtype=model.dtype)


def start_of(model: Any, sought: int = 1) -> Any:
    """A normal vector of weights on the device, the same at every call: Lanczos begins from it."""
    one = model.on_device(np.zeros(1))
    check_weights_fit(one, model.size, sought + 2, "the basis of Lanczos iteration")
    return model.on_device(np.random.default_rng(0).standard_normal(model.size))


def most_products(model: Any, sought: int = 1) -> int:
    """How many products Lanczos iteration takes at most for so many eigenvalues."""
    return min(model.size, max(300, 20 * sought))


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


def convention_of(model: Any, x: ArrayLike, mean: Any) -> str:
    """Which Hessian it is, and how kinks are treated, in words."""
    labels = f" with {mean.terms:g} labels" if mean.terms not in (len(x), float(len(x))) else ""
    which = f"Hessian of {mean.loss}, averaged over {len(x)} examples{labels}"
    return "; ".join(filter(None, (which, at_kinks(model, x))))


def at_kinks(model: Any, x: ArrayLike) -> str:
    """How points without a second derivative are treated, in words; empty if there are none."""
    names = ", ".join(model.kinks(x.first if isinstance(x, Batches) else x))
    return names and f"piecewise ({names}): the second derivative at a kink counts as 0"
