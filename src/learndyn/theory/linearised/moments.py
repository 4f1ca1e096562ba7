"""Second moments of a linear model under mini-batches that are drawn with replacement.

Let δ be the deviation of the outputs from their mean, which obeys the equation of all examples. A
step adds to the outputs the force F δ + ξ, with F = (η h/n) K' + decay, h = 2 scale, and the noise
ξ of the batch, which depends on the present residuals r of the training set,

    Cov ξ = (η h)²/b · K' [ D/n − S/n² ] K'ᵀ,       S = E[r rᵀ], D its blocks of single examples,

so that the covariance of the outputs closes, whatever their distribution:

    v ← β v + F δ + ξ,   δ ← δ + σ v_old − τ v:   heavy ball σ = 0, τ = 1; Nesterov σ = β, τ = 1+β.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.precision import compiled_in_float64, float64
from learndyn.runtime.types import Array
from learndyn.theory.dynamics import STEPS, Clock, Map
from learndyn.theory.linearised.dynamics import Forces
from learndyn.theory.linearised.state import Outputs, counter, optional


class Moments(eqx.Module):
    """Mean outputs on all examples, and how runs scatter about them.

    Args:
        values: the mean, (examples, *output shape), as of a rule that sees all examples.
        covariance: of the outputs on all examples, (rows, rows), rows by example, then output; in
            the diagonal approximation of their coefficients along the kernel's modes, (modes,).
        velocity: mean velocity of a rule with momentum; None without.
        cross: covariance of outputs with velocities, like `covariance`.
        velocities: covariance of velocities, likewise.
        step: the number of the step, for rates that change; otherwise None.
        scatter: variance of the outputs, summed over each of the sets, (sets,), in the diagonal
            approximation; otherwise None, since `covariance` has it.

    Raises:
        ValueError: for arrays whose shape is not that of the covariance.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(lambda key: np.zeros(2), lambda w, x: x @ w, linear=True)
        >>> data = ld.Dataset(np.diag([2.0, 4.0]), np.ones(2))
        >>> system = ld.System(data, network, ld.SGD(0.1))
        >>> state = ld.start(system).state
        >>> type(state).__name__, state.values.shape, state.covariance.shape
        ('Moments', (2,), (2, 2))
    """

    values: Array = eqx.field(converter=float64("values"))
    covariance: Array = eqx.field(converter=float64("covariance"))
    velocity: Array | None = eqx.field(converter=optional(float64("velocity")), default=None)
    cross: Array | None = eqx.field(converter=optional(float64("cross")), default=None)
    velocities: Array | None = eqx.field(converter=optional(float64("velocities")), default=None)
    step: Array | None = eqx.field(converter=optional(counter), default=None)
    scatter: Array | None = eqx.field(converter=optional(float64("scatter")), default=None)

    def __check_init__(self):
        shape = np.shape(self.covariance)
        for name in ("cross", "velocities"):
            part = getattr(self, name)
            if part is not None and np.shape(part) != shape:
                came = f"shape {np.shape(part)}"
                raise ValueError(f"{name}: got {came}; allowed is that of covariance, {shape}")

    @property
    def mean(self) -> Outputs:
        return Outputs(self.values, self.velocity, self.step)


Product = Callable[[Array], Array]


def stepped(
    now: Any, noise: Array, left: Product, turned: Product, beta: Any, nesterov: bool
) -> tuple[Array, Array | None, Array | None]:
    """Covariance, cross and velocities after a step.

    Args:
        now: covariances before it, as `Moments` names them.
        noise: the covariance of ξ.
        left: C → F C.
        turned: C → Cᵀ.
        beta: the momentum, if there is any.
        nesterov: whether it is Nesterov's.

    Returns:
        The covariances.
    """
    # What rounding makes odd would be multiplied by (1 − F) … (1 + F), and grow.
    even = lambda C: (C + turned(C)) / 2
    pulled = left(now.covariance)
    both = left(turned(pulled)) + noise  # F C Fᵀ, plus that of the noise
    if now.cross is None or now.velocities is None:
        return even(now.covariance - pulled - turned(pulled) + both), None, None
    mixed = left(now.cross)
    velocities = beta**2 * now.velocities + beta * (mixed + turned(mixed)) + both
    sigma, tau = (beta, 1 + beta) if nesterov else (0.0, 1.0)
    # Of δ + σ v with itself, and with the new velocity.
    own = now.covariance + sigma * (now.cross + turned(now.cross)) + sigma**2 * now.velocities
    ahead = beta * now.cross + turned(pulled) + sigma * (beta * now.velocities + turned(mixed))
    outputs = own - tau * (ahead + turned(ahead)) + tau**2 * velocities
    return even(outputs), ahead - tau * velocities, even(velocities)


class AbstractMomentMap(Map):
    """Mean and covariances, step by step."""

    forces: eqx.AbstractVar[Forces]
    mean: eqx.AbstractVar[Map]
    targets: eqx.AbstractVar[Array]  # as numbers, (examples, outputs)
    noise_scale: eqx.AbstractVar[Array]  # h²/b
    strength: eqx.AbstractVar[Array]  # h/n

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def advance(self, y: Moments) -> Moments:
        descent = self.forces.descent
        rate = descent.rate_at(y.step)
        trained = jnp.asarray(y.values)[: len(self.targets)].reshape(self.targets.shape)
        noise = rate**2 * self.noise_scale * self._noise(trained - self.targets, y.covariance)
        left = lambda C: self._pulled(rate, C)
        after = stepped(y, noise, left, self._turned, descent.momentum, descent.nesterov)
        mean, (outputs, cross, velocities) = self.mean.advance(y.mean), after
        if mean.step is not None and cross is not None and velocities is not None:
            ratio = descent.rate_at(mean.step) / rate  # as of the velocity of the mean
            cross, velocities = ratio * cross, ratio**2 * velocities
        kept = mean.velocity, cross, velocities, mean.step
        return Moments(mean.values, outputs, *kept, self._scatter(outputs))

    @abc.abstractmethod
    def _noise(self, residuals: Array, covariance: Array) -> Array:
        """K' (D/n − S/n²) K'ᵀ for residuals of the mean, (examples, outputs)."""

    @abc.abstractmethod
    def _pulled(self, rate: Array, C: Array) -> Array:
        """F C."""

    @abc.abstractmethod
    def _turned(self, C: Array) -> Array:
        """Cᵀ."""

    def _scatter(self, covariance: Array) -> Array | None:
        return None

    def _decay(self) -> Any:
        decay = self.forces.descent.decay
        return 0.0 if decay is None else decay


class ExactMoments(AbstractMomentMap):
    """Covariances of all pairs of outputs."""

    forces: Forces
    mean: Map
    targets: Array
    noise_scale: Array
    strength: Array

    def _noise(self, residuals: Array, covariance: Array) -> Array:
        K, (n, k) = jnp.asarray(self.forces.kernel), residuals.shape
        flat, place = residuals.reshape(-1), jnp.arange(n)
        second = covariance[: n * k, : n * k] + jnp.outer(flat, flat)
        blocks = second.reshape(n, k, n, k)[place, :, place, :]
        single = jnp.zeros((n, k, n, k)).at[place, :, place, :].set(blocks)
        return K @ (single.reshape(n * k, n * k) / n - second / n**2) @ K.T

    def _pulled(self, rate: Array, C: Array) -> Array:
        K = jnp.asarray(self.forces.kernel)
        return rate * self.strength * (K @ C[: K.shape[1]]) + self._decay() * C

    def _turned(self, C: Array) -> Array:
        return C.T


class DiagonalMoments(AbstractMomentMap):
    """Variances along the modes of the kernel only: modes are taken to be uncorrelated."""

    forces: Forces
    mean: Map
    targets: Array
    noise_scale: Array
    strength: Array
    values: Array  # λ, (modes,)
    vectors: Array  # U, (rows, modes)
    shared: Array  # Σ over examples of (Σ over outputs U_i U_j)², (modes, modes)
    lengths: Array  # squared features, summed over each set, (sets, modes)

    def _noise(self, residuals: Array, covariance: Array) -> Array:
        n, k = residuals.shape
        parts = jnp.asarray(self.vectors).reshape(n, k, -1)
        along = jnp.einsum("nkm,nk->nm", parts, residuals)
        scatter = self.values**2 * covariance  # of the residuals
        single = jnp.sum(along**2, axis=0) + self.shared @ scatter
        return single / n - (jnp.sum(along, axis=0) ** 2 + scatter) / n**2

    def _pulled(self, rate: Array, C: Array) -> Array:
        return (rate * self.strength * self.values + self._decay()) * C

    def _turned(self, C: Array) -> Array:
        return C

    def _scatter(self, covariance: Array) -> Array:
        return self.lengths @ covariance


def shared_examples(vectors: np.ndarray, examples: int) -> np.ndarray:
    """Σ over examples of (Σ over outputs U_i U_j)² for every pair of modes."""
    blocks = vectors.reshape(examples, -1, vectors.shape[1])
    if blocks.shape[1] == 1:
        return (vectors**2).T @ vectors**2
    return sum(((each.T @ each) ** 2 for each in blocks), np.zeros((vectors.shape[1],) * 2))
