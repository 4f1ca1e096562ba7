"""What every network provides."""

import abc
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.numerics.types import Array
from learndyn.numerics.values import Value

Weights = Any  # an array, or a tuple of arrays: the network says which


class AbstractNetwork(Value):
    """A function of parameters and inputs.

    `outputs` is their number; None where the output is a scalar without an axis.
    """

    outputs: eqx.AbstractVar[int | None]

    @abc.abstractmethod
    def __call__(self, weights: Weights, x: Array) -> Array:
        """The outputs for inputs x, whose last axis is the input dimension."""

    @abc.abstractmethod
    def check_input(self, dim: int) -> None:
        """Raises a ValueError where inputs of dimension `dim` do not fit."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, dim: int, target: Array | None = None) -> Weights:
        """Weights from the network's initialisation, in float64.

        Args:
            rng: source of random numbers.
            dim: input dimension.
            target: the map to be learned, for initialisations that are aligned with it.

        Returns:
            The weights.
        """

    @abc.abstractmethod
    def steps_per_time(self, dim: int) -> int:
        """How many update steps make one unit of time, for inputs of dimension `dim`."""

    @property
    @abc.abstractmethod
    def time_unit(self) -> str:
        """The unit of time in words, as records carry it."""
