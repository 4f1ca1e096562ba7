"""The learning rate above which gradient descent does not converge."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import as_model
from learndyn.numerics import dense
from learndyn.numerics.lanczos import largest_eigenvalue, largest_from, top_eigen
from learndyn.probes.arguments import ArrayLike, checked_inputs, is_traced, labelled, output_shape
from learndyn.probes.curvature import hessian_top
from learndyn.probes.hessian import convention_of, operator_of, prepared
from learndyn.probes.kernel import DENSE, ntk
from learndyn.problems import AbstractLoss, CrossEntropy, SquaredLoss
from learndyn.problems.losses import loss_given
from learndyn.runtime.checks import flag, non_negative
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Number
from learndyn.tangent.kernel import as_matrix, critical_rate

NOISE = 0.1  # random part of the first Lanczos vector, so that it has all directions


@dataclasses.dataclass(frozen=True)
class CriticalLearningRate:
    """2/λ_max(H), with the convention of loss and Hessian.

    Attributes:
        value: the learning rate.
        convention: the loss and the meaning of H, in words.
    """

    value: Any
    convention: str

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
    tolerance: Number | None = None,
) -> CriticalLearningRate:
    """The learning rate 2/λ_max(H) above which full-batch gradient descent leaves a minimum.

    By default H is the Gauss-Newton matrix (1/n) Jᵀ A J with A = ∂²loss/∂output², which has the
    nonzero eigenvalues of A^½ K A^½/n with the tangent kernel K: the rate is n/(scale · λ_max(K))
    for `SquaredLoss(scale)`. For a network that is linear in its weights this is the whole Hessian.
    With `exact=True`, H is the Hessian of the mean loss, by Lanczos iteration from the kernel's top
    eigenvector.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        y: targets or labels; needed for `exact=True`, and for your own loss.
        loss: None is `SquaredLoss(0.5)`.
        exact: whether to use the Hessian rather than the kernel.
        tolerance: relative tolerance of the exact eigenvalue; None is ten times machine precision.

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
    over = f"2/λ_max(H) for {loss} averaged over {len(x)} examples"
    if exact:
        top, convention = _exact(model, x, y, loss, tolerance)
        return CriticalLearningRate(_rate(top), f"{over}; {convention}")
    top = largest_eigenvalue(_gauss_newton(model, x, y, loss)[0])
    how = "H the Gauss-Newton part, from the tangent kernel"
    return CriticalLearningRate(_rate(top), f"{over}; {how}")


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
