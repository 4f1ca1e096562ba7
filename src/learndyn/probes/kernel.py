"""The tangent kernel K = J Jᵀ, J = ∂outputs/∂weights, and what is read off it."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator

from learndyn.networks import as_model
from learndyn.numerics import dense
from learndyn.numerics.checks import a_kind, instance, non_negative, one_of
from learndyn.numerics.lanczos import top_eigen
from learndyn.numerics.types import Array, Number
from learndyn.probes.examples import (
    Given,
    MeanLoss,
    as_array,
    checked_inputs,
    checked_targets,
    is_traced,
    known,
    part_of,
)
from learndyn.problems import AbstractLoss, SquaredLoss
from learndyn.problems.losses import loss_given

BATCH = 1024  # examples that the operator sends through the network at once
DENSE = 2048  # rows up to which a kernel is held rather than multiplied by
NORMS = ("frobenius", "spectral")


class SplitLoss(NamedTuple):
    """The loss by directions of the outputs; the two add up to the loss.

    Attributes:
        top: in the top eigenspaces of the kernel.
        rest: outside of them.
    """

    top: Array
    rest: Array


def ntk(model: Any, x: Given, x2: Given | None = None) -> Array:
    """The tangent kernel ⟨∂f_a(x_i)/∂w, ∂f_b(x'_j)/∂w⟩.

    From the inputs and node gradients of dense layers and convolutions wherever the network has
    them, in one backward pass an output; by rows of the Jacobian for other weights, in blocks of
    `networks.kernel.block_of` numbers. Each example's outputs must depend on its own input alone.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        x2: the other inputs, (n', …); None for the same.

    Returns:
        (n, k, n', k) for k outputs, flattened; (n, n') for one. NumPy, in the precision of the
        weights.

    Raises:
        ValueError: for weights that are not finite, and for a kernel that does not fit into memory.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(2, "linear"), np.ones((2, 3)))
        >>> ld.probes.ntk(model, np.eye(3)).round(3).tolist()[0]
        [0.667, 0.0, 0.0]
    """
    model, x = as_model(model), checked_inputs("x", x)
    x2 = None if x2 is None else checked_inputs("x2", x2)
    if x2 is not None and x2.shape[1:] != x.shape[1:]:
        raise ValueError(f"x2: got shape {x2.shape}; allowed are inputs of shape {x.shape[1:]}")
    try:
        found = known(model, "kernel", model.kernel(x, x2))
    except ValueError as error:  # one line, without the note that JAX adds
        raise ValueError(*error.args) from None
    return found[:, 0, :, 0] if found.shape[1] == 1 else found


def kernel_operator(model: Any, x: Given | Iterable[Given]) -> LinearOperator:
    """Multiplies by the tangent kernel without holding it.

    A product is one backward and one forward pass over x, which goes through the network in
    batches, and holds one vector of weights.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …); or batches of them: a list or any other iterable that begins anew each
            time, which is gone through twice a product. A generator is gone through once, and its
            batches are kept.

    Returns:
        A `scipy.sparse.linalg.LinearOperator`, (n·k, n·k), rows ordered by example, then output.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(2, "linear"), np.ones((2, 3)))
        >>> K = ld.probes.kernel_operator(model, [np.eye(3), np.eye(3)])
        >>> K.shape, (K @ np.ones(6)).round(3).tolist()[:2]
        ((6, 6), [1.333, 1.333])
    """
    model, batches = as_model(model).placed(), _batches(x)
    each, sizes = 0, []
    for batch in batches:
        each = each or model.outputs_each(batch)
        sizes.append(len(batch))
    if not sizes:
        raise ValueError("x: got no batches; allowed is at least one")
    cuts = np.cumsum(sizes)[:-1] * each

    def product(u: np.ndarray) -> np.ndarray:
        parts = np.split(np.ravel(u).astype(model.dtype), cuts)
        pulled = np.zeros(model.size, model.dtype)
        for batch, part in zip(batches, parts, strict=True):
            pulled += model.vjp(batch, part.reshape(len(batch), -1))
        pulled = known(model, "kernel", pulled)
        return np.concatenate([model.jvp(batch, pulled).ravel() for batch in batches])

    size = sum(sizes) * each
    operator: Any = LinearOperator  # its signature is not the one that SciPy documents
    return operator((size, size), matvec=product, rmatvec=product, dtype=model.dtype)


def ntk_spectrum(
    model: Any, x: Given | Iterable[Given], k: int | None = None, *, tolerance: Number = 0.0
) -> Array:
    """The largest eigenvalues of the tangent kernel, descending.

    A kernel of up to 2048 rows, or all of whose eigenvalues are asked for, is held; of a larger
    one products are taken (`kernel_operator`), by ARPACK's Lanczos.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …), or batches as for `kernel_operator`.
        k: how many; None for all.
        tolerance: relative, of eigenvalues by Lanczos; 0 is machine precision.

    Returns:
        The eigenvalues, (k,).
    """
    model, tolerance = as_model(model), non_negative("tolerance", tolerance)
    if is_traced(model) or (_is_array(x) and is_traced(x)):
        values = dense.eigh(matrix_of(ntk(model, x)))[0][::-1]
        return values[: part_of("k", k, len(values), "eigenvalues")]
    x = x if _is_array(x) else _batches(x)
    operator = kernel_operator(model, x)
    size = operator.shape[0]
    k = part_of("k", k, size, "eigenvalues")
    if size <= DENSE or k == size:
        whole = x if _is_array(x) else np.concatenate([as_array("x", batch) for batch in x])
        return np.linalg.eigvalsh(matrix_of(ntk(model, whole)))[::-1][:k]
    return top_eigen(operator, k, float(tolerance))[0]


def kernel_drift(model: Any, x: Given, *, start: Any, norm: str = "frobenius") -> Array:
    """How far the tangent kernel has moved, ‖K − K_0‖/‖K_0‖.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        start: the model or module at the beginning, or its kernel K_0.
        norm: "frobenius" or "spectral".

    Returns:
        The ratio.
    """
    size = one_of("norm", norm, NORMS) and (_frobenius if norm == "frobenius" else _spectral)
    found = ntk(model, x)
    before = start if _is_array(start) else _first_kernel(start, x, is_traced(found))
    if np.shape(before) != found.shape:
        came = np.shape(before)
        raise ValueError(f"start: got a kernel of shape {came}; allowed is {found.shape}")
    return size(matrix_of(found - before)) / size(matrix_of(before))


def pl_constant(model: Any, x: Given) -> Array:
    """The constant μ = λ_min(K) of the PL* condition |∇L|² ≥ 2 μ L for L = ½ Σ (f − y)².

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).

    Returns:
        μ, up to the rounding of λ_max(K).
    """
    matrix = matrix_of(ntk(model, x))
    if isinstance(matrix, jax.core.Tracer):
        return dense.eigh(matrix)[0][0]
    return np.linalg.eigvalsh(matrix)[0]


def split_loss(
    model: Any, x: Given, y: Given, *, loss: AbstractLoss | None = None, s: int
) -> SplitLoss:
    """The loss in and outside the top s eigenspaces of the tangent kernel.

    With eigenvectors u_i of the kernel of all examples and outputs and the residual r, each of
    the two is scale/n · Σ ⟨r, u_i⟩², over i ≤ s and over the others.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels.
        loss: a `SquaredLoss`, the only one that is a sum over directions; None is
            `SquaredLoss(0.5)`.
        s: number of eigenvectors, up to n · outputs.

    Returns:
        Both parts; they add up to the loss.
    """
    given = instance("loss", loss_given(loss, None), SquaredLoss, "SquaredLoss(scale)")
    model, x = as_model(model), checked_inputs("x", x)
    y = checked_targets(y, len(x))
    traced, kernel = is_traced(model, x, y), matrix_of(ntk(model, x))
    s = part_of("s", s, len(kernel), "eigenvectors")
    residual = MeanLoss(given, y).gradient(model.outputs(x)).reshape(-1)  # 2 scale/n · r
    vectors = dense.eigh(kernel)[1] if traced else np.linalg.eigh(kernel)[1]
    along = (residual @ vectors[:, ::-1]) ** 2
    factor = len(x) / (4 * jnp.asarray(given.scale, along.dtype) if traced else 4 * given.scale)
    parts = [(factor * each.sum()).astype(along.dtype) for each in (along[:s], along[s:])]
    return SplitLoss(*parts)


def _first_kernel(start: Any, x: Given, traced: bool) -> Array:
    """The kernel of a model that is known also where the other one is traced."""
    if not traced:
        return ntk(start, x)
    with jax.ensure_compile_time_eval():
        return ntk(start, x)


def matrix_of(kernel: Array) -> Array:
    """The kernel as a symmetric matrix."""
    size = kernel.shape[0] * (kernel.shape[1] if kernel.ndim == 4 else 1)
    matrix = kernel.reshape(size, size)
    return (matrix + matrix.T) / 2


def _frobenius(matrix: Array) -> Array:
    return (matrix**2).sum() ** 0.5


def _spectral(matrix: Array) -> Array:
    if isinstance(matrix, jax.core.Tracer):
        return abs(dense.eigh(matrix)[0]).max()
    return abs(np.linalg.eigvalsh(matrix)).max()


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray | jax.Array) or hasattr(x, "detach")  # a tensor of PyTorch


def _is_iterable(x: Any) -> bool:
    try:
        return isinstance(x, Iterator) or iter(x) is not None
    except Exception:  # what only seems to be
        return False


def _batches(x: Any) -> Any:
    """Something to iterate over many times, of arrays."""
    if _is_array(x):
        x = checked_inputs("x", x)
        return [x[i : i + BATCH] for i in range(0, len(x), BATCH)]
    if isinstance(x, str | bytes | Mapping | Set) or not _is_iterable(x):
        raise ValueError(f"x: got {a_kind(x)}; allowed is an array, or batches of them")
    if isinstance(x, Iterator):
        x = list(x)
    if isinstance(x, list | tuple):
        return [checked_inputs("x", batch) for batch in x]
    return x
