"""Test losses of linear maps that are fitted to a noisy linear teacher, on white inputs.

Section 4 of curvature2020linear: a network learns the least-squares map of noisy data. For some
maps its test loss, relative to that of a network with zero output, is known without training.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def relative_loss(found: ArrayLike, teacher: ArrayLike) -> float:
    """‖w̄ − w̄_*‖²/‖w̄_*‖², the test loss of a map relative to that of the zero map."""
    found, teacher = np.asarray(found), np.asarray(teacher)
    return float(np.sum((found - teacher) ** 2) / np.sum(teacher**2))


def truncated(fitted: np.ndarray, rank: int) -> np.ndarray:
    """The nearest map of this rank: only the strongest singular modes are kept."""
    left, values, right = np.linalg.svd(fitted)
    return (left[:, :rank] * values[:rank]) @ right[:rank]


def nearest_multiple(fitted: np.ndarray, teacher: np.ndarray) -> np.ndarray:
    """The multiple of the fitted map nearest to the teacher's: the best map on the path of NGD.

    From a start near zero, exact NGD moves straight to the fitted map (Eq. 9). The least loss on
    the way is 1 − cos² of the angle between the two maps.
    """
    multiple = np.linalg.lstsq(fitted.reshape(-1, 1), teacher.ravel(), rcond=None)[0][0]
    return multiple * fitted


def unfinished_error(level: Any, left: Any) -> Any:
    """Bound on |test loss − level| from the training loss that is left.

    `level` is the test loss of the fitted map. With whitened inputs,
    |‖a‖² − ‖b‖²| ≤ 2 ‖b‖ ‖a − b‖ + ‖a − b‖². Both arguments are relative losses as in
    `relative_loss`, numbers or arrays.
    """
    return 2 * (level * left) ** 0.5 + left
