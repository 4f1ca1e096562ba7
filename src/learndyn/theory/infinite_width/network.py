"""`infinite`: a network of infinite width, of which only kernels are left."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks import CNN, MLP, AbstractNetwork, ResidualMLP
from learndyn.networks.base import Shape
from learndyn.networks.parts import affine
from learndyn.numerics.gaussian import entrywise
from learndyn.runtime.checks import a_kind, finite, numbers, one_of
from learndyn.runtime.types import Array, Weights
from learndyn.theory.infinite_width.recursion import Kernels, Layer, Pair, Wide, kernels

TRAINED = ("all", "last")


class InfiniteNetwork(AbstractNetwork):
    """The limit of a network whose hidden widths, or numbers of channels, go to infinity.

    It has no weights: over initialisations its outputs are a Gaussian process of covariance
    `nngp`, and it learns with the fixed kernel `ntk`. Kernels are those of one output; the outputs
    of a network are independent, with equal kernels. `solve` predicts how it learns a `Dataset`
    by gradient descent on a `SquaredLoss` (`theory.py`); `simulate` needs the finite network.

    In the parameterisation "standard" the tangent kernel grows with the width. `ntk` is then
    that kernel per neuron of the last hidden layer: a learning rate η of the infinite network is
    the rate η/width of a finite one. Hidden widths keep their ratios. A network without hidden
    layers is its own limit.

    Args:
        network: the finite network; its hidden widths matter by their ratios at most.
        train: "all", or "last" if only the last layer learns.

    Raises:
        ValueError: for a network without a known limit, and for `train` other than "all"
            and "last".

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> wide = ld.infinite(ld.MLP([2, 100, 1], "relu"))
        >>> wide.nngp(np.eye(2)).round(4).tolist()
        [[0.25, 0.0796], [0.0796, 0.25]]
    """

    network: MLP | ResidualMLP | CNN
    train: str = eqx.field(static=True)

    def __init__(self, network: Any, train: str = "all"):
        self.train = one_of("train", train, TRAINED)
        _check(network)
        self.network = network

    def kernels(self, x: Array, x2: Array | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`nngp` and `ntk`, in the time of one of them.

        Args:
            x: inputs.
            x2: other inputs; None for the same.

        Returns:
            Both kernels, (n, n') each.

        Raises:
            ValueError: for inputs of another shape, or so large that kernels overflow.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            both = self._kernels(x, x2)
        found = both.nngp, both.ntk if self.train == "all" else both.last
        if not all(np.all(np.isfinite(each)) for each in found):
            raise ValueError("x: got inputs whose kernels overflow; allowed are smaller ones")
        return found

    def nngp(self, x: Array, x2: Array | None = None) -> np.ndarray:
        """The covariance of an output over initialisations, E[f(x) f(x2)].

        Args:
            x: inputs (examples, *input shape).
            x2: other inputs; None for x itself.

        Returns:
            The matrix (examples, examples of x2), float64.
        """
        return self.kernels(x, x2)[0]

    def ntk(self, x: Array, x2: Array | None = None) -> np.ndarray:
        """The tangent kernel of an output, Σ_w ∂f(x)/∂w ∂f(x2)/∂w over the weights that learn.

        Args:
            x: inputs (examples, *input shape).
            x2: other inputs; None for x itself.

        Returns:
            The matrix (examples, examples of x2), float64.
        """
        return self.kernels(x, x2)[1]

    def _kernels(self, x: Any, x2: Any) -> Kernels:
        x = self._inputs("x", x)
        other = x if x2 is None else self._inputs("x2", x2)
        network = self.network
        if isinstance(network, CNN):
            return kernels(*_of_images(network, x, other))
        return kernels(*_of_vectors(network, x, other))

    def _inputs(self, name: str, x: Any) -> np.ndarray:
        array = finite(name, numbers(name, x))
        if array.ndim < 2:
            raise ValueError(f"{name}: got shape {array.shape}; allowed is (examples, …)")
        self.check_input(array.shape[1:])
        return array

    def __call__(self, weights: Weights, x: Array) -> Array:
        raise self._no_weights()

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        raise self._no_weights()

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return None

    def _no_weights(self) -> ValueError:
        came = "an infinite network, which has no weights"
        return ValueError(f"network: got {came}; allowed is the finite one, {self.network!r}")

    @property
    def input_shape(self) -> Shape | None:
        return self.network.input_shape

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return self.network.output_shape(input_shape, dtype)


def infinite(network: AbstractNetwork, *, train: str = "all") -> InfiniteNetwork:
    """The infinitely wide limit of a network: its kernels, and a network for a `System`.

    Args:
        network: an `MLP`, `ResidualMLP` or `CNN` whose output map is the identity.
        train: "all", or "last" if only the last layer learns.

    Returns:
        The limit, with the methods `nngp(x, x2=None)` and `ntk(x, x2=None)`.

    Raises:
        ValueError: for a network whose limit is not known in closed form, with the reason.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> wide = ld.infinite(ld.MLP([2, 512, 1], "relu", gain=2**0.5))
        >>> wide.nngp(np.eye(2)).round(4).tolist()
        [[1.0, 0.3183], [0.3183, 1.0]]
        >>> wide.ntk(np.eye(2)).round(4).tolist()
        [[1.0, 0.1592], [0.1592, 1.0]]
    """
    return InfiniteNetwork(network, train)


def _check(network: Any) -> None:
    """Raises a ValueError for a network without a known limit."""
    if not isinstance(network, MLP | ResidualMLP | CNN):
        came = type(network).__name__ if isinstance(network, AbstractNetwork) else a_kind(network)
        raise ValueError(f"network: got {came}; allowed is ld.MLP, ld.ResidualMLP or ld.CNN")
    if network.output != "identity":
        came = f"the output map {network.output!r}, after which outputs are not Gaussian"
        raise ValueError(f"network: got {came}; allowed is 'identity'")
    g = affine.function(network.activation)
    if not (g.smooth or entrywise.is_closed(g)):
        came = "an activation with kinks, whose averages have no closed form"
        raise ValueError(f"network: got {came}; allowed is a smooth one, or one with a name")
    if isinstance(network, CNN) and network.parameterisation != "ntk":
        why = "whose rates differ by layer at infinite width"
        raise ValueError(f"network: got a CNN in 'standard', {why}; allowed is 'ntk'")


def _of_vectors(network: MLP | ResidualMLP, x: np.ndarray, y: np.ndarray) -> tuple[Wide, Pair]:
    """The description of a fully connected network, and the averages over its inputs' entries."""
    inputs = Pair(np.mean(x * x, 1), x @ y.T / x.shape[1], np.mean(y * y, 1))
    ntk, fan_in = network.parameterisation == "ntk", network.widths[:-1]
    hidden = len(fan_in) > 1
    own = [1.0] * len(fan_in)
    if not ntk:  # per neuron of the last hidden layer; the number of inputs stays finite
        own = [0.0, *(n / fan_in[-1] for n in fan_in[1:])] if hidden else [float(x.shape[1])]
    layers = tuple(Layer(lambda a: a, c) for c in own)
    biased = float(network.bias)
    variance, learns = (biased if ntk else 0.0), (0.0 if hidden and not ntk else biased)
    skip = network.skip if isinstance(network, ResidualMLP) else None
    gain = float(network.gain)
    return Wide(affine.function(network.activation), layers, gain, variance, learns, skip), inputs


