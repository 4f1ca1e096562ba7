"""The cases of Section 4.4: a task of each kind with its network (App. C.6), at given sizes.

Networks have two layers of weights for the rank-2 and full-rank targets, and four for all others.
"""

import dataclasses
from typing import Any, NamedTuple

import learndyn as ld
from learndyn.studies.zhu2024catapults._features import Task, fully_connected
from learndyn.studies.zhu2024catapults._reference import image_task, pool_of
from learndyn.studies.zhu2024catapults._tasks import full_rank_task, polynomial_task

SHALLOW = "rank2", "full"
TEN = tuple(range(10))


class Images(NamedTuple):
    """Which images, how many to train (the pool), validate and test on, and the reference."""

    classes: tuple[int, ...]
    sizes: tuple[int, int, int]
    kind: str
    epochs: int
    parity: bool = False


IMAGES = {
    "digits": Images(TEN, (900, 397, 500), "cnn", 12, parity=True),
    "usps": Images(TEN, (5298, 2000, 2000), "wide_resnet", 20),
    "fashion": Images(TEN, (60_000, 5000, 5000), "myrtle", 20),
}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Inputs, training examples of networks with two and four layers, held-out ones; widths."""

    dim: int = 40
    n: int = 320
    n_deep: int = 320
    held_out: int = 800
    shallow: int = 256
    deep: int = 96

    @property
    def said(self) -> str:
        """Numbers of examples and widths, for figures."""
        n = f"{self.n}" if self.n == self.n_deep else f"{self.n} and {self.n_deep}"
        return f"n = {n}, widths {self.shallow} and {self.deep}"


PAPER = Sizes(100, 2000, 2000, 5000, 1024, 256)
FEWER = dataclasses.replace(PAPER, n_deep=1000)  # in Figs. 4.8, 4.11 and C.16
FULL = 100, 128, 2000  # inputs, training and held-out examples of Fig. C.17, in all presets


def task_of(name: str, sizes: Sizes, seed: int, key: int, *, label_noise: float = 0.0) -> Task:
    """A task by its name: "rank2", "rank3", "rank4", "full", or a name among `IMAGES`.

    Args:
        name: the task.
        sizes: of it.
        seed: of the draw.
        key: of the pool of images, and of its reference.
        label_noise: share of wrong labels in images to learn.

    Returns:
        The task.
    """
    n = sizes.n if name in SHALLOW else sizes.n_deep
    if name in IMAGES:
        given = IMAGES[name]
        pool = pool_of(name, *given[:2], key, given.kind, given.epochs, parity=given.parity)
        return image_task(pool, n, seed, label_noise=label_noise)
    if name == "full":
        return full_rank_task(*FULL, seed)
    return polynomial_task(name, sizes.dim, n, sizes.held_out, seed)


def model_of(name: str, task: Task, sizes: Sizes, seed: int, **more: Any) -> ld.Model:
    """The network of a task, drawn by the seed."""
    depth, width = (2, sizes.shallow) if name in SHALLOW else (4, sizes.deep)
    return fully_connected(task, depth, width, seed, **more)
