"""What every network provides."""

import abc
import math
from typing import Any

import jax
import numpy as np

from learndyn.numerics.types import Array
from learndyn.numerics.values import Value

Weights = Any  # a pytree of arrays: the network says which
Shape = tuple[int | None, ...]  # None stands for any length


class AbstractNetwork(Value):
    """A function of weights, which are any pytree of arrays, and of a batch of inputs."""

    @abc.abstractmethod
    def __call__(self, weights: Weights, x: Array) -> Array:
        """The outputs (batch, *output shape) for inputs x, (batch, *input shape)."""

    @property
    @abc.abstractmethod
    def input_shape(self) -> Shape | None:
        """The shape of one input; None where the network does not say."""

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
            target: the linear map to be learned, for initialisations that are aligned with it.

        Returns:
            The weights, NumPy.
        """

    @property
    def takes_one(self) -> bool:
        """Whether x may come without its batch axis, which one example a step is faster without."""
        return False

    @property
    def gives_logits(self) -> bool:
        """Whether outputs are unbounded, as a loss that has a softmax of its own expects."""
        return True

    @property
    def fixed_weights(self) -> Weights | None:
        """The weights where the network itself states them, as some teachers do; else None."""
        return None

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        """The weights' shapes, a pytree of `jax.ShapeDtypeStruct`; None where not known."""
        drawn = self.sample(np.random.default_rng(0), input_shape, None)
        return jax.tree.map(lambda w: jax.ShapeDtypeStruct(np.shape(w), np.float64), drawn)

    def dim_of(self, weights: Weights) -> int:
        """The number of entries of an input, as given weights fix it (also while tracing)."""
        shape = self.input_shape
        if shape is None or None in shape:
            name = type(self).__name__
            raise ValueError(
                f"input_shape: got {shape} of a {name}; allowed is a shape of integers"
            )
        return math.prod(n for n in shape if n is not None)

    @property
    def is_linear(self) -> bool:
        """Whether the network is a linear map of its inputs, without a bias."""
        return False

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        """Raises a ValueError where inputs of a shape do not fit."""
        allowed = self.input_shape
        if allowed is not None and not _fits(input_shape, allowed):
            shown = tuple("any" if n is None else n for n in allowed)
            raise ValueError(f"network: got inputs of shape {input_shape}; allowed is {shown}")

    def check_weights(
        self, weights: Weights, input_shape: tuple[int, ...], name: str = "weights"
    ) -> None:
        """Raises a ValueError where weights, so called, are not of this network's shapes."""
        like = self.like(input_shape)
        if like is None:
            return
        came, allowed = (_shapes(tree) for tree in (weights, like))
        if came != allowed:
            raise ValueError(f"{name}: got shapes {came}; allowed is {allowed}")


def _fits(shape: tuple[int, ...], allowed: Shape) -> bool:
    pairs = zip(shape, allowed, strict=False)
    return len(shape) == len(allowed) and all(b is None or a == b for a, b in pairs)


def _shapes(tree: Weights) -> list[tuple[int, ...]]:
    return [tuple(np.shape(leaf)) for leaf in jax.tree.leaves(tree)]
