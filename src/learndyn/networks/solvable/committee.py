"""The (soft) committee machine: one hidden layer whose output weights are fixed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.closed_forms import UnitSum
from learndyn.networks.parts.unit_initialisation import AbstractInitialisation, Normal
from learndyn.numerics.gaussian import ACTIVATIONS, AbstractClosedForm
from learndyn.runtime.checks import finite, instance, numbers, one_of, positive, positive_int
from learndyn.runtime.types import Array, Number, Weights
from learndyn.tangent.taps import tap


class Committee(AbstractNetwork):
    """output = scale · Σ_i g(w_i · x / √N), for weights (units, N).

    The papers differ in `scale`: 1/p in bocchi2026escape (for student and teacher alike),
    √M/K for the student and 1/√M for the teacher in worschech2024scaling.

    Args:
        units: number K of hidden units.
        activation: "linear" g(h) = h, "erf" g(h) = erf(h/√2) or "quadratic" g(h) = h².
        scale: factor of the output.
        init: the distribution of the rows of the weights: `Normal`, `Orthonormal`, `Typical`, or
            your own subclass of `AbstractInitialisation`.
        trainable: number of leading input directions that are trained; the others keep their
            initial weights. None for all.
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
        initialisation = Normal(1.0) if init is None else init
        allowed = "Normal, Orthonormal, Typical or your own AbstractInitialisation"
        self.init = instance("init", initialisation, AbstractInitialisation, allowed)
        self.trainable = None if trainable is None else positive_int("trainable", trainable)

    @property
    def g(self) -> AbstractClosedForm:
        """The activation with its Gaussian averages."""
        return ACTIVATIONS[self.activation]

    def __call__(self, weights: Weights, x: Array) -> Array:
        weights = self.learning(weights)
        h = jnp.einsum("kn,...n->...k", weights, x)  # x is a batch, or one example without its axis
        # NumPy's float64 scalars would turn float32 into float64, hence the casts.
        h = tap("layer1", h / np.sqrt(weights.shape[-1]).astype(weights.dtype))
        return jnp.asarray(self.scale).astype(h.dtype) * jnp.sum(self.g(h), axis=-1)

    def learning(self, weights: Weights) -> Weights:
        """The same weights, without a gradient in directions that are not trained."""
        n = self.trainable
        if n is None:
            return weights
        parts = [weights[:, :n], jax.lax.stop_gradient(weights[:, n:])]
        return jnp.concatenate(parts, axis=1)

    @property
    def unit_sum(self) -> UnitSum | None:
        return UnitSum(jnp.full(self.units, jnp.asarray(self.scale)), self.g, self.learning)

    @property
    def accepts_single_example(self) -> bool:
        return True

    @property
    def input_shape(self) -> Shape | None:
        return (None,)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return ()

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        """Accepts any dimension that is at least `trainable`: weights are (units, dim)."""
        super().check_input(input_shape)
        if self.trainable is not None and self.trainable > input_shape[0]:
            raise ValueError(f"trainable: got {self.trainable}; allowed is 1 to {input_shape[0]}")

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        allowed, name = (self.units, *input_shape), f"{type(self.init).__name__}.sample"
        rows = finite(name, numbers(name, self.init.sample(rng, *allowed)))
        if rows.shape != allowed:
            raise ValueError(f"{name}: got shape {rows.shape}; allowed is (units, dim) = {allowed}")
        return rows

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return jax.ShapeDtypeStruct((self.units, *input_shape), np.float64)

    def dim_of(self, weights: Weights) -> int:
        return weights.shape[-1]
