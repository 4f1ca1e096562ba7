"""The kernels of infinitely wide networks, layer by layer.

At infinite width the pre-activations h_l of a layer are Gaussian over initialisations, independent
between neurons, with covariance S_l(x, x'); the tangent kernel T_l of a neuron no longer depends
on the weights. With v the variance of the biases, b = 1 where biases learn and 0 elsewhere, and
C_l = ⟨f_l f_l'⟩, the average over the neurons of layer l (of the input entries for l = 0),

    S_l = gain² A C_{l−1} + v,    T_l = c_l A C_{l−1} + b + gain² A D_{l−1},    D_0 = 0
    C_l = E[g g'](S_l),           D_l = E[ġ ġ'](S_l) T_l

(Jacot et al. 2018; Lee et al. 2019). A averages over the pixels that a neuron sees, and is 1 in a
fully connected layer. The gain is in the distribution of the weights and not in front of them, so
that the weights' own term lacks it. c_l = 1 in the parameterisation "ntk". In "standard" it is the
number of inputs of the layer, which diverges: T is given per neuron of the last hidden layer, so
that c_l is a ratio of widths, and the first layer and the biases drop out.

A skip connection f_l = g(h_l) + f_{l−skip} adds a sum that is independent of h_l at infinite width:

    C_l = E[g g'] + E[g] m'_{l−skip} + m_{l−skip} E[g'] + C_{l−skip}
    D_l = E[ġ ġ'] T_l + D_{l−skip}

with the means m_l = E[g](S_l) + m_{l−skip}. Products of the two gradients vanish likewise.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from learndyn.numerics.gaussian import AbstractActivation, entrywise

Average = Callable[[np.ndarray], np.ndarray]  # of (n, n', *pixels) over the pixels of a neuron


class Layer(NamedTuple):
    """An affine layer.

    Attributes:
        average: A, over the pixels that a neuron sees.
        own: c_l, the factor of the weights' own term in the tangent kernel.
    """

    average: Average
    own: float


class Wide(NamedTuple):
    """A network as the recursion sees it.

    Attributes:
        activation: g.
        layers: from input to output.
        gain: of the weights.
        bias_variance: v.
        bias_learns: b.
        skip: layers that a connection skips; None without connections.
    """

    activation: AbstractActivation
    layers: tuple[Layer, ...]
    gain: float
    bias_variance: float
    bias_learns: float
    skip: int | None


class Pair(NamedTuple):
    """A quantity of x with itself, of x with x', and of x' with itself."""

    left: np.ndarray
    both: np.ndarray
    right: np.ndarray

    def map(self, function: Callable[..., Any], *others: "Pair") -> "Pair":
        """The function of each of the three."""
        return Pair(*(function(*parts) for parts in zip(self, *others, strict=True)))


class Kernels(NamedTuple):
    """The covariance of the outputs, and the tangent kernels of all layers and of the last one."""

    nngp: np.ndarray
    ntk: np.ndarray
    last: np.ndarray


def kernels(wide: Wide, inputs: Pair) -> Kernels:
    """The kernels (n, n') of one output.

    Args:
        wide: the network.
        inputs: C_0: (n, *pixels), (n, n', *pixels), (n', *pixels).

    Returns:
        The kernels.
    """
    g, square = wide.activation, wide.gain**2
    # Means m, second moments C and their tangent kernels D of all layers so far.
    m: list[Any] = [None]
    C, D = [inputs], [np.zeros_like(inputs.both)]
    for l, layer in enumerate(wide.layers, 1):
        seen = C[-1].map(layer.average)
        S = seen.map(lambda a: square * a + wide.bias_variance)
        last = layer.own * seen.both + wide.bias_learns
        T = last + square * layer.average(D[-1])
        if l == len(wide.layers):
            return Kernels(S.both, T, last)
        averages = entrywise.pair_averages(g, S.left[:, None], S.both, S.right[None])
        itself = lambda q: entrywise.pair_averages(g, q, q, q).values
        C.append(Pair(itself(S.left), averages.values, itself(S.right)))
        D.append(averages.slopes * T)
        if wide.skip is None:
            continue
        mean = tuple(entrywise.mean(g, q) for q in (S.left, S.right))
        if l > wide.skip:
            C[l] = _joined(C[l], C[l - wide.skip], mean, m[l - wide.skip])
            D[l] = D[l] + D[l - wide.skip]
            mean = tuple(a + b for a, b in zip(mean, m[l - wide.skip], strict=True))
        m.append(mean)
    raise AssertionError("a network has layers")


def _joined(new: Pair, old: Pair, mean: Any, before: Any) -> Pair:
    """The second moments of the sum of two independent neurons."""
    cross = lambda a, b: a[0][:, None] * b[1][None]
    return Pair(
        new.left + old.left + 2 * mean[0] * before[0],
        new.both + old.both + cross(mean, before) + cross(before, mean),
        new.right + old.right + 2 * mean[1] * before[1],
    )
