"""The interface of networks."""

import abc
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.networks.closed_forms import GaussianGradients, UnitSum
from learndyn.networks.parts.dense_layers import DenseLayers
from learndyn.runtime.types import Array, Weights
from learndyn.runtime.values import Value

Shape = tuple[int | None, ...]  # None stands for any length


class AbstractNetwork(Value):
    """A function of weights, which are any pytree of arrays, and of a batch of inputs."""

    @abc.abstractmethod
    def __call__(self, weights: Weights, x: Array) -> Array:
        """The outputs (batch, *output shape) for inputs x, (batch, *input shape)."""

    @property
    @abc.abstractmethod
    def input_shape(self) -> Shape | None:
        """The shape of one input; None if the network does not state it."""

    @abc.abstractmethod
    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        """The shape of the output for one input of a given shape and type; () for a scalar."""

    @abc.abstractmethod
    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        """Weights from the network's initialisation.

        Args:
            rng: source of random numbers.
            input_shape: of one input.
            target: the linear map to be learned, for initialisations aligned with it.

        Returns:
            The weights, NumPy.
        """

    @property
    def accepts_single_example(self) -> bool:
        """Whether x may lack its batch axis, which is faster for steps of one example."""
        return False

    @property
    def gives_logits(self) -> bool:
        """Whether outputs are unbounded, as needed by a loss that applies a softmax itself."""
        return True

    @property
    def fixed_weights(self) -> Weights | None:
        """The weights, if the network itself states them, as some teachers do; else None."""
        return None

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        """The weights' shapes, a pytree of `jax.ShapeDtypeStruct`; None if they are not known."""
        # Only the shapes are used, so any seed will do. Initialisations are drawn in float64, and
        # converted to the precision of a run afterwards.
        drawn = self.sample(np.random.default_rng(0), input_shape, None)
        return jax.tree.map(lambda w: jax.ShapeDtypeStruct(np.shape(w), np.float64), drawn)

    def dim_of(self, weights: Weights) -> int:
        """The number of entries of an input, from the weights (also while tracing)."""
        shape = self.input_shape
        if shape is None or None in shape:
            name = type(self).__name__
            raise ValueError(
                f"input_shape: got {shape} of a {name}; allowed is a shape of integers"
            )
        return math.prod(n for n in shape if n is not None)

    @property
    def trained_parts(self) -> tuple[str, ...]:
        """What learns: "inputs", and for some networks "outputs" and "biases" at own rates."""
        return ("inputs",)

    def by_part(self, weights: Weights, inputs: Any, outputs: Any, biases: Any) -> Weights:
        """A number for every array of the weights: which of three depends on its part.

        Numbers of parts that do not learn are zero. By default all arrays are of the part "inputs".
        """
        return jax.tree.map(lambda leaf: inputs, weights)

    def rate_dim(self, weights: Weights) -> int:
        """N if decay, and the rates of outputs and biases, are per N; otherwise 1."""
        return 1

    @property
    def is_linear(self) -> bool:
        """Whether the network is a linear map of its inputs, without a bias."""
        return False

    @property
    def is_matrix_product(self) -> bool:
        """Whether weights are matrices (w_1, …, w_d), and the output is w_d ⋯ w_1 x."""
        return False

    def matrix_of(self, weights: Weights) -> Array | None:
        """The matrix A of output = A x, if the weights are this matrix; else None."""
        return None

    @property
    def unit_sum(self) -> UnitSum | None:
        """The network as a sum of hidden units with known Gaussian averages; None if it is none."""
        return None

    def affine_form(self, input_shape: tuple[int, ...]) -> "tuple[AbstractNetwork, Weights] | None":
        """A network and weights with the same outputs and Jacobian, if it is affine in its weights.

        None for networks that are not. The returned network may be another, cheaper to
        differentiate: for a linear twin it is the one that the twin expands.
        """
        return None

    def dense_layers(self, weights: Weights) -> DenseLayers | None:
        """The dense layers that the network applies one after the other; None if it has others."""
        return None

    @property
    def gaussian_gradients(self) -> GaussianGradients | None:
        """Averages of input gradients at `fixed_weights` over Gaussian inputs; None if unknown."""
        return None

    def check_student(self) -> None:
        """Raises a ValueError if the network cannot learn."""

    def check_teacher(self) -> None:
        """Raises a ValueError if the network cannot be a teacher."""

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        """Raises a ValueError if the network does not accept inputs of a shape."""
        allowed = self.input_shape
        if allowed is None:
            return
        fits = lambda n, length: length is None or n == length
        same = len(input_shape) == len(allowed) and all(map(fits, input_shape, allowed))
        if not same:
            shown = tuple("any" if n is None else n for n in allowed)
            raise ValueError(f"network: got inputs of shape {input_shape}; allowed is {shown}")

    def check_weights(
        self, weights: Weights, input_shape: tuple[int, ...], name: str = "weights"
    ) -> None:
        """Raises a ValueError, with `name` as the argument, if weights have other shapes."""
        like = self.like(input_shape)
        if like is None:
            return
        shapes = lambda tree: [tuple(np.shape(leaf)) for leaf in jax.tree.leaves(tree)]
        came, allowed = shapes(weights), shapes(like)
        if came != allowed:
            raise ValueError(f"{name}: got shapes {came}; allowed is {allowed}")


def check_learns(weights: Weights, name: str = "weights") -> None:
    """Raises a ValueError if running statistics, which are not trained, are among the weights."""
    is_state = lambda node: isinstance(node, eqx.nn.State | eqx.nn.StateIndex)
    # flax keeps parameters and statistics side by side in one dict.
    if isinstance(weights, Mapping) and {"params", "batch_stats"} <= {*weights}:
        raise ValueError(
            f"{name}: got 'batch_stats' beside 'params'; allowed are the params only, with the "
            "statistics inside `apply`"
        )
    for node in jax.tree.leaves(weights, is_leaf=is_state):
        if is_state(node) and jax.tree.leaves(node):  # an emptied state holds no statistics
            raise ValueError(
                f"{name}: got an equinox {type(node).__name__}, which is not trained; allowed are "
                "weights only, with the state inside `apply`, or as_model(module)"
            )
