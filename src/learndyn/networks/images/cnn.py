"""Convolutional networks."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.images.parts import AbstractImageNetwork, Layer, convolution, dense
from learndyn.networks.parts import affine
from learndyn.runtime.bounds import COUNT, POSITIVE, bounded
from learndyn.runtime.checks import positive_int, widths
from learndyn.runtime.types import Array, Number, Weights


@bounded(kernel=COUNT, gain=POSITIVE)
class CNN(AbstractImageNetwork):
    """Convolutions with zero padding, each followed by g, then one dense layer over all pixels.

    h = s W ∗ g(h_before) + b with s = 1/√(kernel² · channels in) in the parameterisation "ntk",
    1 in "standard", with initial weights as in `MLP`. Inputs are (height, width, channels).
    Weights are a tuple of `Affine(weight, bias)`, weight (kernel, kernel, channels in, channels
    out), and (outputs, pixels · channels) in the dense layer; nodes are called "layer1", ….

    Args:
        channels: number of channels of each convolution; the data determine those of the input.
        kernel: side of the square windows.
        outputs: number of outputs; a single output is a scalar.
        activation: as in `MLP`.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights.
        stride: one for all convolutions, or one for each.

    Raises:
        ValueError: for sizes that are not positive integers, strides that do not fit the
            channels, an unknown activation, or another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> network = ld.CNN([8, 16], 3, 10, "relu", gain=2**0.5, stride=2)
        >>> network.output_shape((32, 32, 3))
        (10,)
    """

    channels: tuple[int, ...] = eqx.field(static=True)
    kernel: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
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
        activation: Any,
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
        strides = [stride] * count if isinstance(stride, int | np.integer) else stride
        self.stride = widths("stride", strides, least=1)
        if len(self.stride) != count:
            raise ValueError(
                f"stride: got {self.stride}; allowed is one number, or {count} of them"
            )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, layers = affine.function(self.activation), self.applied(weights)
        for stride in self.stride:
            x = g(layers.convolution(x, stride))
        return affine.finish(layers.dense(x.reshape(len(x), -1)), self.output)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        height, width, before = input_shape
        convolutions = []
        for channels, stride in zip(self.channels, self.stride, strict=True):
            convolutions.append(convolution(self.kernel, before, channels))
            # Padding makes a convolution of stride 1 keep the sides; other strides round up.
            height, width, before = -(-height // stride), -(-width // stride), channels
        return [*convolutions, dense(height * width * before, self.outputs)]
