"""Fully connected networks."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork
from learndyn.networks.dense.layered import AbstractLayered
from learndyn.networks.parts import affine
from learndyn.networks.parts.dense_layers import DenseLayers, kind_of
from learndyn.runtime import checks
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.types import Array, Number, Weights


@bounded(gain=POSITIVE)
class MLP(AbstractLayered):
    """h_l = s_l W_l g(h_{l−1}) + b_l with h_1 = s_1 W_1 x + b_1; the output is a map of the last h.

    In the parameterisation "ntk" s_l = 1/√(inputs of the layer) and W has entries of variance
    gain²; in "standard" s_l = 1 and W has the variance gain²/inputs. Biases are N(0, 1) and 0.
    Weights are a tuple of `Affine(weight, bias)`, weight (outputs, inputs); nodes are called
    "layer1" … "layer<depth>". A single output is a scalar.

    Args:
        widths: from input to output, at least two.
        activation: "linear", "erf" (erf(h/√2)), "quadratic", "relu", "leaky_relu" (slope 0.01 on
            the left), "abs", "tanh", "sigmoid", "gelu", "softplus", "swish" or "sine"; or a smooth
            JAX function of a number, with kinks as an `Activation`.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights (√2 preserves the size of activations for relu).

    Raises:
        ValueError: for fewer than two widths, an unknown activation, or another argument
            that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> network = ld.MLP([10, 64, 3], "relu", bias=True, gain=2**0.5)
        >>> network.input_shape, network.output_shape((10,))
        ((10,), (3,))
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        widths: Sequence[int],
        activation: Any,
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
        g, h = affine.function(self.activation), x
        for i, layer in enumerate(weights, 1):
            h = affine.dense(f"layer{i}", layer, h, self.parameterisation)
            h = g(h) if i < len(weights) else h
        return affine.finish(h, self.output)

    def affine_form(self, input_shape: tuple[int, ...]) -> tuple[AbstractNetwork, Weights] | None:
        if len(self.widths) > 2 or self.output != "identity":
            return None
        return self, jax.tree.map(lambda w: np.zeros(w.shape), self.like(input_shape))

    def dense_layers(self, weights: Weights) -> DenseLayers | None:
        inner = kind_of(lambda z: affine.function(self.activation)(jnp.asarray(z)))
        return DenseLayers(list(weights), [inner] * (len(weights) - 1) + ["linear"])
