"""Fully connected networks with skip connections."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.dense.layered import AbstractLayered
from learndyn.networks.parts import affine
from learndyn.runtime import checks
from learndyn.runtime.bounds import COUNT, POSITIVE, bounded
from learndyn.runtime.types import Array, Number, Weights


@bounded(skip=COUNT, gain=POSITIVE)
class ResidualMLP(AbstractLayered):
    """f_l = g(h_l) + f_{l−skip}, h_l = s_l W_l f_{l−1} + b_l, Eq. A.12 of zhu2024linearity.

    The skip connection has the factor 1 and no weight. It joins hidden layers only (l > skip), so
    that these must have one width; the output is a map of the last h. Scalings, distributions and
    weights are those of `MLP`, and so are the names of the nodes, which are the h_l.

    Args:
        widths: from input to output, at least two; hidden widths that a skip joins must be equal.
        activation: as in `MLP`.
        skip: number of layers that a connection skips, at least 1.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: map of the last pre-activation: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights.

    Raises:
        ValueError: for hidden widths that a skip joins and that differ, an unknown
            activation, or another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> ld.ResidualMLP([10, 64, 64, 1], "tanh").output_shape((10,))
        ()
    """

    widths: tuple[int, ...] = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    skip: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray

    def __init__(
        self,
        widths: Sequence[int],
        activation: Any,
        *,
        skip: int = 1,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        self.widths = checks.widths("widths", widths)
        self.skip = checks.positive_int("skip", skip)
        hidden = self.widths[1:-1]
        # A connection adds layer l to layer l + skip without a weight, so they need equal widths.
        for before, after in zip(hidden, hidden[self.skip :], strict=False):
            if before != after:
                came = f"hidden widths {before} and {after}"
                raise ValueError(
                    f"widths: got {came}, which a skip joins; allowed are equal widths"
                )
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, f = affine.function(self.activation), [x]  # f[l] are the neurons of layer l
        for i, layer in enumerate(weights[:-1], 1):
            h = affine.dense(f"layer{i}", layer, f[-1], self.parameterisation)
            f.append(g(h) + f[i - self.skip] if i > self.skip else g(h))
        h = affine.dense(f"layer{len(weights)}", weights[-1], f[-1], self.parameterisation)
        return affine.finish(h, self.output)
