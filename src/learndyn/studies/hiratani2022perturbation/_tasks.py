"""The non-linear tasks and networks of the paper, as Appendix C and the authors' code have them.

The loss is ½ |x_K − x*|². Errors that are shown and compared are mean squares per output,
2/outputs times the loss, as in the authors' code; only then do the levels of Fig. 4 (50 and 5) and
the chance level of Fig. S4 fit. Weights begin by Eq. 107 in every layer; biases of L_k nodes are
normal with variance 1/L_k. Rates multiply the mean over a batch; the authors' code has the sum for
MNIST, so its rates are 1000 times smaller there.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import learndyn as ld
from learndyn.networks.parts.affine import Affine
from learndyn.problems.readers import files, idx, sarcos
from learndyn.runtime.checks import one_of

SIGMA = 1e-4  # of the noise at nodes (Appendix C.1)
_TEACHER = (21, 64, 7)
_LABEL_NOISE = 0.3


class Task(NamedTuple):
    """A data set with a test set, and what it is called in records and figures."""

    problem: ld.Dataset
    name: str
    inputs: int
    outputs: int


def motor(data: str, rows: int = 0) -> Task:
    """A regression with 21 inputs and 7 outputs.

    Args:
        data: "sarcos", from the folder of data files: its training and test file, or, if the
            training file is missing, the test file alone, of which every tenth row is for testing.
            "teacher" needs no files: the noisy answers of a random network of tanh units.
        rows: for training, at most; 0 for all.

    Returns:
        The task.
    """
    x, y, test, name = _MOTOR[one_of("data", data, tuple(_MOTOR))]()
    x, y = x[: rows or None], y[: rows or None]
    name = f"{name}, {len(x)} rows to train, {len(test[0])} to test"
    return Task(ld.Dataset(x, y, test=test), name, x.shape[1], y.shape[1])


def _sarcos():
    test = sarcos.sarcos("test")
    if sarcos.has_training_file():
        train = sarcos.sarcos("train")
        return train.x, train.y, (test.x, test.y), "SARCOS"
    held = np.arange(len(test.x)) % 10 == 0
    name = "SARCOS, the test file alone, split"
    return test.x[~held], test.y[~held], (test.x[held], test.y[held]), name


def _teacher():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4449, _TEACHER[0]))
    network = ld.MLP(_TEACHER, "tanh")
    weights = network.sample(rng, x.shape[1:])
    y = np.asarray(network(weights, x), np.float64)
    y = y / y.std(0) + _LABEL_NOISE * rng.standard_normal(y.shape)
    shape = "-".join(map(str, _TEACHER))
    name = f"noisy answers of a drawn network {shape} (not SARCOS)"
    return x[:4000], y[:4000], (x[4000:], y[4000:]), name


_MOTOR: dict[str, Callable] = {"sarcos": _sarcos, "teacher": _teacher}
_IMAGES: dict[str, Callable[[], files.Images]] = {
    "mnist": idx.mnist,
    "fashion": idx.fashion_mnist,
    "cifar10": files.cifar10,
    "digits": files.digits,
}
_DIGITS_TO_TRAIN = 1500


def images(data: str, rows: int = 0, *, flat: bool = True) -> Task:
    """Images in ten classes, pixels between 0 and 1 where they are vectors.

    Args:
        data: "mnist", "fashion" or "cifar10", from the folder of data files, or "digits".
        rows: for training, at most; 0 for all. The others are not used.
        flat: whether an image is a vector; else it is (height, width, channels), and its pixels
            have mean 0 and variance 1 over the training images, channel by channel.

    Returns:
        The task.
    """
    read = _IMAGES[one_of("data", data, tuple(_IMAGES))]()
    split = _DIGITS_TO_TRAIN if read.training is None else read.training
    x, y = _pixels(read, split, flat), read.labels.astype(np.int32)
    kept = min(split, rows or split)
    train, test = (x[:kept], y[:kept]), (x[split:], y[split:])
    name = f"{read.name.split(',')[0]}, {len(train[0])} images to train, {len(test[0])} to test"
    return Task(ld.Dataset(*train, test=test), name, int(np.prod(x.shape[1:])), 10)


def _pixels(read: files.Images, split: int, flat: bool) -> np.ndarray:
    """What the network sees; bytes stay bytes, which a data set divides by 255 itself."""
    pixels = np.moveaxis(read.pixels, 1, -1)
    if flat:
        vectors = pixels.reshape(len(pixels), -1)
        whole = vectors.dtype == np.uint8
        return vectors if whole else (vectors / vectors.max()).astype(np.float32)
    seen = pixels[:split].astype(np.float32)
    mean, spread = seen.mean((0, 1, 2)), seen.std((0, 1, 2))
    return ((pixels - mean) / spread).astype(np.float32)


def network(task: Task, hidden: Sequence[int], output: str = "identity") -> ld.MLP:
    """ReLU layers between the task's inputs and outputs, with biases."""
    widths = [task.inputs, *hidden, task.outputs]
    return ld.MLP(widths, "relu", parameterisation="standard", bias=True, output=output)


def drawn_starts(system: ld.System, key: int, count: int, *, first: float = 1.0) -> list[ld.Start]:
    """Starts number key, key + 1, …: Eq. 107 in every layer, the first times a factor (Fig. 4F)."""
    return [_drawn(system, key + i, first) for i in range(count)]


def _drawn(system: ld.System, key: int, first: float) -> ld.Start:
    rng = np.random.default_rng([key, 22])
    like = system.network.like(system.problem.input_shape)
    assert like is not None  # networks of this study know their shapes
    layers = [
        _layer(rng, layer.weight.shape, first if k == 0 else 1.0) for k, layer in enumerate(like)
    ]
    return ld.start(system, weights=tuple(layers))


def _layer(rng: np.random.Generator, shape: tuple[int, ...], factor: float) -> Affine:
    """Weights of variance 2/(inputs + outputs), inputs and outputs counted in windows' pixels."""
    *window, inputs, outputs = shape if len(shape) == 4 else (*shape[::-1],)
    pixels = int(np.prod(window, dtype=int))
    std = np.sqrt(2 / (pixels * (inputs + outputs)))
    bias = rng.standard_normal(outputs) / np.sqrt(outputs)
    return Affine(factor * std * rng.standard_normal(shape), factor * bias)
