"""The (soft) committee machine: one hidden layer whose output weights are fixed."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.networks.initialisation import AbstractInitialisation, Normal
from learndyn.numerics.checks import one_of, positive, positive_int
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
    """

    units: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    scale: np.ndarray
    init: AbstractInitialisation

    def __init__(
        self,
        units: int,
        activation: str,
        *,
        scale: Number = 1.0,
        init: AbstractInitialisation | None = None,
    ):
        self.units = positive_int("units", units)
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.scale = positive("scale", scale)
        self.init = Normal(1.0) if init is None else init

    @property
    def g(self) -> AbstractActivation:
        """The activation with its Gaussian averages."""
        return ACTIVATIONS[self.activation]

    def __call__(self, weights: Weights, x: Array) -> Array:
        h = jnp.einsum("kn,...n->...k", weights, x)
        h = h / np.sqrt(weights.shape[-1]).astype(weights.dtype)
        return jnp.asarray(self.scale).astype(h.dtype) * jnp.sum(self.g(h), axis=-1)

    @property
    def outputs(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return None

    def check_input(self, dim: int) -> None:
        """Any dimension fits: weights are (units, dim)."""

    def sample(self, rng: np.random.Generator, dim: int, target: Array | None = None) -> Weights:
        return self.init.sample(rng, self.units, dim)

    def steps_per_time(self, dim: int) -> int:
        return dim

    @property
    def time_unit(self) -> str:
        return "steps / N"
