"""Deep linear networks: products of matrices."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.networks.layers import AbstractLayers, Xavier
from learndyn.numerics.checks import positive_int
from learndyn.numerics.types import Array


class DeepLinear(AbstractNetwork):
    """output = w_d ⋯ w_1 x, for a tuple of weights w_i of shape (widths[i], widths[i−1]).

    No factor 1/√N anywhere; time is counted in steps.

    Args:
        widths: from input to output, at least two; depth d is one less than their number.
        init: how the layers are drawn.
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    init: AbstractLayers

    def __init__(self, widths: Sequence[int], *, init: AbstractLayers | None = None):
        if len(widths) < 2:
            raise ValueError(f"widths: got {tuple(widths)}; allowed are at least two widths")
        self.widths = tuple(positive_int("widths", width) for width in widths)
        self.init = Xavier() if init is None else init

    @property
    def depth(self) -> int:
        """The number d of layers of weights."""
        return len(self.widths) - 1

    @property
    def outputs(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.widths[-1]

    def check_input(self, dim: int) -> None:
        if dim != self.widths[0]:
            raise ValueError(f"widths: got {self.widths[0]} inputs; allowed is the problem's {dim}")

    def __call__(self, weights: Weights, x: Array) -> Array:
        for w in weights:
            x = x @ w.T
        return x

    def sample(self, rng: np.random.Generator, dim: int, target: Array | None = None) -> Weights:
        return self.init.sample(rng, self.widths, target)

    def steps_per_time(self, dim: int) -> int:
        return 1

    @property
    def time_unit(self) -> str:
        return "steps"
