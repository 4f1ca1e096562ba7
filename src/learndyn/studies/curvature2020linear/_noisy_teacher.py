"""A noisy teacher of low rank: its data, test losses that need no training, and half-times."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.studies.curvature2020linear._model import target_with
from learndyn.theory.deep_linear import generalisation


def noisy_data(
    values: Sequence[float], snr: float, width: int, examples: int, key: int, *, power: bool
) -> tuple[ld.Dataset, np.ndarray]:
    """Whitened inputs, XᵀX/P = 1, noisy answers of a teacher, and the teacher's map.

    Args:
        values: singular values of the teacher.
        snr: the signal-to-noise ratio.
        width: of inputs and outputs.
        examples: P.
        key: seed.
        power: whether the ratio compares the outputs' mean squares; else it compares the teacher's
            smallest singular value with the noise's standard deviation.

    Returns:
        The data and the map.
    """
    teacher = target_with(values, width, width, key)
    rng = np.random.default_rng([key, 1])
    x = np.sqrt(examples) * orthonormal_rows(rng.standard_normal((width, examples))).T
    mean_square = np.sum(teacher**2) / width  # of an output
    noise = np.sqrt(mean_square / snr) if power else min(values) / snr
    return ld.Dataset(x, x @ teacher.T + noise * rng.standard_normal((examples, width))), teacher


def levels(problem: ld.Dataset, teacher: np.ndarray) -> xr.Dataset:
    """The training data's singular values, and test losses that need no training.

    "overfitted" is the least-squares map, "truncated" its best approximation of the teacher's
    rank, "straight" the best multiple of it, which is the best on the path of exact NGD.
    """
    statistics = problem.map_statistics(())
    assert statistics is not None
    fitted = np.asarray(statistics.target, np.float64)
    loss = lambda whole: generalisation.relative_loss(whole, teacher)
    rank = int(np.linalg.matrix_rank(teacher))
    return xr.Dataset(
        {
            "target": ("mode", np.linalg.svd(fitted)[1]),
            "overfitted": loss(fitted),
            "truncated": loss(generalisation.truncated(fitted, rank)),
            "straight": loss(generalisation.nearest_multiple(fitted, teacher)),
            "unit": float(np.sum(teacher**2)) / 2,
        }
    )


def half_times(run: xr.Dataset) -> np.ndarray:
    """The first measured time at which each mode has half of its final strength, or the last."""
    reached = (run["modes"] >= run["target"] / 2).transpose("draw", "point", "mode").values
    reached[:, -1] = True  # a lower bound for those that are slower
    times = run["time"].transpose("draw", "point").values
    # Half-times on the first point, 0, would have no logarithm.
    return np.take_along_axis(times, np.maximum(reached.argmax(1), 1), axis=1)
