"""What networks of images have in common."""

import abc
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.parts import affine
from learndyn.runtime.types import Array, Weights


class Layer(NamedTuple):
    """The shape of one affine layer.

    Attributes:
        shape: of its weight: (kernel, kernel, channels in, channels out), or (outputs, inputs).
        fan_in: the number of inputs of one of its outputs.
        outputs: the number of outputs, which is that of the biases.
    """

    shape: tuple[int, ...]
    fan_in: int
    outputs: int


def convolution(kernel: int, before: int, channels: int) -> Layer:
    """A convolution with square windows."""
    return Layer((kernel, kernel, before, channels), kernel * kernel * before, channels)


def dense(inputs: int, outputs: int) -> Layer:
    """A dense layer."""
    return Layer((outputs, inputs), inputs, outputs)


class AbstractImageNetwork(AbstractNetwork):
    """A network of images (height, width, channels), made of affine layers.

    It states `layers(input_shape)`; weights are a tuple of `Affine`, one per layer, in that order,
    drawn by the distribution of `affine.draw`.
    """

    outputs: eqx.AbstractVar[int]
    parameterisation: eqx.AbstractVar[str]
    bias: eqx.AbstractVar[bool]
    output: eqx.AbstractVar[str]
    gain: eqx.AbstractVar[np.ndarray]

    @abc.abstractmethod
    def layers(self, input_shape: tuple[int, ...]) -> list[Layer]:
        """The affine layers, in the order in which they are applied."""

    def applied(self, weights: Iterable[affine.Affine]) -> "AppliedLayers":
        """Applies the layers in their order, with nodes called "layer1", "layer2", …."""
        return AppliedLayers(enumerate(weights, 1), self.parameterisation)

    @property
    def input_shape(self) -> Shape | None:
        return (None, None, None)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return () if self.outputs == 1 else (self.outputs,)

    @property
    def gives_logits(self) -> bool:
        return self.output == "identity"

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        draw = lambda layer: affine.draw(
            rng, layer.shape, layer.fan_in, self.parameterisation, self.gain,
            layer.outputs if self.bias else None,
        )  # fmt: skip
        return tuple(draw(layer) for layer in self.layers(input_shape))

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        layers = self.layers(input_shape)
        return tuple(affine.like(l.shape, l.outputs if self.bias else None) for l in layers)

    def check_sides(self, input_shape: tuple[int, ...], multiple: int) -> None:
        """Raises a ValueError if the sides of images are not multiples of a number."""
        if any(side % multiple for side in input_shape[:2]):
            allowed = f"sides that are multiples of {multiple}"
            raise ValueError(f"network: got inputs of shape {input_shape}; allowed are {allowed}")


class AppliedLayers(NamedTuple):
    """Layers of which each call applies the next one.

    Attributes:
        layers: (number of the layer, its weights), from the first layer on.
        parameterisation: "ntk" or "standard".
    """

    layers: Iterator[tuple[int, affine.Affine]]
    parameterisation: str

    def convolution(self, x: Array, stride: int = 1) -> Array:
        """The next layer, a convolution."""
        i, layer = next(self.layers)
        return affine.convolution(f"layer{i}", layer, x, self.parameterisation, stride)

    def dense(self, x: Array) -> Array:
        """The next layer, a dense one."""
        i, layer = next(self.layers)
        return affine.dense(f"layer{i}", layer, x, self.parameterisation)


def pooled(x: Array, side: int) -> Array:
    """Means over squares of side × side pixels, (batch, height/side, width/side, channels)."""
    n, height, width, channels = x.shape
    split = x.reshape(n, height // side, side, width // side, side, channels)
    return split.mean((2, 4))


def mean_pixel(x: Array) -> Array:
    """The mean over all pixels, (batch, channels)."""
    return x.reshape(len(x), math.prod(x.shape[1:3]), -1).mean(1)
