"""The learning rate above which gradient descent does not converge."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import as_model
from learndyn.numerics import dense
from learndyn.numerics.lanczos import Product, eigen, largest_eigenvalue
from learndyn.numerics.vectors import as_numpy
from learndyn.probes.arguments import (
    ArrayLike,
    checked_inputs,
    is_traced,
    known,
    labelled,
    output_shape,
    part_of,
)
from learndyn.probes.curvature import hessian_top
from learndyn.probes.hessian import convention_of, prepared, product_of, start_of
from learndyn.probes.kernel import ntk
from learndyn.probes.optimisers import Response, response_of
from learndyn.problems import AbstractLoss, CrossEntropy, SquaredLoss
from learndyn.problems.losses import loss_given
from learndyn.runtime.checks import flag, non_negative, seed
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Number
from learndyn.tangent.kernel import as_matrix, critical_rate


@dataclasses.dataclass(frozen=True)
class CriticalLearningRate:
    """2/λ_max(H), or the same for another optimiser, with the convention of loss and Hessian.

    Attributes:
        value: the learning rate; with an optimiser whose weights have different rates, `factor`.
        convention: the loss and the meaning of H, in words.
        factor: with an optimiser, by how much all its rates may grow (below 1: they must fall).
        batches: with `batch`, the value for every batch.
        residual: of Lanczos iteration, |H v − λ v|/|λ|: an eigenvalue is within this relative
            distance of λ; None where it was not used.
    """

    value: Any
    convention: str
    factor: float | None = None
    batches: np.ndarray | None = None
    residual: float | None = None

    @property
    def median(self) -> float:
        """The median over batches."""
        return float(np.median(self._batches))

    def share_above(self, learning_rate: Number) -> float:
        """The share of batches whose critical rate a learning rate exceeds."""
        return float(np.mean(float(learning_rate) > self._batches))

    @property
    def _batches(self) -> np.ndarray:
        if self.batches is None:
            raise ValueError("batches: got none; allowed is a result of batch=…")
        return self.batches

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype)

    def __jax_array__(self) -> Any:
        return jnp.asarray(self.value)


def critical_learning_rate(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: AbstractLoss | None = None,
    exact: bool = False,
    optimiser: Any = None,
    batch: int | None = None,
    tolerance: Number = 1e-3,
    key: int = 0,
) -> CriticalLearningRate:
    """The learning rate 2/λ_max(H) above which full-batch gradient descent leaves a minimum.

    By default H is the Gauss-Newton matrix (1/n) Jᵀ A J with A = ∂²loss/∂output², which has the
    nonzero eigenvalues of A^½ K A^½/n with the tangent kernel K: the rate is n/(scale · λ_max(K))
    for `SquaredLoss(scale)`. For a network that is linear in its weights this is the whole Hessian.
    With `exact=True`, H is the Hessian of the mean loss, by Lanczos iteration on its device.

    With an optimiser, the rate is that at which its own step becomes unstable on the quadratic loss
    with this H, at the preconditioner of its state: 2(1 + β)/λ_max with momentum, 2(1 + β)/((1 +
    2β) λ_max) with Nesterov's, (2 + 2β₁)/((1 − β₁) λ_max(P^(-½) H P^(-½))) for Adam with P = √v̂ + ε
    (`optimisers/response.py`). Gradient clipping does not count.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        y: targets or labels; needed for `exact=True`, and for your own loss.
        loss: None is `SquaredLoss(0.5)`.
        exact: whether to use the Hessian rather than the kernel.
        optimiser: None for gradient descent; `(optax transformation, its state)`, or a
            `torch.optim.Optimizer` (SGD, Adam, AdamW, RMSprop, Adagrad), as it is.
        batch: also compute the rate of random batches of this size, which together have all
            examples once; a rest that is smaller is left out.
        tolerance: relative tolerance of the eigenvalue for `exact=True` and with an optimiser; 0 is
            machine precision.
        key: seed of the batches.

    Returns:
        The rate, infinite if λ_max ≤ 0; `float()` converts it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> ld.probes.critical_learning_rate(model, np.eye(4)).value  # 2 n/λ_max(K), K = I/4
        32.0
    """
    if y is None:
        model, x, loss = as_model(model), checked_inputs("x", x), loss_given(loss, None)
        loss.check_outputs(output_shape(model, x))
    else:
        model, x, y, loss = labelled(model, x, y, loss)
    flag("exact", exact)
    tolerance = float(non_negative("tolerance", tolerance))
    if exact and y is None:
        raise ValueError("y: got None; allowed are targets, on which the exact Hessian depends")
    if y is None and not isinstance(loss, SquaredLoss | CrossEntropy):
        raise ValueError("y: got None; allowed are targets, on which the loss's curvature depends")
    if optimiser is not None and is_traced(model, x, y):
        raise ValueError("optimiser: got one while tracing; allowed is None inside `simulate`")
    response = None if optimiser is None else response_of(model, optimiser)
    of = lambda x, y: _critical(model, x, y, loss, exact, response, tolerance)
    whole = of(x, y)
    if batch is None:
        return whole
    pairs = _batches(x, y, part_of("batch", batch, len(x), "examples"), seed("key", key))
    return dataclasses.replace(whole, batches=np.array([float(of(*pair)) for pair in pairs]))


def _critical(
    model: Any,
    x: Array,
    y: Array | None,
    loss: AbstractLoss,
    exact: bool,
    response: Response | None,
    tolerance: float,
) -> CriticalLearningRate:
    over = f"for {loss} averaged over {len(x)} examples"
    gauss_newton = "H the Gauss-Newton part, from the tangent kernel"
    if response is not None:
        product, how = _product(model, x, y, loss, exact)
        top, residual = _top(product, response, model, tolerance)
        factor = float(critical_rate(top))
        known = np.isfinite(response.rate)
        unit = "learning rate" if known else "factor of all learning rates"
        text = f"{unit} at which {response.name} becomes unstable {over}; {how}; without clipping"
        rate = factor * (response.rate if known else 1.0)
        return CriticalLearningRate(rate, text, factor, residual=_relative(residual, top))
    if exact:
        assert y is not None
        top, residual, convention = _exact(model, x, y, loss, tolerance)
        text, relative = f"2/λ_max(H) {over}; {convention}", _relative(residual, top)
        return CriticalLearningRate(_rate(top), text, residual=relative)
    top = largest_eigenvalue(_gauss_newton(model, x, y, loss)[0])
    return CriticalLearningRate(_rate(top), f"2/λ_max(H) {over}; {gauss_newton}")


def _batches(
    x: Array, y: Array | None, size: int, key: int
) -> Iterator[tuple[Array, Array | None]]:
    order = np.random.default_rng(key).permutation(len(x))
    for first in range(0, len(x) - size + 1, size):
        rows = order[first : first + size]
        yield x[rows], None if y is None else y[rows]


def _product(
    model: Any, x: Array, y: Array | None, loss: AbstractLoss, exact: bool
) -> tuple[Product, str]:
    """v ↦ H v, and which H it is in words."""
    if y is None:  # the curvature is the same for all targets
        shape = (len(x), *output_shape(model, x))
        square = isinstance(loss, SquaredLoss)
        y = np.zeros(shape, model.dtype) if square else np.zeros(len(x), np.int32)
        loss = loss if square else CrossEntropy()
    model, x, mean = prepared(model, x, y, loss)
    if exact:
        return product_of(model, x, mean), convention_of(model, x, mean)
    outputs = model.outputs(x)

    def product(v: Any) -> Any:
        u = as_numpy(model.jvp(x, v)).reshape(outputs.shape)
        bent = mean.curvature(outputs, u).reshape(len(x), -1)
        return model.vjp(x, model.on_device(bent))

    return product, "H the Gauss-Newton part"


def _top(product: Product, response: Response, model: Any, tolerance: float) -> tuple[float, float]:
    """λ_max(S^½ H S^½ + G), and the residual."""
    model = model.placed()
    root = model.on_device(np.sqrt(np.maximum(response.scale, 0)))
    shift = model.on_device(np.broadcast_to(response.shift, root.shape))
    whole = lambda v: root * product(root * v) + shift * v
    found = eigen(whole, start_of(model), tolerance=tolerance)
    if np.isnan(found.values[0]):
        raise ValueError("model: got products with H that are not finite; allowed are finite ones")
    return float(found.values[0]), float(found.residuals[0])


def _relative(residual: float | None, top: Any) -> float | None:
    return None if residual is None or not top else float(residual / abs(top))


def _rate(top: Any) -> Any:
    rate = critical_rate(top)
    return rate if is_traced(rate) else float(rate)


def _gauss_newton(
    model: Any, x: ArrayLike, y: ArrayLike | None, loss: AbstractLoss
) -> tuple[Array, Array | None]:
    """A^½ K A^½/n as a matrix, and A^½ of every example (None where A is a number)."""
    kernel = as_matrix(ntk(model, x))
    if isinstance(loss, SquaredLoss):
        scale = jnp.asarray(loss.scale) if is_traced(kernel) else loss.scale
        return (kernel * (2 * scale / len(x))).astype(kernel.dtype), None
    if y is None:  # the second derivative of a cross-entropy is the same for all labels
        y, loss = np.zeros(len(x), np.int32), CrossEntropy()
    roots = curvature_roots(loss, model.outputs(x), y)
    return weighted(kernel, roots) / len(x), roots


@compiled_in_float64
def curvature_roots(loss: AbstractLoss, outputs: Array, y: ArrayLike) -> Array:
    """A^½ of every example, (n, k, k)."""
    axes = outputs.ndim - 1
    y = jnp.asarray(y)
    y = y.astype(outputs.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else y
    each = lambda output, y: loss.each(output[None], y[None], axes)[0]
    A = jax.vmap(jax.hessian(each))(outputs, y)
    k = outputs[0].size
    # A is positive semidefinite for convex losses, up to rounding, which is cut off.
    values, vectors = dense.eigh(A.reshape(len(outputs), k, k))
    roots = jnp.sqrt(jnp.maximum(values, 0))
    return jnp.einsum("nij,nj,nkj->nik", vectors, roots, vectors)


def weighted(kernel: Array, roots: Array) -> Array:
    """A^½ K A^½ as a matrix."""
    n, k, _ = roots.shape
    rows = (roots @ kernel.reshape(n, k, n * k)).reshape(n * k, n, k)
    columns = rows.transpose(1, 2, 0)
    return as_matrix((roots @ columns).reshape(n * k, n * k))


def _exact(
    model: Any, x: ArrayLike, y: ArrayLike, loss: AbstractLoss, tolerance: float
) -> tuple[Any, float | None, str]:
    if is_traced(model, x, y):  # Lanczos iteration stops by the values, which are not known here
        top = hessian_top(model, x, y, loss=loss)
        return top.values[0], None, top.convention
    model, x, mean = prepared(model, x, y, loss)
    found = eigen(product_of(model, x, mean), start_of(model), tolerance=tolerance)
    top = float(known(model, "Hessian", found.values)[0])
    return top, found.residuals[0], convention_of(model, x, mean)
