"""What every problem provides."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value

Sampler = Callable[[Source, tuple[int, ...]], tuple[Array, Array]]


class MapStatistics(NamedTuple):
    """What a linear map learns from: loss = loss_scale · tr[(w̄ − target) Σ (w̄ − target)ᵀ].

    Attributes:
        target: the best map, (outputs, inputs).
        root: Σ^½, (inputs, inputs), of the input correlations Σ.
    """

    target: Array
    root: Array


class AbstractProblem(Value):
    """Where examples come from and what they are called; loss_scale · |y − output|²."""

    loss_scale: eqx.AbstractVar[np.ndarray]

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The input dimension N."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int | None:
        """The number of outputs; None for a scalar."""

    @property
    @abc.abstractmethod
    def fixed_teacher(self) -> Weights | None:
        """The teacher's weights where the problem fixes them, else None."""

    @abc.abstractmethod
    def draw_teacher(self, rng: np.random.Generator) -> Weights:
        """The teacher's weights, drawn or given; an empty tuple where there is no teacher."""

    @abc.abstractmethod
    def sampler(self, teacher: Weights, dtype) -> Sampler:
        """Draws labelled examples of a given shape."""

    @abc.abstractmethod
    def noiseless(self) -> "AbstractProblem":
        """The same problem without label noise."""

    @abc.abstractmethod
    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        """Target and input correlations for a linear network, where they have a closed form."""

    def loss(self, network: AbstractNetwork, weights: Weights, x: Array, y: Array) -> Array:
        """The loss, summed over outputs, averaged over examples."""
        squared = (y - network(weights, x)) ** 2
        each = squared if network.outputs is None else jnp.sum(squared, axis=-1)
        return jnp.asarray(self.loss_scale).astype(x.dtype) * jnp.mean(each)
