"""The common part of rules that correct a gradient by the curvature of the outputs."""

import abc
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from learndyn.networks import AbstractNetwork
from learndyn.networks.solvable.matrix_product import product
from learndyn.problems import AbstractProblem, Examples, MapStatistics, SquaredLoss
from learndyn.rules.base import AbstractDeterministicRule, Velocity, check_counts_all
from learndyn.runtime.types import Array, Weights

MOST_ROWS = 16_000  # of a matrix whose eigenvalues are computed: LAPACK crashed for 17970
Apply = Callable[[Any, Array], Array]  # (weights, a batch of inputs) → outputs


class AbstractCurvatureRule(AbstractDeterministicRule):
    """A rule on all of a data set, or on the population for deep linear networks."""

    clip: eqx.AbstractVar[np.ndarray | None]

    @abc.abstractmethod
    def _along(self, apply: Apply, weights: Weights, x: Array, residual: Array) -> Weights:
        """The direction against which a step goes, for a batch x and ∂loss/∂output, (batch, …)."""

    @abc.abstractmethod
    def _along_maps(self, weights: Weights, drive: Array, root: Array) -> Weights:
        """The same for a product w̄ of matrices, with ∂loss/∂(w̄ R) and a covariance root R."""

    @property
    def _knows_maps(self) -> bool:
        return True

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        check_counts_all(self, problem)
        super().check_network(problem, network)

    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        """As in the base class, shortened where an update would be longer than `clip`."""
        unclipped = self._unclipped(problem, network, teacher)
        return lambda weights: self._clipped(unclipped(weights))

    def transformation(self, apply: Callable[[Any, Array], Array]) -> Any:
        """The rule as an optax transformation, for your own training loop.

        `update(gradients, state, params, inputs=x, output_gradient=r)` returns the rule's step for
        the mini-batch x, (batch, …), with r = ∂loss/∂output of every example, (batch, outputs).

        Args:
            apply: (params, one input) → outputs, (outputs,).

        Returns:
            An `optax.GradientTransformationExtraArgs`.
        """

        def update(updates, state, params=None, *, inputs, output_gradient, **extra):
            del updates, extra
            every = lambda params, x: jax.vmap(apply, in_axes=(None, 0))(params, x)
            direction = self._clipped(self._along(every, params, inputs, output_gradient))
            step = lambda d: -jnp.asarray(self.learning_rate).astype(d.dtype) * d
            return jax.tree.map(step, direction), state

        init: Any = lambda params: optax.EmptyState()
        return optax.GradientTransformationExtraArgs(init, cast(Any, update))

    def _unclipped(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        # For a product of matrices the statistics of the data are enough, however many examples.
        statistics = problem.map_statistics(teacher)
        if self._knows_maps and network.is_matrix_product and statistics is not None:
            return self._of_maps(problem, statistics)
        every = problem.examples()
        if every is not None:
            return self._of_outputs(problem, network, every)
        raise ValueError(
            f"rule: got {type(self).__name__} on fresh examples for this network and teacher; "
            "allowed are deep linear networks with a linear teacher, or a Dataset"
        )

    def _of_maps(self, problem: AbstractProblem, statistics: MapStatistics) -> Velocity:
        target, root = statistics
        assert isinstance(problem.loss, SquaredLoss)
        scale = 2 * problem.loss.scale

        def velocity(weights: Weights) -> Weights:
            drive = scale * (product(weights) - target) @ root
            return jax.tree.map(jnp.negative, self._along_maps(weights, drive, root))

        return velocity

    def _of_outputs(
        self, problem: AbstractProblem, network: AbstractNetwork, every: Examples
    ) -> Velocity:
        def velocity(weights: Weights) -> Weights:
            x, y = every.take(slice(None), jax.tree.leaves(weights)[0].dtype)
            output = network(weights, x)
            axes = output.ndim - 1
            # The gradient of the sum gives every example its own ∂loss/∂output, without 1/n.
            residual = jax.grad(lambda o: jnp.sum(problem.loss.each(o, y, axes)))(output)
            return jax.tree.map(jnp.negative, self._along(network, weights, x, residual))

        return velocity

    def _clipped(self, change: Weights) -> Weights:
        if self.clip is None:
            return change
        size = jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree.leaves(change))) * self.learning_rate
        shrink = jnp.minimum(1.0, self.clip / jnp.maximum(size, 1e-300))  # an update may be zero
        return jax.tree.map(lambda v: shrink.astype(v.dtype) * v, change)

    def _check_rows(self, rows: int, allowed: str) -> None:
        """Raises a ValueError for a matrix that is too large for its eigenvalues to be computed."""
        if rows > MOST_ROWS:
            came = f"rule: got {type(self).__name__} with a matrix of {rows} rows"
            raise ValueError(f"{came}; allowed are at most {MOST_ROWS} {allowed}")
