"""What a linear model learns, how fast, and at which rates it does not."""

from typing import Any

import numpy as np

from learndyn.problems import SquaredLoss
from learndyn.runtime.checks import between
from learndyn.theory.linearised.course import Modes
from learndyn.theory.linearised.descent import Descent
from learndyn.theory.linearised.modes import largest_pull
from learndyn.theory.linearised.state import Outputs

UNITS = {
    "critical_learning_rate": "1",
    "effective_rank": "1",
    "rank": "1",
    "fastest_time": "steps",
    "slowest_time": "steps",
    "unlearned_error": "1",
    "final_error": "1",
    "largest_stable_rate": "1",
}
CURVED = 0.5  # the largest eigenvalue of the second derivative of a cross-entropy by the outputs


def of(theory: Any, state: Outputs, target: float) -> dict[str, float]:
    """The landmarks of a theory, as `LinearisedTheory.landmarks` lists them."""
    values = theory.spectrum.values
    found = {
        "critical_learning_rate": critical_rate(theory),
        "effective_rank": float(values.sum() ** 2 / max((values**2).sum(), 1e-300)),
        "rank": float(theory.spectrum.rank),
    }
    if not isinstance(theory.system.problem.loss, SquaredLoss):
        return found
    errors = losses(theory, state)
    found["unlearned_error"] = errors["unlearned_error"]
    modes = theory.modes(np.asarray(state.values))
    if np.all(modes.pulls[-1] < largest_pull(modes.law)):
        times = mode_times(modes, target)[values > 0]
        if len(times):
            found |= {"fastest_time": float(times.min()), "slowest_time": float(times.max())}
        found["final_error"] = errors["final_error"]
    return found


def critical_rate(theory: Any) -> float:
    """The rate at which the pull of the largest mode is the largest that is stable.

    Under a cross-entropy, whose curvature is at most 1/2 (1/4 for one output), it is a rate below
    which training does not diverge.
    """
    descent = Descent.of(theory.system.rule)
    decay = 0.0 if descent.decay is None else float(descent.decay)
    per_rate = _per_rate(theory).max(initial=0.0)
    allowed = max(largest_pull(descent.law()) - decay, 0.0)
    return float(allowed / per_rate) if per_rate > 0 else float("inf")


def fastest(theory: Any) -> np.ndarray:
    """A bound on the rate at which outputs change under the flow, per step."""
    descent = Descent.of(theory.system.rule)
    decay = 0.0 if descent.decay is None else float(descent.decay)
    speed = 1 / (1 - float(descent.law().momentum))
    return np.asarray(
        speed * (float(descent.rates[0]) * _per_rate(theory).max(initial=0.0) + decay)
    )


def _per_rate(theory: Any) -> np.ndarray:
    """The pulls of the modes per learning rate, without decay."""
    loss, values, n = theory.system.problem.loss, theory.spectrum.values, theory.trained
    bend = 2 * float(loss.scale) if isinstance(loss, SquaredLoss) else CURVED
    return bend / n * values * Descent.of(theory.system.rule).preconditioner(values, n)


def losses(theory: Any, state: Outputs) -> dict[str, float]:
    """The loss that is never learned, and that after infinitely many steps."""
    modes = theory.modes(np.asarray(state.values))
    scale = float(theory.system.problem.loss.scale) / theory.trained
    pulls, start = modes.pulls[-1], modes.start - modes.target
    outside = modes.values == 0
    # Without a pull a mode stays; decay takes what no example sees to zero.
    left = np.where(pulls > 0, -modes.target * modes.decay / np.where(pulls > 0, pulls, 1), start)
    return {
        "unlearned_error": float(scale * np.sum(np.where(outside, start, 0) ** 2)),
        "final_error": float(scale * np.sum(left**2)),
    }


def attributes(theory: Any, state: Outputs) -> dict[str, Any]:
    """What a record says of the kernel."""
    rows = len(theory.kernel.trained)
    if not isinstance(theory.system.problem.loss, SquaredLoss):
        return {"kernel_rows": rows}
    about = {"kernel_rows": rows, "kernel_rank": theory.spectrum.rank}
    return about | {"unlearned_error": losses(theory, state)["unlearned_error"]}


def mode_times(modes: Modes, target: float) -> np.ndarray:
    """Steps after which residuals of modes stay below `target` times their start, (modes,).

    At the last of the rates, for targets between 0 and 1. Without momentum |1 − pull|^t; with it
    the envelope of the slower root, which oscillations touch. Modes that never get there have
    infinity.
    """
    target = float(between("target", target, 0, 1))
    pulls, law = np.where(modes.values > 0, modes.pulls[-1], 0.0), modes.law
    beta = float(law.momentum)
    trace = (1 + beta) * (1 - pulls) if law.nesterov else 1 + beta - pulls
    product = beta * (1 - pulls) if law.nesterov else np.full_like(pulls, beta)
    square = trace**2 - 4 * product
    real = (np.abs(trace) + np.sqrt(np.maximum(square, 0))) / 2
    size = np.where(square < 0, np.sqrt(np.abs(product)), real)
    with np.errstate(divide="ignore"):
        # Small pulls are lost in 1 − pull.
        slow = np.where(pulls < 1e-6, -pulls / (1 - beta), np.log(size))
        return np.where(slow < 0, np.log(target) / slow, np.inf)
