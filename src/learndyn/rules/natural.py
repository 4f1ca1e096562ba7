"""Natural gradient and its fractional, layer-restricted and damped relatives.

With J the Jacobian of the outputs, r̂ = ∂loss/∂output and means over examples, g = mean Jᵀ r̂
and H = mean JᵀJ (no loss factor). The update is −η H^(−power) g. Where there are fewer maps or
outputs than weights it is made there, by the identity H^(−s) Jᵀ = Jᵀ (JJᵀ)^(−s).
"""

from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from learndyn.networks import AbstractNetwork, DeepLinear
from learndyn.networks.base import Weights
from learndyn.networks.gauss_newton import gauss_newton
from learndyn.networks.kernel import kernel
from learndyn.numerics.checks import non_negative, number, one_of, positive
from learndyn.numerics.matrix_product import FORMS, inverse_power, natural_direction, product
from learndyn.numerics.types import Array, Number
from learndyn.problems import AbstractProblem, Examples, MapStatistics, SquaredLoss
from learndyn.rules.base import AbstractDeterministicRule, Velocity

MOST_ROWS = 16_000  # of a matrix whose eigenvalues are taken: LAPACK crashed on one of 17970
Apply = Callable[[Any, Array], Array]  # (weights, a batch of inputs) → outputs


