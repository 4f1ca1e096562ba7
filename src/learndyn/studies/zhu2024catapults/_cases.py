"""The cases of Section 4.4: a task of each kind and its network (App. C.6), at given sizes.

Networks have two layers of weights for the rank-2 and full-rank targets, and four for all others.
Known targets have their exact EGOP as reference.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.claims import Claim, Sentence
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._data import NOISE, drawn, polynomial
from learndyn.studies.zhu2024catapults._features import Task, fully_connected
from learndyn.studies.zhu2024catapults._reference import image_task, pool_of

SHALLOW = "rank2", "full"
TEN = tuple(range(10))
LOSS = ld.SquaredLoss(1.0)  # Eq. 4.1
VARIANCES = {"rank2": 1.0, "rank3": 14.0, "rank4": 4.0}  # of the targets without noise
_single = functools.partial(np.asarray, dtype=np.float32)


class Images(NamedTuple):
    """Classes of images; how many to train (the pool), validate and test on; the reference."""

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
    """Inputs, training examples of networks with two and four layers, held-out ones; widths.

    Seeds are counted from `key`; a part of them begins at `first_seed`.
    """

    dim: int = 40
    n: int = 320
    n_deep: int = 320
    held_out: int = 800
    shallow: int = 256
    deep: int = 96
    first_seed: int = 0

    @property
    def label(self) -> str:
        """The sizes as text, for figures."""
        n = f"{self.n}" if self.n == self.n_deep else f"{self.n} and {self.n_deep}"
        return f"d = {self.dim}, n = {n}, widths {self.shallow} and {self.deep}"

    @property
    def shallow_label(self) -> str:
        """The sizes of networks with two layers as text."""
        return f"d = {self.dim}, n = {self.n}, width {self.shallow}"


PAPER = Sizes(100, 2000, 2000, 5000, 1024, 256)
FEWER = dataclasses.replace(PAPER, n_deep=1000)  # in Figs. 4.8, 4.11 and C.16
FULL = 100, 128, 2000  # inputs, training and held-out examples of Fig. C.17, in all presets


def polynomial_task(
    name: str, dim: int, n: int, held_out: int, seed: int, *, raw: bool = False
) -> Task:
    """A polynomial of normal inputs, scaled to the variance 1, or `raw` as in the thesis."""
    sets = drawn(name, (n, held_out, held_out), seed, dim)
    scale = 1.0 if raw else VARIANCES[name] ** -0.5
    train, validation, test = ((_single(each.x), _single(scale * each.y)) for each in sets)
    data = ld.Dataset(*train, loss=LOSS, validation=validation, test=test)
    return Task(f"rank-{name[-1]} target", data, _egop(name, dim))


@functools.cache
def _egop(name: str, dim: int) -> np.ndarray:
    return ld.probes.egop(polynomial(name, dim)).value


def full_rank_task(dim: int, n: int, held_out: int, seed: int) -> Task:
    """|x|/√d of normal inputs (Fig. C.17), whose EGOP is a multiple of the identity."""
    rng = np.random.default_rng([seed, 7])

    def examples(size: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((size, dim))
        y = np.linalg.norm(x, axis=1) / np.sqrt(dim) + NOISE * rng.standard_normal(size)
        return _single(x), _single(y)

    train, validation, test = (examples(size) for size in (n, held_out, held_out))
    data = ld.Dataset(*train, loss=LOSS, validation=validation, test=test)
    return Task("full-rank target", data, np.eye(dim))


def model_of(name: str, task: Task, sizes: Sizes, seed: int, **options: Any) -> ld.Model:
    """The network of a task, drawn by the seed."""
    depth, width = (2, sizes.shallow) if name in SHALLOW else (4, sizes.deep)
    return fully_connected(task, depth, width, seed, **options)


def drawn_case(
    name: str, params: Any, seed: int, *, label_noise: float = 0.0, **options: Any
) -> tuple[Task, ld.Model]:
    """A task and its network, drawn by the seed.

    Args:
        name: "rank2", "rank3", "rank4", "full", or one of `IMAGES`.
        params: `Sizes` with a `key`, which draws the pool of images and its reference network.
        seed: of the draw.
        label_noise: fraction of wrong labels among the training images.
        options: of the network.

    Returns:
        Both.
    """
    n = params.n if name in SHALLOW else params.n_deep
    if name in IMAGES:
        source = IMAGES[name]
        pool = pool_of(name, *source[:4], parity=source.parity, key=params.key)
        task = image_task(pool, n, seed, label_noise=label_noise)
    elif name == "full":
        task = full_rank_task(*FULL, seed)
    else:
        task = polynomial_task(name, params.dim, n, params.held_out, seed)
    return task, model_of(name, task, params, seed, **options)


def over_tasks(
    run: Callable[[Any, str, int], xr.Dataset], params: Any, report: Report
) -> xr.Dataset:
    """`run(params, task, seed)` for all tasks and seeds of the parameters, by `task` and `seed`."""
    first = params.key + params.first_seed
    work = [(name, first + i) for name in params.tasks for i in range(params.seeds)]
    rows = [run(params, name, seed) for name, seed in cases(work, report)]
    starts = range(0, len(rows), params.seeds)
    tasks = [xr.concat(rows[i : i + params.seeds], "seed") for i in starts]
    return xr.concat(tasks, xr.Variable("task", list(params.tasks)))


def not_run(sentence: Sentence, panels: Mapping[str, str]) -> list[Claim]:
    """A sentence about `{data}` in `{panel}`, open for data sets that are not available."""
    return [
        sentence.format(data=data, panel=panel).open(f"{data} was not run: no images available")
        for data, panel in panels.items()
    ]
