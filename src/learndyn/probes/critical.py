"""The learning rate above which gradient descent does not settle."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import as_model
from learndyn.numerics import dense
from learndyn.numerics.checks import flag, non_negative
from learndyn.numerics.lanczos import largest_eigenvalue, largest_from, top_eigen
from learndyn.numerics.precision import compiled_in_float64
from learndyn.numerics.types import Array, Number
from learndyn.probes.curvature import hessian_top
from learndyn.probes.examples import Given, checked_inputs, checked_targets, is_traced
from learndyn.probes.hessian import convention_of, labelled, operator_of
from learndyn.probes.kernel import DENSE, matrix_of, ntk
from learndyn.problems import AbstractLoss, CrossEntropy, SquaredLoss
from learndyn.problems.losses import loss_given

NOISE = 0.1  # share of a random vector in the start of Lanczos, so that nothing is orthogonal


@dataclasses.dataclass(frozen=True)
class CriticalLearningRate:
    """2/λ_max(H), as a number with the convention that it holds in.

    Attributes:
        value: the learning rate.
        convention: the loss, and which H.
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
    x: Given,
    y: Given | None = None,
    *,
    loss: AbstractLoss | None = None,
    exact: bool = False,
    tolerance: Number | None = None,
) -> CriticalLearningRate:
    """The learning rate 2/λ_max(H) above which full-batch gradient descent leaves a minimum.

    From the kernel, H is the Gauss-Newton matrix (1/n) Jᵀ A J with A = ∂²loss/∂output², whose
    eigenvalues are those of A^½ K A^½/n: 2/λ_max is n/(scale · λ_max(K)) for `SquaredLoss(scale)`.
    It is the whole Hessian of a network that is linear in its weights. Exactly, H is the Hessian
    of the mean loss itself, also for cross-entropy, by Lanczos from the kernel's eigenvector.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels; needed where exact, or by a loss of one's own.
        loss: None is `SquaredLoss(0.5)`.
        exact: whether by the Hessian rather than the kernel.
        tolerance: relative, of the exact eigenvalue; None is ten times machine precision.

    Returns:
        The rate, infinite where λ_max ≤ 0; `float()` takes it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> ld.probes.critical_learning_rate(model, np.eye(4)).value  # 2 n/λ_max(K), K = I/4
        32.0
    """
    model, x, given = as_model(model), checked_inputs("x", x), loss_given(loss, None)
    y = None if y is None else checked_targets(y, len(x))
    flag("exact", exact)
    tolerance = None if tolerance is None else non_negative("tolerance", tolerance)
    if exact and y is None:
        raise ValueError("y: got None; allowed are targets, on which the exact Hessian depends")
    if y is None and not isinstance(given, SquaredLoss | CrossEntropy):
        raise ValueError("y: got None; allowed are targets, on which the loss's curvature depends")
    over = f"2/λ_max(H) for {given} averaged over {len(x)} examples"
    if exact:
        top, said = _exact(model, x, y, given, tolerance)
        return CriticalLearningRate(_rate(top), f"{over}; {said}")
    top = largest_eigenvalue(_gauss_newton(model, x, y, given)[0])
    how = "H the Gauss-Newton part, from the tangent kernel"
    return CriticalLearningRate(_rate(top), f"{over}; {how}")


def _rate(top: Any) -> Any:
    if is_traced(top):
        return jnp.where(top > 0, 2 / top, jnp.inf)
    return float(2 / top) if top > 0 else float("nan" if np.isnan(top) else "inf")


def _gauss_newton(
    model: Any, x: Given, y: Given | None, loss: AbstractLoss
) -> tuple[Array, Array | None]:
    """A^½ K A^½/n as a matrix, and A^½ of every example where it is no number."""
    kernel = matrix_of(ntk(model, x))
    if isinstance(loss, SquaredLoss):
        scale = jnp.asarray(loss.scale) if is_traced(kernel) else loss.scale
        return (kernel * (2 * scale / len(x))).astype(kernel.dtype), None
    roots = _roots(loss, model.outputs(x), y)
    return _weighted(kernel, roots) / len(x), roots


@compiled_in_float64
def _roots(loss: AbstractLoss, outputs: Array, y: Given | None) -> Array:
    """A^½ of every example, (n, k, k)."""
    axes = outputs.ndim - 1
    y = jnp.zeros(len(outputs), int) if y is None else jnp.asarray(y)  # any label will do
    y = y.astype(outputs.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else y
    each = lambda output, y: loss.each(output[None], y[None], axes)[0]
    A = jax.vmap(jax.hessian(each))(outputs, y)
    k = outputs[0].size
    values, vectors = dense.eigh(A.reshape(len(outputs), k, k))
    roots = jnp.sqrt(jnp.maximum(values, 0))
    return jnp.einsum("nij,nj,nkj->nik", vectors, roots, vectors)


def _weighted(kernel: Array, roots: Array) -> Array:
    n, k, _ = roots.shape
    rows = (roots @ kernel.reshape(n, k, n * k)).reshape(n * k, n, k)
    columns = rows.transpose(1, 2, 0)
    return matrix_of((roots @ columns).reshape(n * k, n * k))


def _exact(
    model: Any, x: Given, y: Given, loss: AbstractLoss, tolerance: Number | None
) -> tuple[Any, str]:
    if is_traced(model, x, y):
        top = hessian_top(model, x, y, loss=loss)
        return top.values[0], top.convention
    precision = float(np.finfo(model.dtype).eps)
    allowed = 10 * precision if tolerance is None else float(non_negative("tolerance", tolerance))
    model, x, mean = labelled(model, x, y, loss)
    start = _start(model, x, y, loss)
    top = largest_from(operator_of(model, x, mean).matvec, start, allowed)
    return top, convention_of(model, x, mean)


def _start(model: Any, x: Given, y: Given, loss: AbstractLoss) -> np.ndarray:
    """The Gauss-Newton part's eigenvector Jᵀ A^½ u, and some of all other directions."""
    noise = np.random.default_rng(0).standard_normal(model.size, model.dtype)
    if len(x) * model.outputs_each(x) > DENSE:
        return noise
    matrix, roots = _gauss_newton(model, x, y, loss)
    u = top_eigen(matrix, 1)[1].reshape(len(x), -1)
    u = u if roots is None else np.einsum("nij,nj->ni", roots, u)
    pulled = model.vjp(x, u)
    size, share = np.linalg.norm(pulled), NOISE / np.linalg.norm(noise)
    return noise if size == 0 else pulled / size + share * noise
