"""A function with its weights."""

import equinox as eqx

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.numerics.types import Array


class Model(eqx.Module):
    """A network at given weights: what probes look at.

    Args:
        network: the function.
        weights: its weights.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> float(model(np.ones((3, 4)))[0])
        2.0
    """

    network: AbstractNetwork
    weights: Weights

    def __call__(self, x: Array) -> Array:
        return self.network(self.weights, x)
