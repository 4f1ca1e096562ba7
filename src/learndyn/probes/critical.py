"""The learning rate above which gradient descent does not converge."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import as_model
from learndyn.numerics import dense
from learndyn.numerics.lanczos import Product, largest_eigenvalue, largest_from, top_eigen
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
from learndyn.probes.hessian import convention_of, operator_of, prepared
from learndyn.probes.kernel import DENSE, ntk
from learndyn.probes.optimisers import Response, response_of
from learndyn.problems import AbstractLoss, CrossEntropy, SquaredLoss
from learndyn.problems.losses import loss_given
from learndyn.runtime.checks import flag, non_negative, seed
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Number
from learndyn.tangent.kernel import as_matrix, critical_rate

LOOSE = 1e-3  # relative tolerance of eigenvalues for optimisers, whose state moves at every step
NOISE = 0.1  # random part of the first Lanczos vector, so that it has all directions


@dataclasses.dataclass(frozen=True)
class CriticalLearningRate:
    """2/λ_max(H), or the same for another optimiser, with the convention of loss and Hessian.

    Attributes:
        value: the learning rate; with an optimiser whose weights have different rates, `factor`.
        convention: the loss and the meaning of H, in words.
        factor: with an optimiser, by how much all its rates may grow (below 1: they must fall).
        batches: with `batch`, the value for every batch.
    """

    value: Any
    convention: str
    factor: float | None = None
    batches: np.ndarray | None = None

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
    tolerance: Number | None = None,
    key: int = 0,
) -> CriticalLearningRate:
    """The learning rate 2/λ_max(H) above which full-batch gradient descent leaves a minimum.

    By default H is the Gauss-Newton matrix (1/n) Jᵀ A J with A = ∂²loss/∂output², which has the
    nonzero eigenvalues of A^½ K A^½/n with the tangent kernel K: the rate is n/(scale · λ_max(K))
    for `SquaredLoss(scale)`. For a network that is linear in its weights this is the whole Hessian.
    With `exact=True`, H is the Hessian of the mean loss, by Lanczos iteration from the kernel's top
    eigenvector.

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
        tolerance: relative tolerance of the eigenvalue; None is ten times machine precision for
            `exact=True`, and 1e-3 with an optimiser.
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
    tolerance = None if tolerance is None else non_negative("tolerance", tolerance)
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
    tolerance: Number | None,
) -> CriticalLearningRate:
    over = f"for {loss} averaged over {len(x)} examples"
    gauss_newton = "H the Gauss-Newton part, from the tangent kernel"
    if response is not None:
        product, how = _product(model, x, y, loss, exact)
        allowed = LOOSE if tolerance is None else float(tolerance)
        factor = 2 / _top(product, response, model.dtype, allowed)
        factor = factor if factor > 0 else float("inf")
        known = np.isfinite(response.rate)
        unit = "learning rate" if known else "factor of all learning rates"
        text = f"{unit} at which {response.name} becomes unstable {over}; {how}; without clipping"
        return CriticalLearningRate(factor * (response.rate if known else 1.0), text, factor)
    if exact:
        assert y is not None
        top, convention = _exact(model, x, y, loss, tolerance)
        return CriticalLearningRate(_rate(top), f"2/λ_max(H) {over}; {convention}")
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
        return operator_of(model, x, mean).matvec, convention_of(model, x, mean)
    outputs = model.outputs(x)

    def product(v: np.ndarray) -> np.ndarray:
        u = model.jvp(x, v.astype(model.dtype)).reshape(outputs.shape)
        bent = mean.curvature(outputs, u).reshape(len(x), -1)
        return known(model, "Gauss-Newton part", model.vjp(x, bent))

    return product, "H the Gauss-Newton part"


def _top(product: Product, response: Response, dtype: Any, tolerance: float) -> float:
    """λ_max(S^½ H S^½ + G)."""
    root, shift = np.sqrt(np.maximum(response.scale, 0)), response.shift
    whole = lambda v: (root * product((root * v).astype(dtype)) + shift * v).astype(dtype)
    start = np.random.default_rng(0).standard_normal(len(root)).astype(dtype)
    top = largest_from(whole, start, tolerance)
    if np.isnan(top):
        raise ValueError("model: got products with H that are not finite; allowed are finite ones")
    return top


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
    roots = _roots(loss, model.outputs(x), y)
    return _weighted(kernel, roots) / len(x), roots


@compiled_in_float64
def _roots(loss: AbstractLoss, outputs: Array, y: ArrayLike) -> Array:
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


def _weighted(kernel: Array, roots: Array) -> Array:
    n, k, _ = roots.shape
    rows = (roots @ kernel.reshape(n, k, n * k)).reshape(n * k, n, k)
    columns = rows.transpose(1, 2, 0)
    return as_matrix((roots @ columns).reshape(n * k, n * k))


def _exact(
    model: Any, x: ArrayLike, y: ArrayLike, loss: AbstractLoss, tolerance: Number | None
) -> tuple[Any, str]:
    if is_traced(model, x, y):  # Lanczos iteration stops by the values, which are not known here
        top = hessian_top(model, x, y, loss=loss)
        return top.values[0], top.convention
    precision = float(np.finfo(model.dtype).eps)
    allowed = 10 * precision if tolerance is None else float(non_negative("tolerance", tolerance))
    model, x, mean = prepared(model, x, y, loss)
    start = _start(model, x, y, loss)
    top = largest_from(operator_of(model, x, mean).matvec, start, allowed)
    return top, convention_of(model, x, mean)


def _start(model: Any, x: ArrayLike, y: ArrayLike, loss: AbstractLoss) -> np.ndarray:
    """The Gauss-Newton part's top eigenvector Jᵀ A^½ u, with a small random vector added."""
    noise = np.random.default_rng(0).standard_normal(model.size, model.dtype)
    if len(x) * model.outputs_each(x) > DENSE:
        return noise  # the kernel would cost more than it saves
    matrix, roots = _gauss_newton(model, x, y, loss)
    u = top_eigen(matrix, 1)[1].reshape(len(x), -1)
    u = u if roots is None else np.einsum("nij,nj->ni", roots, u)
    pulled = model.vjp(x, u)
    size, share = np.linalg.norm(pulled), NOISE / np.linalg.norm(noise)
    return noise if size == 0 else pulled / size + share * noise