def _of_images(network: CNN, x: np.ndarray, y: np.ndarray) -> tuple[Wide, Pair]:
    """The description of a convolutional network. Only equal pixels of x and x' ever meet."""
    channels = x.shape[-1]
    both = np.einsum("ihwc,jhwc->ijhw", x, y) / channels
    inputs = Pair(np.mean(x * x, -1), both, np.mean(y * y, -1))
    windows = [Layer(_windows(network.kernel, stride), 1.0) for stride in network.stride]
    everywhere = Layer(lambda a: np.mean(a, axis=(-2, -1)), 1.0)
    biased, gain = float(network.bias), float(network.gain)
    layers = (*windows, everywhere)
    return Wide(affine.function(network.activation), layers, gain, biased, biased, None), inputs


def _windows(kernel: int, stride: int) -> Callable[[np.ndarray], np.ndarray]:
    """The average over the kernel² pixels of each window; those outside of the image are 0."""

    def average(a: np.ndarray) -> np.ndarray:
        around = ((kernel - 1) // 2, kernel // 2)
        padded = np.pad(a, [(0, 0)] * (a.ndim - 2) + [around] * 2)
        rows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(-2, -1))
        return np.mean(rows[..., ::stride, ::stride, :, :], axis=(-2, -1))

    return average
