"""Wide residual networks."""

import itertools
from collections.abc import Iterator

import equinox as eqx
import numpy as np

from learndyn.networks import affine
from learndyn.networks.base import Weights
from learndyn.networks.images import AbstractImageNetwork, Layer, convolution, dense, mean_pixel
from learndyn.numerics.checks import positive_int
from learndyn.numerics.types import Array, Number

STEM, GROUPS = 16, ((1, 16), (2, 32), (2, 64))  # (stride, channels) before widening


class WideResNet(AbstractImageNetwork):
    """Wide ResNet depth-widen, without batch norm, which mixes examples and has no kernel of each.

    A convolution of 16 channels; three groups of (depth − 4)/6 blocks with 16, 32 and 64 times
    `widen` channels, of which the last two begin with stride 2; g, the mean over pixels, a dense
    layer. A block adds W₂ ∗ g(W₁ ∗ g(x)) to x, or to a 1 × 1 convolution of g(x) where stride or
    channels change; sums have no factor. Windows are 3 × 3 with zero padding. Scalings, laws and
    `Affine` weights are those of `CNN`; layers, and their nodes "layer1", …, are in the order
    stem, then W₁, W₂ and the 1 × 1 convolution of each block, then dense.

    Args:
        depth: 6 n + 4 layers, for n blocks a group (1 × 1 convolutions are not counted).
        widen: factor of the channels.
        outputs: number of outputs; one is a scalar.
        activation: as in `MLP`.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: "identity", "softmax", "sigmoid" or "tanh" of the last pre-activation.
        gain: factor of the initial weights.
    """

    depth: int = eqx.field(static=True)
    widen: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        depth: int,
        widen: int,
        outputs: int,
        activation: str = "relu",
        *,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.depth = positive_int("depth", depth)
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth: got {depth}; allowed is 6 n + 4: 10, 16, 22, …")
        self.widen = positive_int("widen", widen)
        self.outputs = positive_int("outputs", outputs)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, names = affine.FUNCTIONS[self.activation], (f"layer{i}" for i in itertools.count(1))
        given = iter(weights)
        convolve = lambda x, stride=1: affine.convolution(
            next(names), next(given), x, self.parameterisation, stride
        )
        x = convolve(x)
        for stride, before, channels in self._blocks():
            active = g(x)
            h = convolve(g(convolve(active, stride)))
            x = h + (x if (stride, before) == (1, channels) else convolve(active, stride))
        h = affine.dense(next(names), next(given), mean_pixel(g(x)), self.parameterisation)
        return affine.finish(h, self.output)

    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        found = [convolution(3, input_shape[-1], STEM)]
        for stride, before, channels in self._blocks():
            found += [convolution(3, before, channels), convolution(3, channels, channels)]
            if (stride, before) != (1, channels):
                found.append(convolution(1, before, channels))
        return [*found, dense(found[-1].outputs, self.outputs)]

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        """(stride, channels before, channels) of every block."""
        before = STEM
        for first, base in GROUPS:
            for block in range((self.depth - 4) // 6):
                yield (1 if block else first), before, base * self.widen
                before = base * self.widen
