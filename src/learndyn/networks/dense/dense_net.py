"""Fully connected networks in which every layer sees all earlier ones."""

import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks.dense import links
from learndyn.networks.dense.layered import AbstractLayered
from learndyn.networks.dense.links import Links
from learndyn.networks.parts import affine
from learndyn.runtime import checks
from learndyn.runtime.bounds import FRACTION, POSITIVE, bounded
from learndyn.runtime.types import Array, Number, Weights


@bounded(dropped=FRACTION, gain=POSITIVE)
class DenseNet(AbstractLayered):
    """h_l = s_l W_l (x, g(h_1), …, g(h_{l−1})) + b_l, Eqs. A.5-A.6 of zhu2024linearity.

    In the parameterisation "ntk" s_l = 1/√(number of all earlier neurons, inputs included); if
    links are dropped, every neuron has its own factor, 1/√(its remaining links). Weights are a
    tuple of `Affine(weight, bias)`, weight (neurons, all earlier neurons), zero where a link is
    dropped; nodes are called "layer1" … "layer<depth>". A single output is a scalar.

    Args:
        widths: from input to output, at least two.
        activation: as in `MLP`.
        dropped: probability with which each link is dropped, before training; every neuron keeps at
            least one.
        key: seed of the dropped links.
        parameterisation: "ntk" or "standard", as in `MLP`.
        bias: whether layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights.

    Raises:
        ValueError: for widths that are not positive integers, an unknown activation, or
            another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.DenseNet([10, 64, 64, 1], "tanh", dropped=0.5).output_shape((10,))
        ()
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    dropped: np.ndarray
    key: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray
    links: tuple[Links | None, ...] = eqx.field(init=False)

    def __init__(
        self,
        widths: Sequence[int],
        activation: Any,
        *,
        dropped: Number = 0.0,
        key: int = 0,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.widths = checks.widths("widths", widths)
        self.dropped, self.key = checks.fraction("dropped", dropped), checks.seed("key", key)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )
        self.links = tuple(self._remaining(i, n, m) for i, (n, m) in enumerate(self.shapes))

    def _remaining(self, layer: int, neurons: int, sources: int) -> Links | None:
        if self.dropped == 0:
            return None  # all links exist, and `links.layer` needs no mask
        # One generator per layer: its links do not depend on how many numbers other layers draw.
        rng = np.random.default_rng([self.key, layer])
        return links.dropped_links(rng, np.ones((neurons, sources), bool), self.dropped)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(neurons, all earlier neurons) of every layer."""
        return list(zip(self.widths[1:], itertools.accumulate(self.widths[:-1]), strict=True))

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, h = affine.function(self.activation), x
        # x grows by the activities of one layer at a time; the inputs come first, without g.
        for i, (layer, kept) in enumerate(zip(weights, self.links, strict=True), 1):
            x = x if i == 1 else jnp.concatenate([x, g(h)], axis=-1)
            h = links.layer(f"layer{i}", layer, x, kept, self.parameterisation)
        return affine.finish(h, self.output)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        pairs = zip(self.shapes, self.links, strict=True)
        options = self.parameterisation, self.gain, self.bias
        return tuple(links.draw(rng, shape, kept, *options) for shape, kept in pairs)
