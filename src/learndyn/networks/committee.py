"""The (soft) committee machine: one hidden layer whose output weights are fixed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape, Weights
from learndyn.networks.initialisation import AbstractInitialisation, Normal
from learndyn.networks.taps import tap
from learndyn.numerics.checks import instance, one_of, positive, positive_int
from learndyn.numerics.gaussian import ACTIVATIONS, AbstractActivation
from learndyn.numerics.types import Array, Number


class Committee(AbstractNetwork):
    """output = scale · Σ_i g(w_i · x / √N), for weights (units, N).

    The papers differ in `scale`: 1/p in bocchi2026escape (for student and teacher alike),
    √M/K for the student and 1/√M for the teacher in worschech2024scaling.

    Args:
        units: number K of hidden units.
        activation: "linear" g(h) = h, "erf" g(h) = erf(h/√2) or "quadratic" g(h) = h².
        scale: factor of the output.
        init: how the rows of the weights are drawn.
        trainable: how many leading input directions learn, the others keeping their initial
            weights; None for all.
    """

    units: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    scale: np.ndarray
    init: AbstractInitialisation
    trainable: int | None = eqx.field(static=True)

    def __init__(
        self,
        units: int,
        activation: str,
        *,
        scale: Number = 1.0,
        init: AbstractInitialisation | None = None,
        trainable: int | None = None,
    ):
        self.units = positive_int("units", units)
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.scale = positive("scale", scale)
        given = Normal(1.0) if init is None else init
        allowed = "a law of rows such as Normal, Orthonormal or Typical"
        self.init = instance("init", given, AbstractInitialisation, allowed)
        self.trainable = None if trainable is None else positive_int("trainable", trainable)

    @property
    def g(self) -> AbstractActivation:
        """The activation with its Gaussian averages."""
        return ACTIVATIONS[self.activation]

    def __call__(self, weights: Weights, x: Array) -> Array:
        weights = self.learning(weights)
        h = jnp.einsum("kn,...n->...k", weights, x)
        h = tap("layer1", h / np.sqrt(weights.shape[-1]).astype(weights.dtype))
        return jnp.asarray(self.scale).astype(h.dtype) * jnp.sum(self.g(h), axis=-1)

    def learning(self, weights: Weights) -> Weights:
        """The same weights, with no gradient in directions that do not learn."""
        n = self.trainable
        if n is None:
            return weights
        parts = [weights[:, :n], jax.lax.stop_gradient(weights[:, n:])]
        return jnp.concatenate(parts, axis=1)

    @property
    def takes_one(self) -> bool:
        return True

    @property
    def input_shape(self) -> Shape | None:
        return (None,)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return ()

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        """Any dimension fits that has the trainable directions: weights are (units, dim)."""
        super().check_input(input_shape)
        if self.trainable is not None and self.trainable > input_shape[0]:
            raise ValueError(f"trainable: got {self.trainable}; allowed is 1 to {input_shape[0]}")

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        return self.init.sample(rng, self.units, input_shape[0])

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return jax.ShapeDtypeStruct((self.units, *input_shape), np.float64)

    def dim_of(self, weights: Weights) -> int:
        return weights.shape[-1]
