"""What every network provides."""

import abc
from typing import Any

from learndyn.numerics.types import Array
from learndyn.numerics.values import Value

Weights = Any  # an array, or a tuple of arrays: the network says which


class AbstractNetwork(Value):
    """A function of parameters and inputs."""

    @abc.abstractmethod
    def __call__(self, weights: Weights, x: Array) -> Array:
        """The outputs for inputs x, whose last axis is the input dimension."""

    @abc.abstractmethod
    def steps_per_time(self, dim: int) -> int:
        """How many update steps make one unit of time, for inputs of dimension `dim`."""

    @property
    @abc.abstractmethod
    def time_unit(self) -> str:
        """The unit of time in words, as records carry it."""
