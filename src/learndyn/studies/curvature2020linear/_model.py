"""The paper's rules and system, in its own scalings: loss ½ ‖Δ‖², white inputs, no 1/√N."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import learndyn as ld
from learndyn.networks.layers import AbstractLayers
from learndyn.numerics.linalg import orthonormal_rows

# Name → rule of a learning rate; all but SGD take the options of `ld.NaturalGradient` too.
RULES: dict[str, Callable[..., ld.GradientDescent | ld.NaturalGradient]] = {
    "SGD": ld.GradientDescent,
    "NGD": partial(ld.NaturalGradient, power=1.0),
    "√NGD": partial(ld.NaturalGradient, power=0.5),
    "NGD-d": partial(ld.NaturalGradient, power=1.0, blocks=True),
    "√NGD-d": partial(ld.NaturalGradient, power=0.5, blocks=True),
}


def target_with(
    singular_values: Sequence[float], outputs: int, inputs: int, key: int
) -> np.ndarray:
    """A map (outputs, inputs) of given singular values and random singular vectors.

    Args:
        singular_values: at most min(outputs, inputs); the others are zero.
        outputs: number of rows.
        inputs: number of columns.
        key: seed of the vectors.

    Returns:
        The map.
    """
    rng, count = np.random.default_rng(key), len(singular_values)
    left = orthonormal_rows(rng.standard_normal((count, outputs)))
    right = orthonormal_rows(rng.standard_normal((count, inputs)))
    return (left.T * np.asarray(singular_values, np.float64)) @ right


def linear_system(
    rule: Any, target: np.ndarray, widths: Sequence[int], init: AbstractLayers
) -> ld.System:
    """A deep linear network that learns a given map from white inputs of unit variance."""
    outputs, inputs = target.shape
    data = ld.TeacherStudent(ld.Isotropic(inputs), ld.LinearTeacher(outputs, target))
    return ld.System(data, ld.DeepLinear(widths, init=init), rule)
