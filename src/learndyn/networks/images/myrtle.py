"""Myrtle networks: convolutions and average pooling."""

from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.images.parts import (
    AbstractImageNetwork,
    Layer,
    convolution,
    dense,
    mean_pixel,
    pooled,
)
from learndyn.networks.parts import affine
from learndyn.runtime.checks import one_of, positive_int
from learndyn.runtime.types import Array, Number, Weights

STAGES = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}  # convolutions before each pooling


class Myrtle(AbstractImageNetwork):
    """Three stages of 3 × 3 convolutions with 2 × 2 average pooling in between, and a dense layer.

    Each convolution is followed by g; the dense layer sees the mean over the remaining pixels.
    Depth 5 has 2 + 1 + 1 convolutions, 7 has 2 + 2 + 2, 10 has 3 + 3 + 3. Sides of images must be
    multiples of 4. Scalings, initial distributions, `Affine` weights and nodes are those of `CNN`.

    Args:
        channels: number of channels of every convolution.
        outputs: number of outputs; a single output is a scalar.
        activation: as in `MLP`.
        depth: 5, 7 or 10.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights.

    Raises:
        ValueError: for a depth that is not known, sizes that are not positive integers, or
            another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.Myrtle(32, 10).output_shape((32, 32, 3))
        (10,)
    """

    channels: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        channels: int,
        outputs: int,
        activation: Any = "relu",
        *,
        depth: int = 5,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.channels = positive_int("channels", channels)
        self.depth = one_of("depth", depth, STAGES)
        self.outputs = positive_int("outputs", outputs)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, layers = affine.function(self.activation), self.applied(weights)
        for stage, count in enumerate(STAGES[self.depth]):
            x = pooled(x, 2) if stage else x
            for _ in range(count):
                x = g(layers.convolution(x))
        return affine.finish(layers.dense(mean_pixel(x)), self.output)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        # The depth counts the dense layer: there are depth − 1 convolutions.
        before = [input_shape[-1], *(self.channels for _ in range(self.depth - 2))]
        return [
            *(convolution(3, channels, self.channels) for channels in before),
            dense(self.channels, self.outputs),
        ]

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        super().check_input(input_shape)
        self.check_sides(input_shape, 4)  # two poolings halve them twice
