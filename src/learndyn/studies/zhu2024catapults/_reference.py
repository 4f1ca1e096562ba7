"""Tasks of images, and strong networks, whose AGOP stands for that of the target (App. C.6).

The thesis has Wide ResNets 16-2 and 5-layer Myrtle networks. The quick presets have a small
convolutional one. All are trained by Adam on the whole pool, and measured on images that neither
they nor the networks under study learn from.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.studies.zhu2024catapults._data import images
from learndyn.studies.zhu2024catapults._features import Task

STREAM = 9  # of the reference's weights
RATE, BATCH = 2e-3, 32  # of Adam
SLICE = 256  # images whose gradients are held at once

Labelled = tuple[np.ndarray, np.ndarray]


class Pool(NamedTuple):
    """Images to draw tasks from, and what a strong network makes of them.

    Attributes:
        name: what they are.
        train: images and labels to learn from.
        validation: likewise, to validate on.
        test: likewise, to test on.
        classes: their number.
        agop: that of the reference on the images of `train`.
        accuracy: of the reference on those of `test`.
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
    same = {"parameterisation": "standard", "gain": np.sqrt(2), "bias": True}
    if kind == "cnn":
        return ld.CNN([16, 32], 3, outputs, "relu", **same)
    return (
        ld.Myrtle(64, outputs, **same)
        if kind == "myrtle"
        else ld.WideResNet(16, 2, outputs, **same)
    )


@functools.lru_cache(maxsize=4)
def pool_of(
    data: str,
    classes: Sequence[int],
    sizes: Sequence[int],
    key: int,
    kind: str,
    epochs: int,
    *,
    parity: bool = False,
) -> Pool:
    """Images of some classes, and a reference network trained on them.

    Args:
        data: where they come from, as `images` names it.
        classes: labels taken.
        sizes: images to train, validate and test on.
        key: of the draw and of the network.
        kind: of reference network.
        epochs: that it is trained for.
        parity: whether to learn if the class is odd, rather than the class.

    Returns:
        The pool.
    """
    sets = images(data, sizes, key, classes)
    train, validation, test = (
        (each.x.astype(np.float32), _labels(each.y, parity)) for each in sets
    )
    number = 2 if parity else len(classes)
    outputs = number if number > 2 else 1
    problem = ld.Dataset(*train, loss=ld.SquaredLoss(1.0), test=test)
    model, accuracy = trained(problem, network_of(kind, outputs), key, epochs)
    name = sets[0].name.rpartition(",")[0] + (", odd or even" if parity else "")
    agop = _agop(model, train[0])
    return Pool(name, train, validation, test, number, agop, accuracy)


def _agop(model: ld.Model, x: np.ndarray) -> np.ndarray:
    """The AGOP on many images, slice by slice."""
    found = np.zeros((x[0].size, x[0].size))
    for first in range(0, len(x), SLICE):
        part = x[first : first + SLICE]
        found += len(part) / len(x) * np.asarray(ld.probes.agop(model, part))
    return found


def trained(
    problem: ld.Dataset, network: AbstractNetwork, key: int, epochs: int
) -> tuple[ld.Model, float]:
    """A network after so many epochs of Adam, and its accuracy on the test set."""
    steps = epochs * (len(problem.x) // BATCH)
    schedule = optax.cosine_decay_schedule(RATE, steps)
    rule = ld.Optax(optax.adam(schedule), batch=BATCH, sampling="epochs")
    system = ld.System(problem, network, rule)
    weights = network.sample(np.random.default_rng([key, STREAM]), problem.input_shape)
    flat, back = jax.flatten_util.ravel_pytree(weights)
    probes = {"weights": _flat}
    record = ld.simulate(
        system, [steps], start=ld.start(system, weights=weights), key=key, probes=probes
    )
    last = record.isel(run=0, time=-1)
    moved = back(jnp.asarray(last["weights"].values, flat.dtype))
    return ld.Model(network, jax.tree.map(np.asarray, moved)), float(last["test_accuracy"])


def _flat(model: ld.Model) -> Any:
    return jax.flatten_util.ravel_pytree(model.weights)[0]


def _labels(y: np.ndarray, parity: bool) -> np.ndarray:
    """Classes, from −1 and 1 or from unit vectors."""
    classes = (y > 0).astype(int) if y.ndim == 1 else y.argmax(axis=1)
    return classes % 2 if parity else classes


def image_task(pool: Pool, n: int, seed: int, *, label_noise: float = 0.0) -> Task:
    """Images as vectors, drawn from a pool, with the AGOP of its reference network.

    Args:
        pool: what images there are.
        n: training examples.
        seed: of the draw.
        label_noise: share of the training labels that are replaced by another class.

    Returns:
        The task; its test measure is the share of wrong classes.
    """
    rng = np.random.default_rng([seed, 8])
    x, labels = pool.train
    index = rng.permutation(len(x))[:n]
    y = labels[index].copy()
    wrong = rng.permutation(n)[: round(label_noise * n)]
    y[wrong] = (y[wrong] + rng.integers(1, pool.classes, len(wrong))) % pool.classes
    flat = lambda pair: (pair[0].reshape(len(pair[0]), -1), pair[1])
    loss = ld.SquaredLoss(1 / pool.classes if pool.classes > 2 else 1.0)
    data = ld.Dataset(
        *flat((x[index], y)), loss=loss, validation=flat(pool.validation), test=flat(pool.test)
    )
    noisy = f", {100 * label_noise:g} % of labels wrong" if label_noise else ""
    return Task(f"{pool.name}{noisy}", data, pool.agop, accuracy=pool.accuracy)
