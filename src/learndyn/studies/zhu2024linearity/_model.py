"""The chapter's networks by name, their random weights, and tolerances of exponents over width.

Widths m are hidden widths; inputs have D entries, weights are N(0, 1), every neuron has the
factor 1/√in(v). Inputs, graphs and weights each have their own random stream.
"""

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.runtime.types import Array
from learndyn.studies.claims import Tolerance
from learndyn.studies.statistics import exponents

D = 16
NARROW = 2  # neurons of a bottleneck layer
SIDE = 4  # images of a convolution have SIDE² = D pixels
HALF = -0.5  # the exponent of Thm 2.3.6
STAYS = 0.0  # that of a norm which does not decay
BETWEEN = Tolerance(0.25, "half of the way between −1/2 and 0: which of the two it is")


def _pairs(sources: range, neurons: range) -> list[tuple[int, int]]:
    return [(u, v) for v in neurons for u in sources]


def _layers(*sizes: int) -> list[range]:
    """The vertices of layers of given sizes, numbered on."""
    ends = np.cumsum((0, *sizes))
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def few_links(m: int, count: int) -> ld.DAG:
    """Two hidden layers; in the second, neuron j < count sees neuron j of the first alone."""
    x, first, second, out = _layers(D, m, m, 1)
    single = list(zip(first[:count], second[:count], strict=True))
    edges = [*_pairs(x, first), *single, *_pairs(first, second[count:]), *_pairs(second, out)]
    return ld.DAG(edges, "tanh")


def _repaired(m: int) -> ld.DAG:
    """A bottleneck layer whose successors also see the wide layer before it (App. A.6)."""
    x, first, narrow, second, out = _layers(D, m, NARROW, m, 1)
    edges = [*_pairs(x, first), *_pairs(first, narrow), *_pairs(second, out)]
    edges += [*_pairs(first, second), *_pairs(narrow, second)]
    return ld.DAG(edges, "tanh")


NETWORKS: dict[str, Callable[[int], Any]] = {
    "fully connected": lambda m: ld.MLP([D, m, m, 1], "tanh"),
    "fully connected, relu": lambda m: ld.MLP([D, m, m, 1], "relu"),
    "skip connections": lambda m: ld.ResidualMLP([D, m, m, 1], "tanh"),
    "two bottleneck neurons": lambda m: few_links(m, 2),
    "bottleneck layer, repaired by links": _repaired,
    "convolution": lambda m: ld.CNN([m // 4, m // 4], 3, 1, "tanh"),
    "bottleneck layer": lambda m: ld.MLP([D, m, NARROW, m, 1], "tanh"),
    "non-linear output": lambda m: ld.MLP([D, m, m, 1], "tanh", output="tanh"),
}


def inputs(name: str, count: int, key: int) -> np.ndarray:
    """Normal inputs; images for the convolution."""
    x = np.random.default_rng([key, 1]).standard_normal((count, D))
    return x.reshape(count, SIDE, SIDE, 1) if name == "convolution" else x


def drawn(network: Any, shape: tuple[int, ...], key: int) -> ld.Model:
    """The network with weights of its own."""
    return ld.Model(network, network.sample(np.random.default_rng([key, 2]), shape))


class Weighted(eqx.Module):
    """Σ u_i f_i of the outputs f of several examples, whose Hessian is then looked at."""

    u: Array

    def __call__(self, outputs: Array) -> Array:
        return self.u @ outputs


def logarithms(widths: xr.DataArray, power: float) -> float:
    """What a factor (ln m)^power adds to an exponent that is fitted over these widths."""
    return _shift(widths, np.log(widths.values) ** power)


def _shift(widths: xr.DataArray, factor: np.ndarray) -> float:
    return float(exponents(xr.DataArray(factor, {"width": widths.values}, "width"), "width"))


def finite_widths(widths: xr.DataArray) -> Tolerance:
    """By how much a factor 1 + m^(−1/2) moves an exponent."""
    because = "a relative correction m^(−1/2), coefficient one"
    return Tolerance(abs(_shift(widths, 1 + widths.values**-0.5)), because)
