"""Fully connected networks."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from learndyn.networks import affine
from learndyn.networks.base import Weights
from learndyn.networks.layered import AbstractLayered
from learndyn.numerics import checks
from learndyn.numerics.types import Array, Number


class MLP(AbstractLayered):
    """h_l = s_l W_l g(h_{l−1}) + b_l with h_1 = s_1 W_1 x + b_1; the output is a map of the last h.

    In the parameterisation "ntk" s_l = 1/√(inputs of the layer) and W has entries of variance
    gain²; in "standard" s_l = 1 and W has the variance gain²/inputs. Biases are N(0, 1) and 0.
    Weights are a tuple of `Affine(weight, bias)`, weight (outputs, inputs); nodes are called
    "layer1" … "layer<depth>". A network of one output gives a scalar.

    Args:
        widths: from input to output, at least two.
        activation: "linear", "erf" (erf(h/√2)), "quadratic", "relu", "tanh" or "swish".
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: "identity", "softmax", "sigmoid" or "tanh" of the last pre-activation.
        gain: factor of the initial weights (√2 keeps the size of relu's activations).
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        widths: Sequence[int],
        activation: str,
        *,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.widths = checks.widths("widths", widths)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, h = affine.FUNCTIONS[self.activation], x
        for i, layer in enumerate(weights, 1):
            h = affine.dense(f"layer{i}", layer, h, self.parameterisation)
            h = g(h) if i < len(weights) else h
        return affine.finish(h, self.output)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        return tuple(
            affine.draw(rng, (n, m), m, self.parameterisation, self.gain, n if self.bias else None)
            for m, n in self._pairs
        )

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return tuple(affine.like((n, m), n if self.bias else None) for m, n in self._pairs)

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.widths[:-1], self.widths[1:], strict=True))
