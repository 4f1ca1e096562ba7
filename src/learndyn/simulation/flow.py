"""The flow engine: a rule without sampling, in continuous time, on the full weights."""

import equinox as eqx
import jax
import numpy as np

from learndyn.numerics import ode
from learndyn.numerics.ode import Trajectory
from learndyn.records import Outcome, Recording
from learndyn.rules import AbstractDeterministicRule
from learndyn.runtime.precision import to_numpy
from learndyn.runtime.types import Array, Weights
from learndyn.simulation.reading import Reader, Reading
from learndyn.system import System

RTOL, ATOL = 1e-10, 1e-12  # tolerances of a step of the integrator


def follow_flow(
    system: System,
    times: np.ndarray,
    weights: Weights,
    teacher: Weights,
    reading: Reading,
    recording: Recording,
    start: int,
) -> None:
    """Integrates d weights / dt = velocity, with t = learning rate × steps, and reads at `times`.

    Args:
        system: the system; its rule must not sample.
        times: increasing, non-negative.
        weights: the weights at time 0, float64.
        teacher: the teacher's weights.
        reading: what to read of the weights.
        recording: receives the values, as run 0 of a start.
        start: the number of the start.
    """
    path = to_numpy(_integrate(system, reading.inside, weights, teacher, times))
    (values, gone), path_weights = path.saved
    ended = path.diverged or not path.succeeded
    gone = np.array(gone) | (ended & (times > path.end))  # later rows were never computed
    for index in np.flatnonzero(~gone) if reading.outside.names else ():
        at = jax.tree.map(lambda w, i=index: w[i], path_weights)
        more, gone[index] = reading.outside(at, teacher)
        for name, value in more.items():
            blank = np.full((len(times), *np.shape(value)), np.nan)
            values.setdefault(name, blank)[index] = value
    recording.take((start, 0), 0, values, gone)
    if ended:
        how = "diverged" if path.diverged else "tolerance not reached"
        recording.end((start, 0), Outcome(how, float(path.end)))


def check_flow(system: System) -> AbstractDeterministicRule:
    """The rule of the system; raises a ValueError if it has no flow."""
    if isinstance(system.rule, AbstractDeterministicRule) and system.rule.inertia is None:
        return system.rule
    came = type(system.rule).__name__
    why = "samples" if system.rule.samples else "has a memory"
    raise ValueError(f"method: got 'flow' for {came}, which {why}; allowed is 'direct'")


@eqx.filter_jit
def _integrate(
    system: System, reader: Reader, weights: Weights, teacher: Weights, times: Array
) -> Trajectory:
    velocity = check_flow(system).velocity(system.problem, system.network, teacher)
    keep = lambda weights: (reader(weights, teacher), weights)
    gone = lambda weights: reader.has_diverged(weights, teacher)
    return ode.integrate(velocity, weights, times, keep, rtol=RTOL, atol=ATOL, diverged=gone)
