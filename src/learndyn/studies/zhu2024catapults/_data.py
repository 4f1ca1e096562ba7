"""The tasks of chapter 4: two or ten classes of images, and polynomials of normal inputs.

Inputs are images (height, width, channels), centred and scaled: CIFAR-10 by the channels' means and
standard deviations that the author's programs have, other images by those of all pixels of the
classes taken. Labels of two classes are −1 and 1, of ten the unit vectors. The thesis has "MSE" as
the loss: the mean of r² over examples and outputs (`Task.problem`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import learndyn as ld
from learndyn.problems.celeba import celeba
from learndyn.problems.files import cifar10, digits
from learndyn.problems.idx import fashion_mnist, mnist
from learndyn.problems.usps import usps

DIM, NOISE = 100, 0.1  # of the polynomial tasks (App. C.6)
CIFAR = np.array([[0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]])
READERS = {
    "cifar10": cifar10,
    "celeba": lambda: celeba(images=20_000, side=32),
    "digits": digits,
    "fashion": fashion_mnist,
    "mnist": mnist,
    "usps": usps,
}
TERMS = {
    "rank2": [(1.0, {0: 1, 1: 1})],
    "rank3": [(1.0, {0: 2, 1: 1}), (1.0, {0: 1, 1: 2})]
    + [(1.0, {0: 1, 1: 1, i: 1}) for i in range(2, 10)],
    "rank4": [(1.0, dict.fromkeys(range(j), 1)) for j in range(1, 5)],
}


class Task(NamedTuple):
    """Examples to learn.

    Attributes:
        x: (examples, height, width, channels), or (examples, inputs) for polynomials.
        y: (examples,), or (examples, classes).
        name: what they are, for records and figures.
    """

    x: np.ndarray
    y: np.ndarray
    name: str

    @property
    def flat(self) -> "Task":
        """The same with inputs as vectors, for fully connected networks."""
        return self._replace(x=self.x.reshape(len(self.x), -1))

    @property
    def problem(self) -> ld.Dataset:
        """The examples with the mean of r² as the loss (Eq. 4.1; of outputs too, Fig. C.5)."""
        return ld.Dataset(self.x, self.y, loss_scale=1 / self.y[0].size)


def images(
    data: str, sizes: Sequence[int], key: int, classes: Sequence[int] = (7, 9)
) -> list[Task]:
    """Disjoint sets of images of some classes, drawn without replacement by the key.

    Args:
        data: a name among `READERS`.
        sizes: the number of images of each set.
        key: of the draw.
        classes: labels taken; two are −1 and 1, more are unit vectors.

    Returns:
        A task for each size.

    Raises:
        ValueError: where the classes have fewer images, or the files are missing.
    """
    found = READERS[data]()
    which = np.flatnonzero(np.isin(found.labels, classes))
    if sum(sizes) > len(which):
        raise ValueError(f"sizes: got {tuple(sizes)}; allowed are {len(which)} images together")
    name = f"{found.name.split(',')[0]}, classes {_listed(classes)}"
    centre, spread = _scales(found.pixels[which], data)
    order = np.random.default_rng([key, 7]).permutation(which)
    tasks = []
    for part in np.split(order, np.cumsum(sizes))[:-1]:
        x = (np.moveaxis(found.pixels[part], 1, -1) - centre) / spread
        y = _targets(found.labels[part], classes)
        tasks.append(Task(x, y, f"{name}, {len(part)} images"))
    return tasks


def _scales(pixels: np.ndarray, data: str) -> tuple[Any, Any]:
    if data == "cifar10":
        return 255 * CIFAR[0], 255 * CIFAR[1]
    return pixels.mean(dtype=float), pixels.std(dtype=float)


def _targets(labels: np.ndarray, classes: Sequence[int]) -> np.ndarray:
    if len(classes) == 2:
        return np.where(labels == classes[1], 1.0, -1.0)
    return (labels[:, None] == np.asarray(classes)).astype(float)


def _listed(classes: Sequence[int]) -> str:
    if len(classes) > 2 and list(classes) == list(range(classes[0], classes[-1] + 1)):
        return f"{classes[0]} to {classes[-1]}"
    return " and ".join(map(str, classes))


def polynomial(data: str, dim: int = DIM) -> ld.Polynomial:
    """The target f* of "rank2" x₁x₂, "rank3" x₁x₂ Σ₁₀ x_i or "rank4" Σ₄ Π x_i (Section 4.4)."""
    return ld.Polynomial(TERMS[data], dim)


def drawn(data: str, sizes: Sequence[int], key: int, dim: int = DIM) -> list[Task]:
    """Normal inputs and a polynomial of them with noise of standard deviation 0.1 (App. C.6).

    Args:
        data: a name among `TERMS`.
        sizes: the number of examples of each set.
        key: of the draw.
        dim: the number of inputs.

    Returns:
        A task for each size.
    """
    rng, target = np.random.default_rng([key, 7]), polynomial(data, dim)
    found = []
    for size in sizes:
        x = rng.standard_normal((size, dim))
        with jax.enable_x64(True):
            y = np.asarray(target(x)) + NOISE * rng.standard_normal(size)
        found.append(Task(x, y, f"{data.replace('rank', 'rank-')} polynomial, {size} inputs"))
    return found
