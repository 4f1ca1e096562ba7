"""The paper's rules and system, in its own scalings: loss ½ ‖Δ‖², white inputs, no 1/√N."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import learndyn as ld
from learndyn.networks.parts.layer_initialisation import AbstractLayers
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.simulation.flow import RTOL
from learndyn.studies.claims import Tolerance

# Name → rule of a learning rate; all but SGD take the options of `ld.NaturalGradient` too.
RULES: dict[str, Callable[..., ld.GradientDescent | ld.NaturalGradient]] = {
    "SGD": ld.GradientDescent,
    "NGD": partial(ld.NaturalGradient, power=1.0),
    "√NGD": partial(ld.NaturalGradient, power=0.5),
    "NGD-d": partial(ld.NaturalGradient, power=1.0, blocks=True),
    "√NGD-d": partial(ld.NaturalGradient, power=0.5, blocks=True),
}
POWERS = {name: float(getattr(make(1.0), "power", 0)) for name, make in RULES.items()}  # 1/q
SLACK = Tolerance(
    1e4 * RTOL, f"rtol {RTOL:g} of the integrator × 1e4 for the number of steps and error growth"
)


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


def balanced_map(
    strengths: Any, first: Any, depth: int, power: float, times: np.ndarray, key: int
) -> np.ndarray:
    """σ̄(t) of a balanced network that learns modes under gradient or natural gradient flow.

    Args:
        strengths: σ̄_*, one per mode.
        first: σ̄ at the start, one per mode, which all layers share equally.
        depth: number of layers.
        power: 1/q of the curvature correction; 0 for none.
        times: learning rate × steps.
        key: seed of the singular vectors.

    Returns:
        The strengths of the map, (times, modes).
    """
    n, first = len(strengths), np.asarray(first)
    rule = ld.NaturalGradient(1.0, power=power) if power else ld.GradientDescent(1.0)
    layers = np.repeat(first[:, None] ** (1 / depth), depth, axis=1)
    target = target_with(strengths, n, n, key)
    system = linear_system(rule, target, (depth + 1) * [n], ld.Aligned(layers))
    return ld.simulate(system, times, method="flow", key=key)["map"].values[0]
