"""What every problem provides."""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.numerics.checks import a_kind
from learndyn.numerics.random import HELD_OUT_KEY, Source, key_of_run
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.problems.examples import Examples
from learndyn.problems.losses import AbstractLoss

Sampler = Callable[[Source, tuple[int, ...]], tuple[Array, Array]]
Loss = Callable[[Weights], Array]
HELD_OUT = 4096  # fresh examples on which a network without a theory is measured


class MapStatistics(NamedTuple):
    """What a linear map learns from: loss = scale · tr[(w̄ − target) Σ (w̄ − target)ᵀ].

    Attributes:
        target: the best map, (outputs, inputs).
        root: Σ^½, (inputs, inputs), of the input correlations Σ.
    """

    target: Array
    root: Array


class AbstractProblem(Value):
    """Where examples come from, what they are called, and the loss.

    A problem of one's own states `input_shape`, `loss` and `sampler`. The other methods are
    what only some problems can say: a rule, a theory or an engine asks for it, and None means
    that the problem does not know.
    """

    loss: eqx.AbstractVar[AbstractLoss]

    @property
    @abc.abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @abc.abstractmethod
    def sampler(self, teacher: Weights, dtype) -> Sampler:
        """Draws labelled examples (x, y), as a function of (source, shape of the batch)."""

    @property
    def drawn(self) -> Callable[[Source, tuple[int, ...]], Array] | None:
        """Which of its examples the sampler draws, where it draws from finitely many."""
        return None

    @property
    def input_dtype(self) -> Any:
        """The type in which a network gets inputs: of floats, or of integers that stay so."""
        return np.float32

    @property
    def dim(self) -> int:
        """The number N of entries of an input."""
        return math.prod(self.input_shape)

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """The shape of a target; None where the network's output may have any."""
        return None

    def check_network(self, network: AbstractNetwork) -> None:
        """Raises a ValueError where a network's inputs or outputs do not fit."""
        network.check_input(self.input_shape)
        self.loss.check_network(network)
        allowed = self.output_shape
        found = network.output_shape(self.input_shape, self.input_dtype)
        if allowed is not None and math.prod(found) != math.prod(allowed):
            came = f"{math.prod(found)} outputs" if found else "one scalar output"
            said = f"{math.prod(allowed)}" if allowed else "one scalar"
            raise ValueError(f"network: got {came}; allowed here is {said}")

    @property
    def fixed_teacher(self) -> Weights | None:
        """The teacher's weights where the problem fixes them, () where it has no teacher."""
        return ()

    def draw_teacher(self, rng: np.random.Generator) -> Weights:
        """The teacher's weights, drawn or given; an empty tuple where there is no teacher."""
        return self.fixed_teacher

    def check_teacher(self, teacher: Weights) -> None:
        """Raises a ValueError where the teacher's weights are not what the problem has."""
        if self.fixed_teacher == () and jax.tree.leaves(teacher):
            came = a_kind(self)
            raise ValueError(
                f"teacher: got weights for {came}, which has no teacher; allowed is None"
            )

    @property
    def input_axes(self) -> int:
        """The number of axes of one input, which is known also while tracing."""
        return len(self.input_shape)

    def losses(self, output: Array, x: Array, y: Array) -> Array:
        """The loss of every example x, whose leading axes may be any number."""
        return self.loss.each(output, y, self._output_axes(output, x))

    def mean_loss(self, network: AbstractNetwork, weights: Weights, x: Array, y: Array) -> Array:
        """The loss, averaged over examples x, whose leading axes may be any number."""
        output = network(weights, x)
        return self.loss(output, y, self._output_axes(output, x))

    def _output_axes(self, output: Array, x: Array) -> int:
        return output.ndim - (x.ndim - self.input_axes)

    def examples(self) -> Examples | None:
        """All examples, where they are finitely many."""
        return None

    def measured_on(self, teacher: Weights, dtype) -> Mapping[str, Examples]:
        """Examples to measure on, by the prefix of the observables: "", "test_", …."""
        teacher = jax.tree.map(jnp.asarray, teacher)
        source = Source(key_of_run(HELD_OUT_KEY, 0), jnp.asarray(0))
        x, y = self._measured(teacher, dtype)(source, (HELD_OUT,))
        return {"": Examples(x, y, f"{HELD_OUT} held-out examples{self._measured_how}")}

    def _measured(self, teacher: Weights, dtype) -> Sampler:
        """Draws the examples to measure on."""
        return self.sampler(teacher, dtype)

    @property
    def _measured_how(self) -> str:
        return ""

    def population_loss(self, network: AbstractNetwork, teacher: Weights) -> Loss | None:
        """The mean loss over all there is, without label noise, where it has a closed form."""
        return None

    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        """Target and input correlations for a linear network, where they have a closed form."""
        return None
