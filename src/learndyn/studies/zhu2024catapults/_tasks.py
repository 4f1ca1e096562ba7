"""The tasks of Section 4.4 whose targets are known, with their exact EGOPs."""

import functools

import numpy as np

import learndyn as ld
from learndyn.studies.zhu2024catapults._data import NOISE, drawn, polynomial
from learndyn.studies.zhu2024catapults._features import Task

LOSS = ld.SquaredLoss(1.0)  # Eq. 4.1
VARIANCES = {"rank2": 1.0, "rank3": 14.0, "rank4": 4.0}  # of the targets without noise


def polynomial_task(
    name: str, dim: int, n: int, held_out: int, seed: int, *, raw: bool = False
) -> Task:
    """A polynomial of normal inputs, scaled to the variance 1.

    Args:
        name: "rank2", "rank3" or "rank4".
        dim: inputs.
        n: training examples.
        held_out: examples to validate on, and to test on.
        seed: of the draw.
        raw: whether targets are left as the thesis has them, with the variances 1, 14 and 4.

    Returns:
        The task, with the exact EGOP.
    """
    sets = drawn(name, (n, held_out, held_out), seed, dim)
    scale = 1.0 if raw else VARIANCES[name] ** -0.5
    train, validation, test = ((_single(each.x), _single(scale * each.y)) for each in sets)
    data = ld.Dataset(*train, loss=LOSS, validation=validation, test=test)
    return Task(f"rank-{name[-1]} target", data, _egop(name, dim))


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


@functools.cache
def _egop(name: str, dim: int) -> np.ndarray:
    return ld.probes.egop(polynomial(name, dim)).value


def _single(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32)
