"""What networks of fully connected layers have in common."""

from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.parts import affine
from learndyn.runtime.types import Array, Weights


class AbstractLayered(AbstractNetwork):
    """A network of vectors whose layers have given widths, input first.

    Weights are a tuple of `Affine`, one per layer. Each layer sees the one before it, unless a
    network overrides `shapes`.
    """

    widths: eqx.AbstractVar[tuple[int, ...]]
    parameterisation: eqx.AbstractVar[str]
    bias: eqx.AbstractVar[bool]
    output: eqx.AbstractVar[str]
    gain: eqx.AbstractVar[np.ndarray]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(neurons, inputs) of every layer."""
        return list(zip(self.widths[1:], self.widths[:-1], strict=True))

    @property
    def input_shape(self) -> Shape | None:
        return self.widths[:1]

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return () if self.widths[-1] == 1 else self.widths[-1:]

    @property
    def gives_logits(self) -> bool:
        return self.output == "identity"

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        return tuple(
            affine.draw(rng, (n, m), m, self.parameterisation, self.gain, n if self.bias else None)
            for n, m in self.shapes
        )

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return tuple(affine.like((n, m), n if self.bias else None) for n, m in self.shapes)
