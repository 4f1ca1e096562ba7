"""`simulate`: the curve of the real network."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from learndyn.networks.base import Weights
from learndyn.numerics.checks import increasing_times, one_of, positive_int
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.random import Source, run_words
from learndyn.records import Outcome, make_record
from learndyn.records.schema import Stopwatch
from learndyn.simulation.choosing import choose
from learndyn.simulation.direct import train
from learndyn.simulation.flow import UNIT, follow, is_deterministic
from learndyn.simulation.measuring import Probe, measurement_of, measurement_of_states
from learndyn.simulation.progress import Counter, Report, reporting
from learndyn.simulation.reduced import follow_chain
from learndyn.start import Start
from learndyn.start import start as begin
from learndyn.system import System


def simulate(
    system: System,
    times,
    *,
    start: Start | None = None,
    runs: int = 1,
    key: int = 0,
    method: str = "auto",
    dtype: str = "float32",
    probes: Mapping[str, Probe] | None = None,
    progress: bool | Report = False,
) -> xr.Dataset:
    """Trains the network of a system and measures what its theory speaks of.

    Where a theory knows the exact Markov chain of its state ("reduced"), the network is not
    built: its order parameters are drawn step by step, with the law that they have in a network
    of that size, at a cost that does not contain the size.

    Args:
        system: what learns.
        times: increasing, non-negative, in the system's unit of time.
        start: where every run begins, at time 0; None draws `start(system, key=key)`.
        runs: number of repeats, each with its own random numbers.
        key: seed; run r depends on (key, r) alone.
        method: "direct" takes every step on the full weights; "reduced" takes every step of
            the exact chain of the state (committees under SGD; always float64); "flow"
            integrates a rule without sampling in continuous time (learning rate × steps,
            float64, one run); "auto" is "reduced" where that is exact and cheaper, without
            probes, and else "direct". The record says which.
        dtype: precision of the weights of the direct engine, "float32" or "float64".
        probes: name → function of (weights, teacher), evaluated at the asked times.
        progress: True shows a bar with the time left; a function gets the fraction done.

    Returns:
        A record with the dimension `run`. A run that diverges is a result: see `outcome`.

    Raises:
        ValueError: for an argument that is not allowed.
    """
    times = increasing_times(times)
    runs = positive_int("runs", runs)
    one_of("dtype", dtype, ("float32", "float64"))
    probes = probes or {}
    method, reduced = choose(system, method, probes)
    flow = method == "flow"
    dtype = dtype if method == "direct" else "float64"
    runs = 1 if flow else runs
    steps = system.steps(times)
    if flow:
        steps = np.rint(times / system.rule.learning_rate).astype(np.int64)
    start = begin(system, key=key) if start is None else start
    watch = Stopwatch()
    with jax.enable_x64(True), reporting(progress, "simulating") as report:
        count, shape = Counter(runs * int(steps[-1]), report), (runs, len(times))
        if reduced is not None:
            measure = measurement_of_states(reduced[0], start.state, shape)
            follow_chain(
                *reduced, steps, start.state, runs=runs, key=key, measure=measure, advanced=count
            )
        else:
            cast = lambda weights: jax.tree.map(lambda w: w.astype(dtype), weights)
            weights, teacher = cast(start.weights), cast(start.teacher)
            measure = measurement_of(system, weights, teacher, probes, shape)
            given, visit = (weights, teacher), measure.visit
            if flow:
                follow(system, times, *given, measure)
            else:
                train(system, steps, *given, runs=runs, key=key, visit=visit, advanced=count)
    return make_record(
        measure.variables(),
        times=times,
        steps=steps,
        time_unit=UNIT if flow else system.network.time_unit,
        outcomes=[_outcome(times, index) for index in measure.diverged],
        runs=True,
        attributes={
            "engine": "simulate",
            "method": method,
            "generator": "none" if is_deterministic(system) else "Philox4x32-10",
            "dtype": dtype,
            "key": key,
            "size": system.dim,
            "system": system.to_json(),
            **measure.attributes,
            "wall_seconds": watch.seconds(),
        },
    )


def update(
    system: System, weights: Weights, *, teacher: Weights | None = None, key: int = 0
) -> Weights:
    """One step of the rule, in the precision of the weights.

    Args:
        system: what learns.
        weights: the weights before the step.
        teacher: the teacher's weights; None where the problem fixes them.
        key: seed of the step's random numbers.

    Returns:
        The weights after the step, as NumPy.

    Raises:
        ValueError: where the teacher is missing.
    """
    teacher = system.problem.fixed_teacher if teacher is None else teacher
    if teacher is None:
        raise ValueError("teacher: got None; allowed here are the teacher's weights")
    dtype = jax.tree.leaves(weights)[0].dtype
    with jax.enable_x64(True):
        teacher = jax.tree.map(lambda t: jnp.asarray(t, dtype), teacher)
        step = system.rule.stepper(system.problem, system.network, teacher, dtype)
        source = Source(run_words(key, 0), jnp.asarray(0))
        return to_numpy(step(jax.tree.map(jnp.asarray, weights), source))


def _outcome(times: np.ndarray, index: int | None) -> Outcome:
    if index is None:
        return Outcome("finished", float("nan"))
    return Outcome("diverged", float(times[index]))
