"""`simulate`: the curve of the real network."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from learndyn.networks.base import Weights
from learndyn.numerics.checks import increasing_times, one_of, positive_int, seed, step_numbers
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.random import Source, run_words
from learndyn.records import Outcome, make_record
from learndyn.records.schema import Stopwatch
from learndyn.simulation.choosing import choose
from learndyn.simulation.direct import train
from learndyn.simulation.flow import UNIT, check_flow, follow
from learndyn.simulation.measuring import Probe, measurement_of, measurement_of_states
from learndyn.simulation.progress import Counter, Report, reporting
from learndyn.simulation.reduced import follow_chain
from learndyn.start import Start, given_weights
from learndyn.start import start as begin
from learndyn.system import System
from learndyn.theory import clock_of
from learndyn.theory.dynamics import Clock


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
        probes: name → function of a `Model`, evaluated at the asked times; a name that the
            record has already is an error.
        progress: True shows a bar with the time left; a function gets the fraction done.

    Returns:
        A record with the dimension `run`. A run that diverges is a result: see `outcome`.

    Raises:
        ValueError: for an argument that is not allowed.
    """
    times, runs, key = increasing_times(times), positive_int("runs", runs), seed("key", key)
    one_of("dtype", dtype, ("float32", "float64"))
    probes = probes or {}
    method, reduced = choose(system, method, probes)
    flow = method == "flow"
    dtype = dtype if method == "direct" else "float64"
    runs = 1 if flow else runs
    clock = (
        Clock(UNIT, float(1 / check_flow(system).learning_rate), 1.0) if flow else clock_of(system)
    )
    steps = step_numbers(times, clock.steps)
    start = begin(system, key=key) if start is None else start
    start.check(system, weights=reduced is None)
    about = system.describe()  # before the work, which it must not be able to lose
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
        time_unit=clock.unit,
        outcomes=[_outcome(times, index) for index in measure.diverged],
        runs=True,
        attributes={
            "engine": "simulate",
            "method": method,
            "generator": "Philox4x32-10" if system.rule.samples else "none",
            "dtype": dtype,
            "key": key,
            **about,
            **measure.attributes,
            "wall_seconds": watch.seconds(),
        },
    )


def update(
    system: System, weights: Weights, *, teacher: Weights | None = None, key: int = 0
) -> Weights:
    """One step of the rule with fresh memory, in the precision of the weights.

    Args:
        system: what learns.
        weights: the weights before the step.
        teacher: the teacher's weights; None where the problem fixes them.
        key: seed of the step's random numbers.

    Returns:
        The weights after the step, as NumPy.

    Raises:
        ValueError: where the teacher is missing, or weights do not fit the network.
    """
    key = seed("key", key)
    weights, teacher = given_weights(system, weights, teacher)
    dtype = jax.tree.leaves(weights)[0].dtype
    with jax.enable_x64(True):
        teacher = jax.tree.map(lambda t: jnp.asarray(t, dtype), teacher)
        weights = jax.tree.map(jnp.asarray, weights)
        rule = system.rule.bind(system.problem, system.network, teacher, dtype)
        source = Source(run_words(key, 0), jnp.asarray(0))
        return to_numpy(rule.step(weights, rule.init(weights), source)[0])


def _outcome(times: np.ndarray, index: int | None) -> Outcome:
    if index is None:
        return Outcome("finished", float("nan"))
    return Outcome("diverged", float(times[index]))
