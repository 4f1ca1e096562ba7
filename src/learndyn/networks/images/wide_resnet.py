"""Wide residual networks."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.images.parts import (
    AbstractImageNetwork,
    Layer,
    convolution,
    dense,
    mean_pixel,
)
from learndyn.networks.parts import affine
from learndyn.runtime.checks import positive_int
from learndyn.runtime.types import Array, Number, Weights

STEM, GROUPS = 16, ((1, 16), (2, 32), (2, 64))  # (stride, channels) before widening


class WideResNet(AbstractImageNetwork):
    """A wide ResNet without batch normalisation, which would mix examples.

    A convolution with 16 channels; three groups of (depth − 4)/6 blocks with 16, 32 and 64 times
    `widen` channels, of which the last two start with stride 2; g; the mean over pixels; a dense
    layer. A block adds W₂ ∗ g(W₁ ∗ g(x)) to x, or to a 1 × 1 convolution of g(x) if stride or
    channels change, without a factor. Windows are 3 × 3 with zero padding. Scalings,
    distributions and `Affine` weights are those of `CNN`; layers, and their nodes "layer1", …, are
    in the order stem, then W₁, W₂ and the 1 × 1 convolution of each block, then dense.

    Args:
        depth: 6 n + 4 layers, for n blocks per group (not counting 1 × 1 convolutions).
        widen: factor of the numbers of channels.
        outputs: number of outputs; a single output is a scalar.
        activation: as in `MLP`.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights.

    Raises:
        ValueError: for a depth that is not 6 n + 4, sizes that are not positive integers,
            or another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.WideResNet(10, 1, 10).output_shape((32, 32, 3))
        (10,)
    """

    depth: int = eqx.field(static=True)
    widen: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        depth: int,
        widen: int,
        outputs: int,
        activation: Any = "relu",
        *,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.depth = positive_int("depth", depth)
        if self.depth < 10 or (self.depth - 4) % 6:
            raise ValueError(f"depth: got {depth}; allowed is 6 n + 4: 10, 16, 22, …")
        self.widen = positive_int("widen", widen)
        self.outputs = positive_int("outputs", outputs)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, layers = affine.function(self.activation), self.applied(weights)
        x = layers.convolution(x)
        for stride, before, channels in self._blocks():
            active = g(x)
            h = layers.convolution(g(layers.convolution(active, stride)))
            same = (stride, before) == (1, channels)  # then x itself has the shape of h
            x = h + (x if same else layers.convolution(active, stride))
        return affine.finish(layers.dense(mean_pixel(g(x))), self.output)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        convolutions = [convolution(3, input_shape[-1], STEM)]
        for stride, before, channels in self._blocks():
            convolutions += [convolution(3, before, channels), convolution(3, channels, channels)]
            if (stride, before) != (1, channels):  # x must get the shape of what is added to it
                convolutions.append(convolution(1, before, channels))
        return [*convolutions, dense(convolutions[-1].outputs, self.outputs)]

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        """(stride, channels before, channels) of every block."""
        before = STEM
        for first, base in GROUPS:
            for block in range((self.depth - 4) // 6):
                yield (1 if block else first), before, base * self.widen
                before = base * self.widen
