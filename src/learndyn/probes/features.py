"""On which directions of the inputs a function depends: outer products of its gradients."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.models import as_model
from learndyn.models.inputs import Inputs, shapes_of
from learndyn.models.module import is_module
from learndyn.networks import AbstractNetwork
from learndyn.probes.arguments import (
    as_array,
    checked_inputs,
    is_traced,
    known,
    output_shape,
    untraced,
)
from learndyn.probes.batches import inputs_of_each, is_batches, repeatable
from learndyn.problems import Gaussian, Isotropic, Spectrum
from learndyn.runtime.checks import a_kind, flag, instance, positive_int, seed
from learndyn.runtime.memory import memory
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.progress import check_progress, reporting
from learndyn.runtime.types import Array

SHARE = 4  # a matrix may take one SHARE-th of the memory
CHUNK = 1024  # number of draws that are evaluated together


@dataclasses.dataclass(frozen=True)
class Egop:
    """E[∇f ∇fᵀ]; `numpy.asarray` gives the matrix.

    Attributes:
        value: (dim, dim).
        error: standard error of every entry; 0 if it is exact.
        convention: how the mean was computed, in words.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> found = ld.probes.egop(ld.Polynomial([(1.0, {0: 1, 1: 1})], dim=2), ld.Isotropic(2))
        >>> np.asarray(found).tolist(), float(np.max(found.error))
        ([[1.0, 0.0], [0.0, 1.0]], 0.0)
    """

    value: np.ndarray
    error: np.ndarray
    convention: str

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype)


def agop(model: Any, x: Any, *, factor: bool = False, progress: Any = False) -> Array:
    """The average gradient outer product (1/n) Σ_i Σ_a ∇f_a(x_i) ∇f_a(x_i)ᵀ, ∇ = ∂/∂input.

    Eq. 4.5 of zhu2024catapults, summed over outputs a.

    Args:
        model: a `Model`, a module, or a JAX function of one example.
        x: inputs, (n, …), flattened to d numbers each, or batches of inputs: a DataLoader (targets
            are left out), another iterable, or a function that returns one.
        factor: whether to return the factor F with FᵀF = AGOP instead, for large d.
        progress: whether to show progress over batches, or a function of the fraction done.

    Returns:
        (d, d), or (n·k, d) for k outputs.

    Raises:
        ValueError: for a model and inputs that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> ld.probes.agop(lambda x: x[0] * x[1], np.array([[1.0, 2.0]])).tolist()
        [[4.0, 2.0], [2.0, 1.0]]
    """
    flag("factor", factor)
    check_progress(progress)
    if is_batches(x):
        return _of_batches(model, repeatable(x), factor, progress)
    rows = _rows(model, checked_inputs("x", x), factor)
    return rows if factor else rows.T @ rows


def _rows(model: Any, x: Any, factor: bool, count: int | None = None) -> Array:
    """The gradients of all outputs, each divided by the root of the number of examples."""
    x = by_itself(x)
    d, size = x[0].size, np.dtype(np.float64).itemsize
    if not factor and d**2 * size > memory() // SHARE:
        gib = d**2 * size / 2**30
        raise ValueError(
            f"x: got {d} inputs, a matrix of {gib:.3g} GiB; allowed here is factor=True"
        )
    return slopes(model, x).reshape(-1, d) / (len(x) if count is None else count) ** 0.5


def _of_batches(model: Any, source: Any, factor: bool, progress: Any) -> Array:
    sizes = [len(x) for x in inputs_of_each(source)]
    if not sizes:
        raise ValueError("x: got no batches; allowed is at least one")
    rows, total, dtype = [], 0.0, None
    with reporting(progress, "AGOP") as report:
        for i, x in enumerate(inputs_of_each(source)):
            part = _rows(model, x, factor, sum(sizes))
            report(min(1.0, (i + 1) / len(sizes)))
            rows.append(part) if factor else None
            dtype, wide = part.dtype, part.astype(np.float64)  # sums of many batches
            total = total + (0.0 if factor else wide.T @ wide)
    return np.concatenate(rows) if factor else np.asarray(total, dtype)


def egop(function: Any, inputs: Any = None, *, draws: int = 10_000, key: int = 0) -> Egop:
    """The expected gradient outer product E[∇f ∇fᵀ] over Gaussian inputs, summed over outputs.

    It is exact for a `Polynomial`, by Wick's theorem, and a mean over draws for other functions.

    Args:
        function: a `Polynomial`, a `Model`, a module, or a JAX function of one example.
        inputs: a `Gaussian` or its spectrum; for a `Polynomial`, None is the standard normal
            distribution.
        draws: number of inputs drawn if it is not exact, at least 2.
        key: seed of the draws.

    Returns:
        The matrix and its standard errors.

    Raises:
        ValueError: for a function or inputs that it does not take.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> product = ld.probes.egop(ld.Polynomial([(1.0, {0: 2, 1: 1})], dim=2))
        >>> product.value.tolist()
        [[4.0, 0.0], [0.0, 3.0]]
    """
    exact = function.gaussian_gradients if isinstance(function, AbstractNetwork) else None
    if inputs is None and exact is not None:
        inputs = Isotropic(exact.dim)
    inputs = Gaussian(inputs) if isinstance(inputs, Spectrum) else inputs
    if not (is_module(function) or callable(function)):
        allowed = "a Polynomial, a model or a JAX function of one example"
        raise ValueError(f"function: got {a_kind(function)}; allowed is {allowed}")
    gaussian: Gaussian = instance("inputs", inputs, Gaussian, "a spectrum or a Gaussian")
    seed("key", key)
    draws = positive_int("draws", draws)
    if draws < 2:
        raise ValueError(f"draws: got {draws}; allowed is 2 or more")
    if exact is not None:
        if gaussian.dim != exact.dim:
            came = f"{gaussian.dim} dimensions for a function of {exact.dim} inputs"
            raise ValueError(f"inputs: got {came}; allowed is the same number")
        value = exact.mean_product(lambda at: _covariance(gaussian, at))
        return Egop(value, np.zeros_like(value), "exact, by Wick's theorem")
    return _drawn(function, gaussian, draws, np.random.default_rng(key))


def alignment(A: Any, B: Any, *, factors: bool = False) -> Any:
    """The cosine similarity tr[AᵀB]/(‖A‖ ‖B‖) of two matrices (Eq. 4.6 of zhu2024catapults).

    Args:
        A: a matrix, for example from `agop` or `egop`.
        B: a matrix of the same shape.
        factors: whether A and B are factors F of matrices FᵀF, with any number of rows.

    Returns:
        The cosine.

    Raises:
        ValueError: for shapes that do not fit, and for a matrix of zeros.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> round(float(ld.probes.alignment(np.eye(2), np.diag([1.0, 0.0]))), 4)
        0.7071
    """
    flag("factors", factors)
    A, B = as_array("A", A), as_array("B", B)
    same = A.shape[-1:] == B.shape[-1:] if factors else A.shape == B.shape
    if A.ndim != 2 or B.ndim != 2 or not same:
        allowed = "two factors (…, d)" if factors else "two matrices of one shape"
        raise ValueError(f"B: got shape {B.shape} beside {A.shape}; allowed are {allowed}")
    inner = (lambda F, G: ((F @ G.T) ** 2).sum()) if factors else (lambda F, G: (F * G).sum())
    sizes = inner(A, A), inner(B, B)
    for name, size in zip("AB", sizes, strict=True):
        if not is_traced(size) and size == 0:
            raise ValueError(f"{name}: got only zeros; allowed is a nonzero matrix")
    return inner(A, B) / (sizes[0] * sizes[1]) ** 0.5


def neural_feature_matrix(model: Any, layer: int = 1) -> Array:
    """W_lᵀ W_l of a dense layer, to compare with the AGOP by the layer's inputs.

    Args:
        model: a chain of dense layers: `DeepLinear`, `MLP`, `eqx.nn.MLP`, `torch.nn.Sequential`.
        layer: l, counted from 1.

    Returns:
        (inputs of the layer, inputs of the layer).

    Raises:
        ValueError: for a model that is not a chain of dense layers, and for an unknown layer.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.DeepLinear([2, 1])
        >>> model = ld.Model(network, (np.array([[1.0, 2.0]]),))
        >>> ld.probes.neural_feature_matrix(model).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """
    layers = as_model(model).dense_layers().layers
    if positive_int("layer", layer) > len(layers):
        raise ValueError(f"layer: got {layer}; allowed is 1 to {len(layers)}")
    weight = layers[layer - 1].weight
    return untraced(weight.T @ weight)


def effective_rank(matrix: Array) -> Any:
    """tr[A]²/tr[A²] of a symmetric matrix: 1 for rank one, d for a multiple of the identity.

    Args:
        matrix: A, (d, d), such as an AGOP.

    Returns:
        The number.

    Raises:
        ValueError: for a matrix that is not square, or has only zeros.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> float(ld.probes.effective_rank(np.eye(3)))
        3.0
    """
    matrix = as_array("matrix", matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"matrix: got shape {matrix.shape}; allowed is (d, d)")
    if not is_traced(matrix) and not np.any(matrix):
        raise ValueError("matrix: got only zeros; allowed is a nonzero matrix")
    return matrix.trace() ** 2 / (matrix**2).sum()


def by_itself(x: Any) -> Array:
    """The only array of inputs, or a one-line error."""
    if isinstance(x, Inputs):
        raise ValueError(f"x: got arrays of {shapes_of(x)}; allowed is one array of floats")
    return x


def slopes(model: Any, x: Array) -> Array:
    """∂f_a/∂x for every example, (n, k, *input), of a model or of a plain function."""
    if not np.issubdtype(x.dtype, np.floating):
        raise ValueError(f"x: got {x.dtype}; allowed are floats, which can be differentiated")
    if not is_module(model) and callable(model):
        return _of_function(model, x)
    model = as_model(model)
    output_shape(model, x)
    return known(model, "gradients", model.input_gradients(x))


def _of_function(function: Callable[[Array], Array], x: Array) -> Array:
    try:
        return _differentiated(function, x)
    except TypeError as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"function: got one that JAX cannot differentiate ({why}); allowed is a differentiable "
            "JAX function of one example that returns one array"
        ) from None


@compiled_in_float64
def _differentiated(function: Callable[[Array], Array], x: Array) -> Array:
    jacobian = jax.vmap(jax.jacrev(function))(x)
    if not eqx.is_array(jacobian):
        raise TypeError(f"it returns a {type(jacobian).__name__}")
    return jacobian.reshape(len(x), -1, *x.shape[1:])


def _covariance(inputs: Gaussian, at: list[int]) -> np.ndarray:
    """The covariance of some of the inputs."""
    variances = _variances(inputs)
    if inputs.frame is None:
        return np.diag(variances[at])
    rows = inputs.frame[at]
    return rows * variances @ rows.T


def _variances(inputs: Gaussian) -> np.ndarray:
    return np.repeat(inputs.spectrum.values, inputs.spectrum.counts)


def _drawn(function: Any, inputs: Gaussian, draws: int, rng: np.random.Generator) -> Egop:
    d, scales = inputs.dim, np.sqrt(_variances(inputs))
    # Sums of the products and of their squares, for means and standard errors in one pass.
    total, squares = np.zeros((2, d, d))
    for first in range(0, draws, CHUNK):
        normal = rng.standard_normal((min(CHUNK, draws - first), d))
        x = inputs.from_eigenbasis(scales * normal)
        rows = np.asarray(slopes(function, x), np.float64)
        total += np.einsum("nai,naj->ij", rows, rows, optimize=True)
        # (Σ_a g_ai g_aj)² = Σ_ab (g_ai g_bi)(g_aj g_bj)
        pairs = (rows[:, :, None] * rows[:, None]).reshape(-1, d)
        squares += pairs.T @ pairs
    mean = total / draws
    variance = np.maximum(squares / draws - mean**2, 0) / (draws - 1)
    return Egop(mean, np.sqrt(variance), f"mean over {draws} draws")
