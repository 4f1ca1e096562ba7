"""Landmarks of a quadratic model: critical rates, the course of training, and small catapults.

The course comes from iterating the map, not from an expansion. Above ηλ ≈ 3 it can depend on the
start so strongly that no run reproduces it. A landmark of the course is therefore left out unless
it moves by at most `STABLE` when the residuals and the kernel of the start move by ± `NUDGE` (both
relative; all four combinations of signs). Rounding in float32 moves a start by about that much.
"""

from typing import Any

import jax
import numpy as np

from learndyn.runtime.precision import full_precision
from learndyn.theory.quadratic_model import catapult
from learndyn.theory.quadratic_model.catapult import Regime
from learndyn.theory.quadratic_model.setting import QuadraticSetting
from learndyn.theory.quadratic_model.state import Residuals, least_kernel

NUDGE = 1e-6  # relative change of the start
STABLE = 0.01  # relative change up to which a landmark is reported
MOST = 10**5  # largest number of steps of a course

UNITS = {
    "critical_learning_rate": "learning rate",
    "maximal_learning_rate": "learning rate",
    "second_critical_learning_rate": "learning rate",
    "peak_loss": "1",
    "peak_step": "steps",
    "final_kernel": "1",
    "small_delta_peak_loss": "1",
    "small_delta_peak_step": "steps",
    "small_delta_final_kernel": "1",
}


def of(setting: QuadraticSetting, state: Residuals) -> dict[str, float]:
    """The landmarks of training from a state, explained in `QuadraticModelTheory.landmarks`.

    Raises:
        ValueError: if the kernel is zero.
    """
    setting = jax.tree.map(np.asarray, setting)
    order = np.argsort(-state.kernel)
    top = int(order[0])
    if not state.kernel[top] > 0:
        raise ValueError(
            "state: got the kernel 0; allowed is a positive one, since nothing is learned with 0"
        )
    marks = _rates(setting, state.kernel[order])
    marks |= _course(setting, state, top) | _small_catapult(setting, state, top)
    return {name: float(value) for name, value in marks.items()}


def _rates(setting: QuadraticSetting, kernel: np.ndarray) -> dict[str, Any]:
    """2/λ and 4/λ of the first direction, 2/λ of the second, in the rule's own rate."""
    unit = 1 / (2 * setting.weight)  # converts the rate for ½ Σ r² into the rule's learning rate
    rates = {
        "critical_learning_rate": unit * 2 / kernel[0],
        "maximal_learning_rate": unit * 4 / kernel[0],
    }
    if len(kernel) > 1 and kernel[1] > 0:
        rates["second_critical_learning_rate"] = unit * 2 / kernel[1]
    return rates


def _course(setting: QuadraticSetting, state: Residuals, top: int) -> dict[str, Any]:
    """Landmarks from iterating the map, if nearby starts agree on them."""
    of, signs = setting, np.array([[0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]])
    # A direction whose kernel is 0 has h = 0 and never moves: it is not nudged.
    nudged = 1 + NUDGE * signs[:, :, None] * (state.kernel > 0)
    r = state.r * nudged[:, 0]
    kernel = np.maximum(state.kernel * nudged[:, 1], least_kernel(r, of.c, of.a))
    course = catapult.follow_together(r, kernel, of.c, of.a, of.eta, np.asarray(MOST))
    if np.any(course.regime == Regime.DIVERGENT):
        return {}
    marks = {}
    # A course that ends in a cycle has no last kernel, but a peak.
    if np.all(course.regime != Regime.UNFINISHED) and _settled(kernel := course.kernel[:, top]):
        marks["final_kernel"] = kernel[0]
    if np.any(course.peak_step == 0):
        return marks
    if _settled(peak := of.weight * (course.peak + of.rest)):
        marks["peak_loss"] = peak[0]
    # Near the peak the loss hardly changes from step to step, so that its step may shift by one.
    if _settled(course.peak_step, at_least=1.0):
        marks["peak_step"] = course.peak_step[0]
    return marks


def _settled(values: np.ndarray, at_least: float = 0.0) -> bool:
    """Whether the values of nudged starts are close to the first, that of the start itself."""
    allowed = max(STABLE * abs(values[0]), at_least)
    return bool(np.abs(values - values[0]).max() <= allowed)


def _small_catapult(setting: QuadraticSetting, state: Residuals, top: int) -> dict[str, Any]:
    """The limit δ = ηλ − 2 → 0 of the course of one direction, evaluated at any δ (`catapult`)."""
    of = setting
    delta, c = of.eta * state.kernel[top] - 2, of.c[top]
    u = c * of.eta**2 * state.r[top] ** 2
    if not (0 < delta < 2 and 0 < 2 * u < delta**2):
        return {}
    outside = of.rest + np.sum(state.r**2) - state.r[top] ** 2
    peak = catapult.peak_of_u(delta) / (c * of.eta**2)
    with full_precision():
        step = catapult.peak_step(delta, u)
    return {
        "small_delta_peak_loss": of.weight * (peak + outside),
        "small_delta_peak_step": step,
        "small_delta_final_kernel": 4 / of.eta - state.kernel[top],
    }
