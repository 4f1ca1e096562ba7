"""The tasks of chapter 4: two or ten classes of images, and polynomials of normal inputs.

Inputs are images (height, width, channels), centred and scaled: CIFAR-10 by the means and standard
deviations of the channels in the author's programs, other images by those of all pixels of the
chosen classes. Labels of two classes are −1 and 1, those of ten the unit vectors. The loss is the
thesis's "MSE", the mean of r² over examples and outputs (`Task.problem`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

import learndyn as ld
from learndyn.problems.readers.celeba import celeba
from learndyn.problems.readers.files import cifar10, digits
from learndyn.problems.readers.idx import fashion_mnist, mnist
from learndyn.problems.readers.usps import usps

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
    """Examples to learn, and their name for records and figures."""

    x: np.ndarray  # (examples, height, width, channels), or (examples, inputs) for polynomials
    y: np.ndarray  # (examples,), or (examples, classes)
    name: str

    @property
    def flat(self) -> "Task":
        """The same with inputs as vectors, for fully connected networks."""
        return self._replace(x=self.x.reshape(len(self.x), -1))

    @property
    def problem(self) -> ld.Dataset:
        """The examples with the mean of r² as the loss (Eq. 4.1; over outputs too, Fig. C.5)."""
        return ld.Dataset(self.x, self.y, loss_scale=1 / self.y[0].size)


def images(
    data: str, sizes: Sequence[int], key: int, classes: Sequence[int] = (7, 9)
) -> list[Task]:
    """Disjoint sets of so many images of some classes, drawn without replacement by the key.

    Labels of two classes become −1 and 1, those of more become unit vectors.

    Raises:
        ValueError: if the classes have fewer images, or the files are missing.
    """
    source = READERS[data]()
    which = np.flatnonzero(np.isin(source.labels, classes))
    if sum(sizes) > len(which):
        raise ValueError(f"sizes: got {tuple(sizes)}; allowed are {len(which)} images together")
    pixels = source.pixels[which]
    centre, spread = pixels.mean(dtype=float), pixels.std(dtype=float)
    if data == "cifar10":
        centre, spread = 255 * CIFAR
    order = np.random.default_rng([key, 7]).permutation(which)
    tasks = []
    for part in np.split(order, np.cumsum(sizes))[:-1]:
        x = (np.moveaxis(source.pixels[part], 1, -1) - centre) / spread
        y = (source.labels[part][:, None] == np.asarray(classes)).astype(float)
        y = y if len(classes) > 2 else np.where(y[:, 1] > 0, 1.0, -1.0)
        name = f"{source.name.split(',')[0]}, classes {_listed(classes)}, {len(part)} images"
        tasks.append(Task(x, y, name))
    return tasks


def _listed(classes: Sequence[int]) -> str:
    if len(classes) > 2 and list(classes) == list(range(classes[0], classes[-1] + 1)):
        return f"{classes[0]} to {classes[-1]}"
    return " and ".join(map(str, classes))


def polynomial(data: str, dim: int = DIM) -> ld.Polynomial:
    """The target f*: "rank2" x₁x₂, "rank3" x₁x₂ Σ₁₀ x_i or "rank4" Σ₄ Π x_i (Section 4.4)."""
    return ld.Polynomial(TERMS[data], dim)


def drawn(data: str, sizes: Sequence[int], key: int, dim: int = DIM) -> list[Task]:
    """Sets of normal inputs, and a polynomial with noise of standard deviation 0.1 (App. C.6)."""
    rng, target = np.random.default_rng([key, 7]), polynomial(data, dim)
    tasks = []
    for size in sizes:
        x = rng.standard_normal((size, dim))
        with jax.enable_x64(True):
            y = np.asarray(target(x)) + NOISE * rng.standard_normal(size)
        tasks.append(Task(x, y, f"{data.replace('rank', 'rank-')} polynomial, {size} inputs"))
    return tasks
