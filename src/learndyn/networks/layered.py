"""What networks of fully connected layers have in common."""

from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape


class AbstractLayered(AbstractNetwork):
    """A network of vectors that states its widths, input first, and the map of its outputs."""

    widths: eqx.AbstractVar[tuple[int, ...]]
    output: eqx.AbstractVar[str]

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
