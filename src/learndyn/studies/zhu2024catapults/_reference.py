"""Tasks of images, and strong networks whose AGOP stands for that of the target (App. C.6).

The thesis has Wide ResNets 16-2 and 5-layer Myrtle networks, and for USPS a 5-layer CNN; the quick
presets have a small convolutional one. All are trained by Adam on the whole pool, and tested on
images that neither they nor the networks under study learn from.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import optax

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.studies.zhu2024catapults._data import images
from learndyn.studies.zhu2024catapults._features import Task, flat, with_weights

STREAM = 9  # of the initial weights of references
RATE, BATCH = 2e-3, 32  # of Adam
SLICE = 256  # images whose gradients are in memory at once

Labelled = tuple[np.ndarray, np.ndarray]


class Pool(NamedTuple):
    """Images with labels from which tasks are drawn, and their number of classes.

    `agop` is that of the reference network on the images of `train`, `accuracy` that on `test`.
    """

    name: str
    train: Labelled
    validation: Labelled
    test: Labelled
    classes: int
    agop: np.ndarray
    accuracy: float


def network_of(kind: str, outputs: int) -> AbstractNetwork:
    """A reference network by its name: "cnn", "myrtle" or "wide_resnet"."""
    options = {"parameterisation": "standard", "gain": np.sqrt(2), "bias": True}
    if kind == "cnn":
        return ld.CNN([16, 32], 3, outputs, "relu", **options)
    if kind == "myrtle":
        return ld.Myrtle(64, outputs, **options)
    return ld.WideResNet(16, 2, outputs, **options)


@functools.lru_cache(maxsize=4)
def pool_of(
    data: str,
    classes: Sequence[int],
    sizes: Sequence[int],
    kind: str,
    epochs: int,
    *,
    key: int,
    parity: bool = False,
) -> Pool:
    """Images of some classes, and a reference network trained on them.

    `data` is a name that `images` knows; sizes are for training, validation and testing. With
    `parity` the task is to tell odd classes from even ones.
    """
    sets = images(data, sizes, key, classes)
    train, validation, test = (
        (each.x.astype(np.float32), _labels(each.y, parity)) for each in sets
    )
    number = 2 if parity else len(classes)
    problem = ld.Dataset(*train, loss=ld.SquaredLoss(1.0), test=test)
    network = network_of(kind, number if number > 2 else 1)
    model, accuracy = _trained(problem, network, key, epochs)
    name = sets[0].name.rpartition(",")[0] + (", odd or even" if parity else "")
    return Pool(name, train, validation, test, number, _agop(model, train[0]), accuracy)


def _agop(model: ld.Model, x: np.ndarray) -> np.ndarray:
    """The AGOP on many images, slice by slice."""
    agop = np.zeros((x[0].size, x[0].size))
    for first in range(0, len(x), SLICE):
        part = x[first : first + SLICE]
        agop += len(part) / len(x) * np.asarray(ld.probes.agop(model, part))
    return agop


def _trained(
    problem: ld.Dataset, network: AbstractNetwork, key: int, epochs: int
) -> tuple[ld.Model, float]:
    """The network after some epochs of Adam, and its accuracy on the test set."""
    steps = epochs * (len(problem.x) // BATCH)
    schedule = optax.cosine_decay_schedule(RATE, steps)
    rule = ld.Optax(optax.adam(schedule), batch=BATCH, sampling="epochs")
    system = ld.System(problem, network, rule)
    weights = network.sample(np.random.default_rng([key, STREAM]), problem.input_shape)
    start = ld.start(system, weights=weights)
    record = ld.simulate(system, [steps], start=start, key=key, probes={"weights": flat})
    last = record.isel(run=0, time=-1)
    model = with_weights(ld.Model(network, weights), last["weights"].values)
    return model, float(last["test_accuracy"])


def _labels(y: np.ndarray, parity: bool) -> np.ndarray:
    """Classes as integers, from −1 and 1 or from unit vectors."""
    classes = (y > 0).astype(int) if y.ndim == 1 else y.argmax(axis=1)
    return classes % 2 if parity else classes


def image_task(pool: Pool, n: int, seed: int, *, label_noise: float = 0.0) -> Task:
    """Images as vectors, n of a pool to train on, with the AGOP of its reference network.

    `label_noise` is the fraction of training labels that are replaced by another class.
    """
    rng = np.random.default_rng([seed, 8])
    x, labels = pool.train
    index = rng.permutation(len(x))[:n]
    y = labels[index].copy()
    wrong = rng.permutation(n)[: round(label_noise * n)]
    y[wrong] = (y[wrong] + rng.integers(1, pool.classes, len(wrong))) % pool.classes
    vectors = lambda pair: (pair[0].reshape(len(pair[0]), -1), pair[1])
    loss = ld.SquaredLoss(1 / pool.classes if pool.classes > 2 else 1.0)
    validation, test = vectors(pool.validation), vectors(pool.test)
    data = ld.Dataset(*vectors((x[index], y)), loss=loss, validation=validation, test=test)
    noisy = f", {100 * label_noise:g} % of labels wrong" if label_noise else ""
    return Task(f"{pool.name}{noisy}", data, pool.agop, accuracy=pool.accuracy)
