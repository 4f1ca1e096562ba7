"""Myrtle networks: convolutions and means over pixels."""

import equinox as eqx
import numpy as np

from learndyn.networks import affine
from learndyn.networks.base import Weights
from learndyn.networks.images import (
    AbstractImageNetwork,
    Layer,
    convolution,
    dense,
    mean_pixel,
    pooled,
)
from learndyn.numerics.checks import one_of, positive_int
from learndyn.numerics.types import Array, Number

STAGES = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}  # convolutions before each pooling


class Myrtle(AbstractImageNetwork):
    """Three stages of 3 × 3 convolutions, means over 2 × 2 pixels between them, a dense layer.

    Each convolution is followed by g; the dense layer reads the mean over the pixels that are
    left. Depth 5 has 2 + 1 + 1 convolutions, 7 has 2 + 2 + 2, 10 has 3 + 3 + 3. Sides of images
    are multiples of 4. Scalings, laws, `Affine` weights and nodes are those of `CNN`.

    Args:
        channels: of every convolution.
        outputs: number of outputs; one is a scalar.
        activation: as in `MLP`.
        depth: 5, 7 or 10.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: "identity", "softmax", "sigmoid" or "tanh" of the last pre-activation.
        gain: factor of the initial weights.
    """

    channels: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        channels: int,
        outputs: int,
        activation: str = "relu",
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
        g, layers = affine.FUNCTIONS[self.activation], enumerate(weights, 1)
        for stage, count in enumerate(STAGES[self.depth]):
            x = pooled(x, 2) if stage else x
            for _ in range(count):
                i, layer = next(layers)
                x = g(affine.convolution(f"layer{i}", layer, x, self.parameterisation, 1))
        i, layer = next(layers)
        h = affine.dense(f"layer{i}", layer, mean_pixel(x), self.parameterisation)
        return affine.finish(h, self.output)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        before = [input_shape[-1], *(self.channels for _ in range(self.depth - 2))]
        return [
            *(convolution(3, channels, self.channels) for channels in before),
            dense(self.channels, self.outputs),
        ]

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        super().check_input(input_shape)
        self.check_sides(input_shape, 4)
