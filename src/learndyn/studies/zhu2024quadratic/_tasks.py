"""The data sets and networks of App. B.14's test losses: two classes, one output.

Inputs are centred and scaled by mean and standard deviation of all entries of the training
examples. The loss is the mean of r² with labels ±1. The thesis does not say which classes of MNIST
and AG News are learned: here the digits 3 and 5, and World and Business, the first and the third
(as for CIFAR-10); for FSDD the digits 1 and 3, as in Figs. B.8-B.9. A panel is named by its data,
network, activation and rule: "cifar10 cnn relu gd".
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.problems.readers import files, idx
from learndyn.problems.readers.ag_news import ag_news
from learndyn.problems.readers.fsdd import fsdd
from learndyn.problems.readers.svhn import svhn
from learndyn.runtime.checks import one_of

BATCH = 32


class _Source(NamedTuple):
    """Where examples come from, the two classes, and the training examples of App. B.14."""

    read: Callable[[], Any]
    classes: tuple[int, int]
    examples: int


SOURCES = {
    "mnist": _Source(idx.mnist, (3, 5), 128),
    "fashion": _Source(idx.fashion_mnist, (0, 2), 128),
    "cifar10": _Source(files.cifar10, (0, 2), 256),
    "svhn": _Source(svhn, (0, 2), 256),
    "fsdd": _Source(fsdd, (1, 3), 256),
    "agnews": _Source(ag_news, (0, 2), 128),
    "digits": _Source(files.digits, (3, 5), 64),
}
WORDS = {"fc2": "2-layer FC", "fc3": "3-layer FC", "cnn": "2-layer CNN", "gd": "GD", "sgd": "SGD"}


class Panel(NamedTuple):
    """What is trained on what, and how."""

    data: str
    network: str
    activation: str
    rule: str

    @classmethod
    def of(cls, text: str) -> "Panel":
        """The panel of a name.

        Raises:
            ValueError: for another text.
        """
        parts = text.split()
        if len(parts) != len(cls._fields):
            raise ValueError(f"panels: got {text!r}; allowed is 'data network activation rule'")
        allowed = tuple(SOURCES), ("fc2", "fc3", "cnn"), ("relu", "tanh", "swish"), ("gd", "sgd")
        return cls(*(one_of("panels", *each) for each in zip(parts, allowed, strict=True)))

    @property
    def label(self) -> str:
        """For claims and figures."""
        return f"{self.data}, {WORDS[self.network]}, {self.activation}, {WORDS[self.rule]}"


@functools.lru_cache(maxsize=1)  # panels of one data set follow each other
def _read(data: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Examples of the two classes, whether they are of the second, and what the data is."""
    source = SOURCES[data]
    examples = source.read()
    mine = np.isin(examples.labels, source.classes)
    x = (
        np.moveaxis(examples.pixels[mine], 1, -1)
        if hasattr(examples, "pixels")
        else examples.x[mine]
    )
    about, *how = examples.name.split(", ")
    name = ", ".join([about, "classes {} and {}".format(*source.classes), *how[1:]])
    return x, (examples.labels[mine] == source.classes[1]).astype(np.int32), name


def task(panel: Panel, examples: int, test: int, key: int) -> tuple[ld.Dataset, str]:
    """Random examples, and what they are called.

    Args:
        panel: which data, and whether images stay images.
        examples: to train on; 0 for as many as in App. B.14.
        test: to test on, at most.
        key: seed of the choice.

    Returns:
        The data set, and its name.
    """
    x, y, name = _read(panel.data)
    n = examples or SOURCES[panel.data].examples
    order = np.random.default_rng([key, 2]).permutation(len(x))[: n + test]
    x, y = x[order].astype(np.float32), y[order]
    x = (x - x[:n].mean()) / x[:n].std()
    x = x if panel.network == "cnn" else x.reshape(len(x), -1)
    data = ld.Dataset(x[:n], y[:n], loss_scale=1.0, test=(x[n:], y[n:]))
    return data, f"{name}, {n} to train, {len(x) - n} to test"


def network(panel: Panel, inputs: tuple[int, ...], width: int, channels: int) -> AbstractNetwork:
    """The network f: without biases, in the NTK parameterisation."""
    if panel.network == "cnn":
        return ld.CNN([channels], 3, 1, panel.activation)
    hidden = [width] * (int(panel.network[-1]) - 1)
    return ld.MLP([*inputs, *hidden, 1], panel.activation)


def rule(panel: Panel, rate: float) -> Any:
    """Gradient descent, or SGD in shuffled passes of batches of 32."""
    if panel.rule == "gd":
        return ld.GradientDescent(rate)
    return ld.SGD(rate, batch=BATCH, sampling="epochs")
