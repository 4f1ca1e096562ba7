"""The tangent kernel K = J Jᵀ, J = ∂outputs/∂weights, and quantities that follow from it."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Set
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator

from learndyn.models import as_model
from learndyn.models.inputs import Inputs, joined, shapes_of
from learndyn.numerics import dense
from learndyn.numerics.lanczos import top_eigen
from learndyn.probes.arguments import (
    ArrayLike,
    LossLike,
    MeanLoss,
    as_array,
    checked_inputs,
    is_traced,
    known,
    labelled,
    output_shape,
    part_of,
)
from learndyn.probes.batches import inputs_of_each, repeatable
from learndyn.problems import SquaredLoss
from learndyn.problems.losses import loss_given
from learndyn.runtime.checks import a_kind, instance, non_negative, one_of
from learndyn.runtime.types import Array, Number
from learndyn.tangent.kernel import as_matrix

BATCH = 1024  # number of examples that the operator evaluates together
DENSE = 2048  # number of rows up to which a kernel is stored as a matrix
NORMS = ("frobenius", "spectral")


class SplitLoss(NamedTuple):
    """The loss in two parts, which add up to the loss.

    Attributes:
        top: inside the top eigenspaces of the kernel.
        rest: outside of these eigenspaces.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> split = ld.probes.split_loss(model, x, y, s=1)
        >>> float(split.top), float(split.rest)
        (16.0, 1.0)
    """

    top: Array
    rest: Array


def ntk(model: Any, x: ArrayLike, x2: ArrayLike | None = None) -> Array:
    """The tangent kernel ⟨∂f_a(x_i)/∂w, ∂f_b(x'_j)/∂w⟩.

    For dense layers and convolutions it is computed from the layer's inputs and node gradients,
    with one backward pass per output; for other weights from rows of the Jacobian, in blocks of
    `tangent.kernel.block_of` numbers. Each example's outputs must depend on its own input only.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        x2: the second set of inputs, (n', …); None for the same as x.

    Returns:
        (n, k, n', k) for k (flattened) outputs, and (n, n') for one output; NumPy, in the precision
        of the weights.

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
    if x2 is not None and _each(x2) != _each(x):
        raise ValueError(f"x2: got {shapes_of(x2)}; allowed are inputs like x, of {shapes_of(x)}")
    output_shape(model, x)
    try:
        kernel = known(model, "kernel", model.kernel(x, x2))
    except ValueError as error:  # raised again without the lines that JAX adds
        raise ValueError(*error.args) from None
    return kernel[:, 0, :, 0] if kernel.shape[1] == 1 else kernel


