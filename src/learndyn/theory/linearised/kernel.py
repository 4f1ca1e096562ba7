"""The kernel of a linear model on a data set, and its eigenvectors.

A model f(w) = o + J w has outputs o at zero weights, and the kernel K = J Jᵀ. Rows are examples
times outputs: first those of the training set, then those of the other sets.
"""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.models import Model
from learndyn.networks import AbstractNetwork
from learndyn.problems import AbstractProblem
from learndyn.runtime.memory import memory
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array, Weights

MOST_ROWS = 16_000  # of a matrix whose eigenvalues are computed: LAPACK crashed for 17970
SHARE = 2  # kernel, eigenvectors and work space may take half of the memory
RANK = 10  # eigenvalues below this times rows times the rounding error of the largest are zero
STRAIGHT = 1e-9  # how far outputs may be from linear in the weights, relative to their size


class Sets(NamedTuple):
    """All examples on which losses are measured, in float64.

    Attributes:
        x: inputs of the training set, then of the others.
        places: prefix of the observables ("", "test_", …) → which of the examples.
        targets: prefix → targets or labels.
    """

    x: Array
    places: dict[str, slice]
    targets: dict[str, Array]

    @property
    def trained(self) -> int:
        """The number of examples that are trained on."""
        return self.places[""].stop

    @staticmethod
    def of(problem: AbstractProblem) -> "Sets":
        """The sets of a problem."""
        every = problem.measured_on((), jnp.float64)
        taken = {prefix: each.take(slice(None), jnp.float64) for prefix, each in every.items()}
        ends = np.cumsum([0, *(len(x) for x, _ in taken.values())])
        places = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        x = jnp.concatenate([x for x, _ in taken.values()])
        targets = {prefix: y for prefix, (_, y) in taken.items()}
        return Sets(x, dict(zip(taken, places, strict=True)), targets)


class Kernel(NamedTuple):
    """A linear model on the examples of a data set.

    Attributes:
        offset: outputs at zero weights, (examples, *output shape).
        matrix: the kernel of all examples with those of the training set, (rows, trained rows).
    """

    offset: np.ndarray
    matrix: np.ndarray

    @property
    def trained(self) -> np.ndarray:
        """The part of the training set, symmetric."""
        part = self.matrix[: self.matrix.shape[1]]
        return (part + part.T) / 2


class Spectrum(NamedTuple):
    """K = U diag(λ) Uᵀ on the training set. Eigenvalues of the size of rounding are zero.

    Attributes:
        values: λ, ascending, (modes,).
        vectors: U, as columns, (trained rows, modes).
        features: K' U of all examples, which is U diag(λ) on the training set, (rows, modes).
    """

    values: np.ndarray
    vectors: np.ndarray
    features: np.ndarray

    @property
    def rank(self) -> int:
        """The number of modes that learn."""
        return int(np.count_nonzero(self.values))


@functools.lru_cache(maxsize=1)
def kernel_of(problem: AbstractProblem, network: AbstractNetwork) -> Kernel:
    """The kernel, which is kept until another one is asked for."""
    with full_precision():
        sets = Sets.of(problem)
        model = expansion(network, problem.input_shape)
        offset = offset_of(model, sets.x)
        _check_straight(network, model, sets.x[:1], problem.input_shape)
        trained = sets.x[: sets.trained]
        parts = [model.kernel(trained)]
        if len(sets.x) > sets.trained:
            parts.append(model.kernel(sets.x[sets.trained :], trained))
    flat = [part.reshape(part.shape[0] * part.shape[1], -1) for part in parts]
    return Kernel(offset, np.concatenate(flat))


@functools.lru_cache(maxsize=1)
def spectrum_of(problem: AbstractProblem, network: AbstractNetwork) -> Spectrum:
    """The eigenvectors, which are kept until others are asked for."""
    kernel = kernel_of(problem, network)
    values, vectors = np.linalg.eigh(kernel.trained)
    least = RANK * len(values) * np.finfo(np.float64).eps * values[-1]
    values = np.where(values > max(least, 0), values, 0.0)
    others = kernel.matrix[len(values) :] @ vectors
    others[:, values == 0] = 0.0  # features of a vector without length
    return Spectrum(values, vectors, np.concatenate([vectors * values, others]))


def expansion(network: AbstractNetwork, input_shape: tuple[int, ...]) -> Model:
    """The model whose outputs, Jacobian and kernel at its weights are those of a linear one."""
    form = network.affine_form(input_shape)
    assert form is not None
    inner, centre = form
    return Model(inner, jax.tree.map(lambda w: np.asarray(w, np.float64), centre))


def offset_of(model: Model, x: Array) -> np.ndarray:
    """The outputs at zero weights of the linear model with this expansion, (examples, …)."""
    with full_precision():
        x, flat = np.asarray(x), ravel_pytree(model.weights)[0]
        outputs = np.asarray(model.outputs(x))
        return outputs - np.asarray(model.jvp(x, np.asarray(flat))).reshape(outputs.shape)


def too_large(problem: AbstractProblem, network: AbstractNetwork) -> str | None:
    """Why a kernel cannot be stored or diagonalised; None if it can."""
    with full_precision():
        sets = problem.measured_on((), jnp.float64)
    shape = network.output_shape(problem.input_shape, problem.input_dtype)
    outputs = int(np.prod(shape))
    count, trained = sum(len(each.x) for each in sets.values()), len(sets[""].x)
    columns, rows = trained * outputs, count * outputs
    size = f"{trained} examples × {outputs} outputs"
    if columns > MOST_ROWS:
        return f"the kernel of {size} has {columns} rows, of at most {MOST_ROWS}"
    needed, allowed = 8 * columns * (2 * rows + 2 * columns), memory() // SHARE
    if needed > allowed:
        return (
            f"the kernel of {size}, with {count - trained} examples to measure on, takes "
            f"{needed / 2**30:.3g} GiB, of at most {allowed / 2**30:.3g} GiB"
        )
    return None


def _check_straight(
    network: AbstractNetwork, model: Model, x: Array, input_shape: tuple[int, ...]
) -> None:
    """Raises a ValueError for a network that only says that it is linear in its weights."""
    weights: Weights = network.sample(np.random.default_rng(0), input_shape, None)
    weights = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64) + 1, weights)
    at = lambda scale: network(jax.tree.map(lambda w: scale * w, weights), x)
    zero, once, twice = (np.asarray(at(scale)) for scale in (0.0, 1.0, 2.0))
    bend, size = np.abs(twice - 2 * once + zero).max(), np.abs([zero, once, twice]).max()
    if not bend <= STRAIGHT * size:
        raise ValueError(
            f"network: got one that is said to be linear in its weights, whose outputs bend by "
            f"{bend:.2g} where they are {size:.2g}; allowed is such a network, or "
            "ld.linearise(model)"
        )


def as_matrix(values: Any) -> np.ndarray:
    """Outputs (examples, …) as one vector, rows of the kernel."""
    return np.asarray(values).reshape(-1)
