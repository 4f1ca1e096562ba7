"""Convolutional networks."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from learndyn.networks import affine
from learndyn.networks.base import Weights
from learndyn.networks.images import AbstractImageNetwork, Layer, convolution, dense
from learndyn.numerics.checks import positive_int, widths
from learndyn.numerics.types import Array, Number


class CNN(AbstractImageNetwork):
    """Convolutions with zero padding, each followed by g, then one dense layer over all pixels.

    h = s W ∗ g(h_before) + b with s = 1/√(kernel² · channels in) in the parameterisation "ntk",
    1 in "standard", which draw the weights as `MLP` does. Inputs are (height, width, channels).
    Weights are a tuple of `Affine(weight, bias)`, weight (kernel, kernel, channels in, channels
    out), and (outputs, pixels · channels) in the dense layer; nodes are called "layer1", ….

    Args:
        channels: of each convolution; those of the input come with the data.
        kernel: side of the square windows.
        outputs: number of outputs; one is a scalar.
        activation: as in `MLP`.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: "identity", "softmax", "sigmoid" or "tanh" of the last pre-activation.
        gain: factor of the initial weights.
        stride: of every convolution, or one for each.
    """

    channels: tuple[int, ...] = eqx.field(static=True)
    kernel: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray
    stride: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        channels: Sequence[int],
        kernel: int,
        outputs: int,
        activation: str,
        *,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
        stride: int | Sequence[int] = 1,
    ):
        self.channels = widths("channels", channels, least=1)
        self.kernel = positive_int("kernel", kernel)
        self.outputs = positive_int("outputs", outputs)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )
        count = len(self.channels)
        given = [stride] * count if isinstance(stride, int | np.integer) else stride
        self.stride = widths("stride", given, least=1)
        if len(self.stride) != count:
            raise ValueError(f"stride: got {self.stride}; allowed is one, or {count} of them")

    def __call__(self, weights: Weights, x: Array) -> Array:
        g = affine.FUNCTIONS[self.activation]
        for i, (layer, stride) in enumerate(zip(weights, self.stride, strict=False), 1):
            x = g(affine.convolution(f"layer{i}", layer, x, self.parameterisation, stride))
        flat = x.reshape(len(x), -1)
        h = affine.dense(f"layer{len(weights)}", weights[-1], flat, self.parameterisation)
        return affine.finish(h, self.output)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        height, width, before = input_shape
        found = []
        for channels, stride in zip(self.channels, self.stride, strict=True):
            found.append(convolution(self.kernel, before, channels))
            height, width, before = -(-height // stride), -(-width // stride), channels
        return [*found, dense(height * width * before, self.outputs)]
