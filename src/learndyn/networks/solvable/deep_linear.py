"""Deep linear networks: products of matrices."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.parts.affine import Affine
from learndyn.networks.parts.dense_layers import DenseLayers
from learndyn.networks.parts.layer_initialisation import AbstractLayers, Xavier
from learndyn.runtime import checks
from learndyn.runtime.types import Array, Weights
from learndyn.tangent.taps import tap


class DeepLinear(AbstractNetwork):
    """output = w_d ⋯ w_1 x, for a tuple of weights w_i of shape (widths[i], widths[i−1]).

    There is no factor 1/√N. Nodes are called "layer1" … "layer<depth>".

    Args:
        widths: from input to output, at least two; depth d is one less than their number.
        init: the distribution of the layers, `Xavier()` by default.

    Raises:
        ValueError: for fewer than two widths, widths that are not positive, or an `init` of
            another kind.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.DeepLinear([3, 5, 2])
        >>> network.depth, network((np.ones((5, 3)), np.ones((2, 5))), np.ones((1, 3))).tolist()
        (2, [[15.0, 15.0]])
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    init: AbstractLayers

    def __init__(self, widths: Sequence[int], *, init: AbstractLayers | None = None):
        self.widths = checks.widths("widths", widths)
        initialisation = Xavier() if init is None else init
        allowed = "a distribution of layers such as Xavier, SmallRandom or Aligned"
        self.init = checks.instance("init", initialisation, AbstractLayers, allowed)

    @property
    def depth(self) -> int:
        """The number d of layers of weights."""
        return len(self.widths) - 1

    @property
    def accepts_single_example(self) -> bool:
        return True

    @property
    def is_linear(self) -> bool:
        return True

    @property
    def is_matrix_product(self) -> bool:
        return True

    def dense_layers(self, weights: Weights) -> DenseLayers | None:
        return DenseLayers([Affine(w, None) for w in weights], ["linear"] * len(weights))

    @property
    def input_shape(self) -> Shape | None:
        return self.widths[:1]

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return self.widths[-1:]

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        if input_shape != self.widths[:1]:
            came, allowed = self.widths[0], ", ".join(map(str, input_shape))
            raise ValueError(f"widths: got {came} inputs; allowed is the problem's {allowed}")

    def __call__(self, weights: Weights, x: Array) -> Array:
        for i, w in enumerate(weights, 1):
            x = tap(f"layer{i}", x @ w.T)
        return x

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        return self.init.sample(rng, self.widths, target)

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        pairs = zip(self.widths[1:], self.widths[:-1], strict=True)
        return tuple(jax.ShapeDtypeStruct(pair, np.float64) for pair in pairs)
