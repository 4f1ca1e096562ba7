"""What a step does with a gradient: rates, decays, momentum."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from learndyn.networks import AbstractNetwork
from learndyn.rules.rates import largest_rate, rate_at, stops
from learndyn.runtime.types import Array, Weights


class StepLaw(NamedTuple):
    """The parameters of gradient descent, in mean-field equations and in the steps themselves.

    With the mean gradient ∇ of `batch` examples, a step of a committee is

        w ← (1 − decay/N) w − η ∇_w
        v ← (1 − output_decay/N) v − (output_rate/N) ∇_v
        b ← b − (bias_rate/N) ∇_b

    so that all three move in steps/N. For other networks it is w ← (1 − decay) w − η ∇_w.

    Attributes:
        learning_rate: η, the factor of the mean step, or a function of the step number.
        batch: fresh examples per step; None for the mean over all examples.
        output_rate: N times the rate of output weights; None is η.
        bias_rate: N times the rate of biases; None is η.
        decay: of w; None, unlike 0, leaves the term out of the compiled program.
        output_decay: of v, likewise.
        inertia: the momentum; None without it.

    Example:
        >>> import learndyn as ld
        >>> law = ld.SGD(0.1, batch=10, momentum=0.5).step_law
        >>> law.batch, round(float(law.settled.learning_rate), 3)
        (10, 0.2)
    """

    learning_rate: Any
    batch: int | None
    output_rate: Array | None = None
    bias_rate: Array | None = None
    decay: Array | None = None
    output_decay: Array | None = None
    inertia: "Inertia | None" = None

    @property
    def settled(self) -> "StepLaw":
        """The law without momentum β that moves weights as far, 1/(1 − β) times per gradient."""
        if self.inertia is None:
            return self
        momentum = self.inertia.momentum
        longer = lambda rate: None if rate is None else rate / (1 - momentum)
        own = self.output_rate, self.bias_rate, self.decay, self.output_decay
        return StepLaw(longer(self.learning_rate), self.batch, *map(longer, own))

    @property
    def scheduled(self) -> bool:
        """Whether η changes with the step."""
        return callable(self.learning_rate)

    def at(self, step: Any) -> "StepLaw":
        """The law with η as a number, that of a step.

        Args:
            step: its number; steps count from 0.

        Returns:
            The law; itself if η does not change.
        """
        if not self.scheduled:
            return self
        return self._replace(learning_rate=rate_at(self.learning_rate, step))

    def at_most(self, last: float | int) -> "StepLaw":
        """The law with the largest η up to a step.

        Args:
            last: the number of the step.

        Returns:
            The law.
        """
        return self._replace(learning_rate=largest_rate(self.learning_rate, last))

    def stops(self, last: float | int) -> Any:
        """The steps at which an integration has to stop in order to see how η changes.

        Args:
            last: the last step of the integration.

        Returns:
            Their numbers.
        """
        return stops(self.learning_rate, last)

    @property
    def noise(self) -> float:
        """The covariance of a step's gradient, in units of that of one example."""
        return 0.0 if self.batch is None else 1 / self.batch

    @property
    def rates(self) -> tuple[Array, Array, Array]:
        """The rates of inputs, outputs and biases, the last two per N."""
        own = (self.output_rate, self.bias_rate)
        return self.learning_rate, *(self.learning_rate if r is None else r for r in own)

    def direction(self, network: AbstractNetwork, weights: Weights, gradient: Weights) -> Weights:
        """The gradient ∇ of the loss as the d of the step w ← w − η d, in every part.

        An estimator with this direction makes the same step under every rule that multiplies it by
        η. It is ∇ itself where all parts have one rate and nothing decays.

        Args:
            network: whose weights these are.
            weights: the weights.
            gradient: of the loss by them.

        Returns:
            d, in the form of the weights.
        """
        eta, outputs, biases = self.rates
        per_step = eta * network.rate_dim(weights)
        if network.trained_parts != ("inputs",):
            ratios = network.by_part(weights, 1, outputs / per_step, biases / per_step)
            gradient = jax.tree.map(_scaled, ratios, gradient)
        if self.decay is None and self.output_decay is None:
            return gradient
        pull = lambda decay: 0.0 if decay is None else decay / per_step
        decays = network.by_part(weights, pull(self.decay), pull(self.output_decay), 0.0)
        pulls = jax.tree.map(_scaled, decays, weights)
        return jax.tree.map(jnp.add, gradient, pulls)

    @property
    def splits(self) -> bool:
        """Whether η changes, a momentum remembers, and parts of a step do not scale with η.

        The velocity v of w ← w − η v would hold them divided by an earlier η, which may be 0. They
        have a velocity of their own, that of w ← w − v.
        """
        own = self.output_rate, self.bias_rate, self.decay, self.output_decay
        return self.scheduled and self.inertia is not None and any(x is not None for x in own)

    def split(
        self, network: AbstractNetwork, weights: Weights, direction: Weights
    ) -> tuple[Weights, Weights]:
        """The a and b of the step w ← w − η a − b without momentum.

        Args:
            network: the network.
            weights: before the step.
            direction: that of a rule without decays whose parts have one rate, per N.

        Returns:
            a and b, in the form of the weights.
        """
        N = network.rate_dim(weights)
        of = lambda rate: 0.0 if rate is None else rate
        shared = [1.0 if rate is None else 0.0 for rate in (self.output_rate, self.bias_rate)]
        with_eta = network.by_part(weights, 1, *shared)
        alone = network.by_part(weights, 0.0, of(self.output_rate), of(self.bias_rate))
        decays = network.by_part(weights, of(self.decay) / N, of(self.output_decay) / N, 0.0)
        rest = jax.tree.map(jnp.add, *(jax.tree.map(_scaled, factor, each) for factor, each in
                                       ((alone, direction), (decays, weights))))  # fmt: skip
        return jax.tree.map(_scaled, with_eta, direction), rest


class Inertia(NamedTuple):
    """The momentum of a rule: v ← β v + d, and w ← w − η v.

    Nesterov's form is that of optax and PyTorch, w ← w − η (d + β v) with the new v.

    Attributes:
        momentum: β, between 0 and 1.
        nesterov: whether it is Nesterov's.
    """

    momentum: Array
    nesterov: bool

    def advance(self, velocity: Weights, direction: Weights) -> tuple[Weights, Weights]:
        """The new velocity v, and what the rate multiplies."""
        added = lambda v, d: jnp.asarray(self.momentum).astype(v.dtype) * v + d.astype(v.dtype)
        velocity = jax.tree.map(added, velocity, direction)
        ahead = jax.tree.map(added, velocity, direction) if self.nesterov else velocity
        return velocity, ahead


def _scaled(factor: Any, array: Array) -> Array:
    """factor · array, in the array's precision; an integer stands for 1, which costs nothing."""
    return array if isinstance(factor, int) else jnp.asarray(factor).astype(array.dtype) * array