class NaturalGradient(AbstractDeterministicRule):
    """w ← w − η H^(−power) g in the pseudo-inverse sense; power = 1/q.

    power 0 is gradient descent, 1/2 is √NGD, 1 is the natural gradient.

    Args:
        learning_rate: η.
        power: between 0 and 1.
        blocks: whether layer i uses its own block of H and the rate η · d^(−power).
        damping: ε ≥ 0.
        damping_form: "paper" is Eq. 17 of curvature2020linear, (1+ε)(H+ε)⁻¹; "levenberg"
            drops the factor 1+ε.
        clip: the largest norm of one update, over all weights; None does not clip.

    On a `Dataset` a step makes the tangent kernel, whose side is examples × outputs, or H, whose
    side is the number of weights, whichever is smaller; and for power 1 its Cholesky factor.
    Another power, or a matrix without full rank and damping, takes its eigenvalues, which takes far
    longer. With `blocks` the Jacobian itself is made, and the kernel of each layer.
    """

    learning_rate: np.ndarray
    power: float = eqx.field(static=True)
    blocks: bool = eqx.field(static=True)
    damping: np.ndarray
    damping_form: str = eqx.field(static=True)
    clip: np.ndarray | None

    def __init__(
        self,
        learning_rate: Number,
        *,
        power: Number = 1.0,
        blocks: bool = False,
        damping: Number = 0.0,
        damping_form: str = "paper",
        clip: Number | None = None,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        allowed = "a number from 0 to 1 (power = 1/q with q ≥ 1)"
        self.power = float(number("power", power, allowed))
        if not 0 <= self.power <= 1:
            raise ValueError(f"power: got {power!r}; allowed is {allowed}")
        self.blocks = one_of("blocks", blocks, (False, True))
        self.damping = non_negative("damping", damping)
        self.damping_form = one_of("damping_form", damping_form, FORMS)
        self.clip = None if clip is None else positive("clip", clip)

    def velocity(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        """As long as `clip` allows an update at this learning rate to be."""
        found = self._unclipped(problem, network, teacher)
        return lambda weights: self._clipped(found(weights))

    def _unclipped(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
    ) -> Velocity:
        statistics = problem.map_statistics(teacher)
        if isinstance(network, DeepLinear) and statistics is not None:
            return self._of_maps(problem, statistics)
        every = problem.examples()
        if every is not None:
            return self._of_outputs(problem, network, every)
        raise ValueError(
            "rule: got NaturalGradient on fresh examples of a non-linear network; "
            "allowed are deep linear networks with a linear teacher, or a Dataset"
        )

    def _clipped(self, change: Weights) -> Weights:
        if self.clip is None:
            return change
        size = jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree.leaves(change))) * self.learning_rate
        shrink = jnp.minimum(1.0, self.clip / jnp.maximum(size, 1e-300))
        return jax.tree.map(lambda v: shrink.astype(v.dtype) * v, change)

    def direction(self, jacobian: Weights, residual: Array) -> Weights:
        """H^(−power) g from per-example Jacobians and ∂loss/∂output.

        Args:
            jacobian: the weights' pytree, leaves (examples, outputs, *weight).
            residual: ∂loss/∂output, (examples, outputs).

        Returns:
            The direction, in the shape of the weights.
        """
        if not self.blocks:
            return self._solved(jacobian, residual, 1)
        leaves, structure = jax.tree.flatten(jacobian)
        solved = [self._solved(leaf, residual, len(leaves)) for leaf in leaves]
        return jax.tree.unflatten(structure, solved)

    def transformation(self, apply: Callable[[Any, Array], Array]) -> Any:
        """The rule as an optax transformation for any network.

        `update(gradients, state, params, inputs=x, output_gradient=r)` returns
        −η H^(−power) g for the mini-batch x, (batch, …), with r = ∂loss/∂output of every
        example, (batch, outputs); the kernel has batch · outputs rows.

        Args:
            apply: (params, one input) → outputs, (outputs,).

        Returns:
            An `optax.GradientTransformationExtraArgs`.
        """

        def update(updates, state, params=None, *, inputs, output_gradient, **extra):
            del updates, extra
            every = lambda params, x: jax.vmap(apply, in_axes=(None, 0))(params, x)
            found = self._clipped(self._along(every, params, inputs, output_gradient))
            step = lambda d: -jnp.asarray(self.learning_rate).astype(d.dtype) * d
            return jax.tree.map(step, found), state

        init: Any = lambda params: optax.EmptyState()
        return optax.GradientTransformationExtraArgs(init, cast(Any, update))

    def _solved(self, jacobian: Weights, residual: Array, layers: int) -> Weights:
        examples, outputs = residual.shape
        flat = lambda leaf: leaf.reshape(examples * outputs, -1)
        J = jnp.concatenate([flat(leaf) for leaf in jax.tree.leaves(jacobian)], axis=1)
        J, r = J / np.sqrt(examples), residual.reshape(-1) / np.sqrt(examples)
        found = layers**-self.power * (J.T @ self._inverse(J @ J.T, r))
        shape = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[2:], leaf.dtype), jacobian)
        return ravel_pytree(shape)[1](found)

    def _inverse(self, kernel: Array, r: Array) -> Array:
        if len(kernel) > MOST_ROWS:
            said = f"rule: got NaturalGradient with a matrix of {len(kernel)} rows"
            allowed = "examples × outputs or, without blocks, weights"
            raise ValueError(f"{said}; allowed are at most {MOST_ROWS} {allowed}")
        return inverse_power(kernel, r, self.power, damping=self.damping, form=self.damping_form)

    def _of_outputs(
        self, problem: AbstractProblem, network: AbstractNetwork, every: Examples
    ) -> Velocity:
        def velocity(weights: Weights) -> Weights:
            x, y = every.take(slice(None), jax.tree.leaves(weights)[0].dtype)
            output = network(weights, x)
            axes = output.ndim - 1
            residual = jax.grad(lambda o: jnp.sum(problem.loss.each(o, y, axes)))(output)
            found = self._along(network, weights, x, residual)
            return jax.tree.map(lambda d: -d, found)

        return velocity

    def _along(self, apply: Apply, weights: Weights, x: Array, residual: Array) -> Weights:
        """H^(−power) g for a batch x and ∂loss/∂output of its examples, (batch, …)."""
        if self.blocks:  # the kernel of a layer by itself is made of its rows of the Jacobian
            one = lambda x: jax.jacobian(lambda w: apply(w, x[None])[0].reshape(-1))(weights)
            return self.direction(jax.vmap(one)(x), residual.reshape(len(x), -1))
        pull = jax.vjp(lambda w: apply(w, x), weights)[1]
        if sum(leaf.size for leaf in jax.tree.leaves(weights)) < residual.size:
            g, unravel = ravel_pytree(pull(residual / len(x))[0])
            return unravel(self._inverse(gauss_newton(apply, weights, x) / len(x), g))
        # Layer by layer the kernel costs less than its Jacobian, which is not needed beside.
        K = kernel(apply, weights, x).reshape(residual.size, residual.size)
        found = self._inverse(K / len(x), residual.reshape(-1) / len(x))
        return pull(found.reshape(residual.shape).astype(residual.dtype))[0]

    def _of_maps(self, problem: AbstractProblem, statistics: MapStatistics) -> Velocity:
        target, root = statistics
        assert isinstance(problem.loss, SquaredLoss)
        scale = 2 * problem.loss.scale

        def velocity(weights: Weights) -> Weights:
            drive = scale * (product(weights) - target) @ root
            found = natural_direction(
                weights, drive, self.power, root=root, blocks=self.blocks,
                damping=self.damping, form=self.damping_form,
            )  # fmt: skip
            return jax.tree.map(lambda d: -d, found)

        return velocity
