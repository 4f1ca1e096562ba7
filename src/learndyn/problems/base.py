"""The interface of problems."""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork
from learndyn.numerics.random import HELD_OUT_KEY, Source, key_of_run
from learndyn.problems.examples import Examples
from learndyn.problems.losses import AbstractLoss
from learndyn.runtime.checks import a_kind
from learndyn.runtime.types import Array, Weights
from learndyn.runtime.values import Value

Sampler = Callable[[Source, tuple[int, ...]], tuple[Array, Array]]
Loss = Callable[[Weights], Array]
HELD_OUT = 4096  # number of fresh examples for measurements without a theory


class MapStatistics(NamedTuple):
    """The statistics that a linear map learns: loss = scale · tr[(w̄ − target) Σ (w̄ − target)ᵀ].

    Attributes:
        target: the optimal map, (outputs, inputs).
        root: Σ^½, (inputs, inputs), of the input correlations Σ.
    """

    target: Array
    root: Array


class AbstractProblem(Value):
    """Where examples and their labels come from, and the loss.

    Your own problem must define `input_shape`, `loss` and `sampler`. The other methods are optional
    capabilities that rules, theories and engines use; None means that the problem does not have
    them.
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
        """Indices of the examples that the sampler draws; None if there is no finite set."""
        return None

    @property
    def input_dtype(self) -> Any:
        """The type of a network's inputs: float32, or a type of integers."""
        return np.float32

    @property
    def dim(self) -> int:
        """The number N of entries of an input."""
        return math.prod(self.input_shape)

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """The shape of a target; None if the network's output may have any shape."""
        return None

    def check_network(self, network: AbstractNetwork) -> None:
        """Raises a ValueError if a network's inputs or outputs do not fit the problem."""
        network.check_input(self.input_shape)
        self.loss.check_network(network)
        allowed = self.output_shape
        shape = network.output_shape(self.input_shape, self.input_dtype)
        self.loss.check_outputs(shape)
        # Sizes are compared, not shapes: targets (n, 1) fit a network with one scalar output.
        if allowed is not None and math.prod(shape) != math.prod(allowed):
            came = f"{math.prod(shape)} outputs" if shape else "one scalar output"
            expected = f"{math.prod(allowed)}" if allowed else "one scalar"
            raise ValueError(f"network: got {came}; allowed here is {expected}")

    @property
    def teacher_network(self) -> AbstractNetwork | None:
        """The network that labels examples; None if there is no teacher."""
        return None

    @property
    def fixed_teacher(self) -> Weights | None:
        """The teacher's weights if they are fixed, None if they are drawn, () without a teacher."""
        return ()

    def draw_teacher(self, rng: np.random.Generator) -> Weights:
        """The teacher's weights, drawn or fixed; an empty tuple without a teacher."""
        return self.fixed_teacher

    @property
    def moves_teacher(self) -> bool:
        """Whether the teacher changes with every step."""
        return False

    def moved_teacher(self, teacher: Weights, source: Source) -> Weights:
        """The teacher's weights after a step, where it moves."""
        return teacher

    def check_teacher(self, teacher: Weights) -> None:
        """Raises a ValueError if weights do not fit the problem's teacher."""
        if self.fixed_teacher == () and jax.tree.leaves(teacher):
            came = a_kind(self)
            raise ValueError(
                f"teacher: got weights for {came}, which has no teacher; allowed is None"
            )

    @property
    def input_axes(self) -> int:
        """The number of axes of one input, which is known even while tracing."""
        return len(self.input_shape)

    def losses(self, output: Array, x: Array, y: Array) -> Array:
        """The loss of every example; x may have any number of leading axes."""
        return self.loss.each(output, y, self._output_axes(output, x))

    def mean_loss(self, network: AbstractNetwork, weights: Weights, x: Array, y: Array) -> Array:
        """The loss, averaged over examples; x may have any number of leading axes."""
        output = network(weights, x)
        return self.loss(output, y, self._output_axes(output, x))

    def _output_axes(self, output: Array, x: Array) -> int:
        return output.ndim - (x.ndim - self.input_axes)

    def examples(self) -> Examples | None:
        """All examples, if their number is finite; else None."""
        return None

    def measured_on(self, teacher: Weights, dtype) -> Mapping[str, Examples]:
        """Examples for measurements, by the prefix of the observables: "", "test_", …."""
        teacher = jax.tree.map(jnp.asarray, teacher)
        # Its own key: held-out examples are the same for all runs, and none of theirs.
        source = Source(key_of_run(HELD_OUT_KEY, 0), jnp.asarray(0))
        x, y = self._measured(teacher, dtype)(source, (HELD_OUT,))
        return {"": Examples(x, y, f"{HELD_OUT} held-out examples{self._measured_how}")}

    def _measured(self, teacher: Weights, dtype) -> Sampler:
        """Draws the examples for measurements."""
        return self.sampler(teacher, dtype)

    @property
    def _measured_how(self) -> str:
        return ""

    def population_loss(self, network: AbstractNetwork, teacher: Weights) -> Loss | None:
        """The mean loss over all examples, without label noise; None without a closed form."""
        return None

    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        """Target and input correlations for a linear network; None without a closed form."""
        return None
