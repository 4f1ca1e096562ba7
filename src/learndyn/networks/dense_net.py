"""Fully connected networks in which every layer sees all earlier ones."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import affine, links
from learndyn.networks.base import Weights
from learndyn.networks.layered import AbstractLayered
from learndyn.networks.links import Links
from learndyn.numerics import checks
from learndyn.numerics.types import Array, Number


class DenseNet(AbstractLayered):
    """h_l = s_l W_l (x, g(h_1), …, g(h_{l−1})) + b_l, Eqs. A.5-A.6 of zhu2024linearity.

    In the parameterisation "ntk" s_l = 1/√(number of all earlier neurons, inputs included); where
    links are dropped, every neuron has its own factor, 1/√(links that it has left). Weights are a
    tuple of `Affine(weight, bias)`, weight (neurons, all earlier neurons), zero where a link is
    dropped; nodes are called "layer1" … "layer<depth>". One output gives a scalar.

    Args:
        widths: from input to output, at least two.
        activation: as in `MLP`.
        dropped: probability with which each link is dropped, once and for all; every neuron
            keeps one at least.
        key: seed of which links are dropped.
        parameterisation: "ntk" or "standard", as in `MLP`.
        bias: whether layers have biases.
        output: "identity", "softmax", "sigmoid" or "tanh" of the last pre-activation.
        gain: factor of the initial weights.
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
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
        activation: str,
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
        self.links = tuple(self._left(i, n, m) for i, (n, m) in enumerate(self._shapes))

    def _left(self, layer: int, neurons: int, sources: int) -> Links | None:
        if self.dropped == 0:
            return None
        rng = np.random.default_rng([self.key, layer])
        return links.dropped_links(rng, np.ones((neurons, sources), bool), self.dropped)

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        """(neurons, all earlier neurons) of every layer."""
        return list(zip(self.widths[1:], itertools.accumulate(self.widths[:-1]), strict=True))

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, h = affine.FUNCTIONS[self.activation], x
        for i, (layer, kept) in enumerate(zip(weights, self.links, strict=True), 1):
            x = x if i == 1 else jnp.concatenate([x, g(h)], axis=-1)
            h = links.layer(f"layer{i}", layer, x, kept, self.parameterisation)
        return affine.finish(h, self.output)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        pairs = zip(self._shapes, self.links, strict=True)
        options = self.parameterisation, self.gain, self.bias
        return tuple(links.draw(rng, shape, kept, *options) for shape, kept in pairs)

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return tuple(affine.like((n, m), n if self.bias else None) for n, m in self._shapes)
