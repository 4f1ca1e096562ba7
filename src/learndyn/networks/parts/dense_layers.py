"""Dense layers that are applied one after the other, and the kinds of activations between them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from learndyn.networks.parts.affine import Affine

# Where activations are evaluated to tell their kind: both signs, and from tiny to large.
POINTS = np.array([-1.0, 1.0, -1e4, -3.7, -0.31, -1e-3, 1e-3, 0.22, 5.3, 1e4], np.float32)


class DenseLayers(NamedTuple):
    """Dense layers and the kinds of the activations that follow them.

    Attributes:
        layers: from input to output, weight (outputs, inputs).
        kinds: of the activation after each layer: "linear", "relu" or "other".
    """

    layers: list[Affine]
    kinds: list[str]

    @staticmethod
    def from_parts(parts: Sequence[Any]) -> "DenseLayers":
        """From layers (`Affine`) and kinds of activations (`str`), in the order of application.

        An activation before the first layer counts as "other", in front of those of the layers.
        """
        layers: list[Affine] = []
        kinds: list[str] = []
        for part in parts:
            if isinstance(part, Affine):
                layers, kinds = [*layers, part], [*kinds, "linear"]
            elif part == "other" or not layers:
                kinds = [*kinds[:-1], "other"]
            elif part != "linear":
                kinds = [*kinds[:-1], part]
        return DenseLayers(layers, kinds)


def kind_of(activation: Callable[[np.ndarray], Any]) -> str:
    """The kind of an activation: "linear", "relu" or "other".

    "relu" is any positively homogeneous function, leaky ones included. The kind is determined from
    values at several points, since names and wrappers differ between libraries.
    """
    with jax.ensure_compile_time_eval():  # activations have no weights: known even while tracing
        values = np.asarray(activation(POINTS))
    if values.shape != POINTS.shape:  # not a function of single entries
        return "other"
    if np.allclose(values, POINTS, rtol=1e-6, atol=0):
        return "linear"
    # The first two points are ∓1, where the values are the slopes on both sides of 0.
    slopes = np.where(POINTS > 0, values[1], -values[0])
    return "relu" if np.allclose(values, slopes * POINTS, rtol=1e-6, atol=0) else "other"
