"""The flow engine: a rule without sampling, in continuous time, on the full weights."""

import equinox as eqx
import jax
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics import ode
from learndyn.numerics.ode import Trajectory, largest
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.types import Array
from learndyn.rules import AbstractDeterministicRule
from learndyn.simulation.measuring import Measurement
from learndyn.system import System
from learndyn.theory.base import DIVERGED

RTOL, ATOL = 1e-10, 1e-12
UNIT = "learning rate × steps"


def follow(
    system: System, times: np.ndarray, weights: Weights, teacher: Weights, measure: Measurement
) -> None:
    """Integrates d weights / d t = velocity, t = learning rate × steps, and measures at `times`.

    Args:
        system: what learns; its rule must not sample.
        times: increasing, non-negative.
        weights: the weights at time 0, float64.
        teacher: the teacher's weights.
        measure: takes the weights at every time, as run 0.
    """
    found = to_numpy(_integrate(system, weights, teacher, times))
    for index, time in enumerate(times):
        gone = (found.diverged or not found.succeeded) and time > found.end
        shown = jax.tree.map(lambda w, i=index: w[i], found.saved)
        if gone or not measure.visit(0, index, shown):
            measure.diverged[0] = index
            return


def check_flow(system: System) -> AbstractDeterministicRule:
    """The rule, or a ValueError where it has no flow."""
    if isinstance(system.rule, AbstractDeterministicRule):
        return system.rule
    came = type(system.rule).__name__
    why = "samples" if system.rule.samples else "has a memory"
    raise ValueError(f"method: got 'flow' for {came}, which {why}; allowed is 'direct'")


@eqx.filter_jit
def _integrate(system: System, weights: Weights, teacher: Weights, times: Array) -> Trajectory:
    velocity = check_flow(system).velocity(system.problem, system.network, teacher)
    bound = np.sqrt(DIVERGED) * largest((weights, teacher))
    keep = lambda w: w
    return ode.integrate(velocity, weights, times, keep, rtol=RTOL, atol=ATOL, bound=bound)