def kernel_operator(model: Any, x: ArrayLike | Iterable[ArrayLike]) -> LinearOperator:
    """The tangent kernel as a linear operator, without storing the matrix.

    A product takes one backward and one forward pass over x, in batches, and memory for one vector
    of weights.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of inputs: a list, a DataLoader (targets are left out), any
            iterable that can be iterated repeatedly (twice per product), or a function that returns
            one. The batches of a generator are kept in memory.

    Returns:
        A `scipy.sparse.linalg.LinearOperator`, (n·k, n·k), rows ordered by example, then output.

    Raises:
        ValueError: for a model and inputs that do not fit together.

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
        each = each or math.prod(output_shape(model, batch))
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
    operator: Any = LinearOperator  # the type stubs do not have the signature that SciPy documents
    return operator((size, size), matvec=product, rmatvec=product, dtype=model.dtype)


def ntk_spectrum(
    model: Any,
    x: ArrayLike | Iterable[ArrayLike],
    k: int | None = None,
    *,
    tolerance: Number = 0.0,
) -> Array:
    """The largest eigenvalues of the tangent kernel, descending.

    A kernel of up to 2048 rows is stored, and also a larger one if k is None. Otherwise Lanczos
    iteration uses products with the kernel (`kernel_operator`).

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches as for `kernel_operator`.
        k: number of eigenvalues; None for all.
        tolerance: relative tolerance of Lanczos eigenvalues; 0 is machine precision.

    Returns:
        The eigenvalues, (k,).

    Raises:
        ValueError: for a model and inputs that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> ld.ntk_spectrum(model, np.eye(4), k=2).round(6).tolist()
        [0.25, 0.25]
    """
    model, tolerance, x = as_model(model), non_negative("tolerance", tolerance), joined(x)
    if is_traced(model) or (_is_array(x) and is_traced(x)):
        values = dense.eigh(as_matrix(ntk(model, x)))[0][::-1]
        return values[: part_of("k", k, len(values), "eigenvalues")]
    x = x if _is_array(x) else _batches(x)
    operator = kernel_operator(model, x)
    size = operator.shape[0]
    k = part_of("k", k, size, "eigenvalues")
    if size <= DENSE or k == size:
        whole = x if _is_array(x) else np.concatenate([as_array("x", batch) for batch in x])
        return np.linalg.eigvalsh(as_matrix(ntk(model, whole)))[::-1][:k]
    return top_eigen(operator, k, float(tolerance))[0]


def kernel_drift(model: Any, x: ArrayLike, *, start: Any, norm: str = "frobenius") -> Array:
    """The relative change of the tangent kernel, ‖K − K_0‖/‖K_0‖.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        start: the initial model or module, or its kernel K_0.
        norm: "frobenius" or "spectral".

    Returns:
        The ratio.

    Raises:
        ValueError: for a model and inputs that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> float(ld.probes.kernel_drift(model, np.eye(4), start=ld.ntk(model, np.eye(4))))
        0.0
    """
    size = one_of("norm", norm, NORMS) and (_frobenius if norm == "frobenius" else _spectral)
    kernel = ntk(model, x)
    before = start if _is_array(start) else _first_kernel(start, x, is_traced(kernel))
    if np.shape(before) != kernel.shape:
        came = np.shape(before)
        raise ValueError(f"start: got a kernel of shape {came}; allowed is {kernel.shape}")
    return size(as_matrix(kernel - before)) / size(as_matrix(before))


def pl_constant(model: Any, x: ArrayLike) -> Array:
    """The constant μ = λ_min(K) of the PL* condition |∇L|² ≥ 2 μ L for L = ½ Σ (f − y)².

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).

    Returns:
        μ, up to a rounding error of the order of λ_max(K).

    Raises:
        ValueError: for a model and inputs that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> round(float(ld.probes.pl_constant(model, np.eye(4))), 6)
        0.25
    """
    matrix = as_matrix(ntk(model, x))
    if isinstance(matrix, jax.core.Tracer):
        return dense.eigh(matrix)[0][0]
    return np.linalg.eigvalsh(matrix)[0]


def split_loss(
    model: Any, x: ArrayLike, y: ArrayLike, *, loss: LossLike = None, s: int
) -> SplitLoss:
    """The loss inside and outside the top s eigenspaces of the tangent kernel.

    With the eigenvectors u_i of the kernel and the residual r of all examples and outputs, the two
    parts are scale/n · Σ ⟨r, u_i⟩², over i ≤ s and over i > s.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        y: targets or labels.
        loss: a `SquaredLoss`, since no other loss is a sum over directions; None is
            `SquaredLoss(0.5)`.
        s: number of eigenvectors, up to n · outputs.

    Returns:
        Both parts, which add up to the loss.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together, and for a loss that is
            not a `SquaredLoss`.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> x = np.diag([2.0, 1.0, 1.0, 1.0])
        >>> parts = ld.probes.split_loss(model, x, np.zeros(4), s=1)
        >>> float(parts.top.round(4)), float(parts.rest.round(4))
        (0.125, 0.0938)
    """
    squared = instance("loss", loss_given(loss, None), SquaredLoss, "SquaredLoss(scale)")
    model, x, y, _ = labelled(model, x, y, squared)
    traced, kernel = is_traced(model, x, y), as_matrix(ntk(model, x))
    s = part_of("s", s, len(kernel), "eigenvectors")
    residual = MeanLoss(squared, y).gradient(model.outputs(x)).reshape(-1)  # 2 scale/n · r
    vectors = dense.eigh(kernel)[1] if traced else np.linalg.eigh(kernel)[1]
    along = (residual @ vectors[:, ::-1]) ** 2
    factor = len(x) / (4 * jnp.asarray(squared.scale, along.dtype) if traced else 4 * squared.scale)
    parts = [(factor * each.sum()).astype(along.dtype) for each in (along[:s], along[s:])]
    return SplitLoss(*parts)


def _first_kernel(start: Any, x: ArrayLike, traced: bool) -> Array:
    """The initial kernel, computed outside of any trace of the present model."""
    if not traced:
        return ntk(start, x)
    # Otherwise the same kernel would be computed again at every recorded time.
    with jax.ensure_compile_time_eval():
        return ntk(start, x)


def _frobenius(matrix: Array) -> Array:
    return (matrix**2).sum() ** 0.5


def _spectral(matrix: Array) -> Array:
    if isinstance(matrix, jax.core.Tracer):
        return abs(dense.eigh(matrix)[0]).max()
    return abs(np.linalg.eigvalsh(matrix)).max()


def _each(x: Any) -> Any:
    """The shapes of the inputs of one example."""
    return jax.tree.map(lambda array: np.shape(array)[1:], x)


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray | jax.Array | Inputs) or hasattr(x, "detach")  # a tensor


def _is_iterable(x: Any) -> bool:
    try:
        return isinstance(x, Iterator) or iter(x) is not None
    except Exception:  # objects whose __iter__ fails
        return False


def _batches(x: Any) -> Any:
    """Batches of inputs, as an iterable that can be iterated repeatedly."""
    x = joined(x)
    if _is_array(x):
        x = checked_inputs("x", x)
        return [x[i : i + BATCH] for i in range(0, len(x), BATCH)]
    if isinstance(x, str | bytes | Set) or not (callable(x) or _is_iterable(x)):
        raise ValueError(f"x: got {a_kind(x)}; allowed is an array, or an iterable of batches")
    source = repeatable(x)
    return list(inputs_of_each(source)) if isinstance(source, list | tuple) else _Each(source)


@dataclasses.dataclass(frozen=True)
class _Each:
    """The inputs of every batch of a source, at every iteration anew."""

    source: Any

    def __iter__(self) -> Iterator[Any]:
        return inputs_of_each(self.source)
