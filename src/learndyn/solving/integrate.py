"""The engine of theories: integrates flows and iterates maps, in float64."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import ode
from learndyn.numerics.ode import MAX_STEPS, Integrator, Trajectory, Walk
from learndyn.numerics.rosenbrock import Solve
from learndyn.runtime.divergence import has_diverged
from learndyn.runtime.interruption import stop_if_interrupted
from learndyn.runtime.pieces import PIECE_SECONDS
from learndyn.runtime.precision import to_numpy
from learndyn.runtime.progress import Report
from learndyn.runtime.stepping import record_steps
from learndyn.runtime.times import padded
from learndyn.runtime.types import Array
from learndyn.theory import AbstractTheory, Flow, Map
from learndyn.theory.dynamics import Implicit, Integration, Spread, Stabilised, State

NONE = np.zeros(0)
CLOSE = 1e-12  # distance between a stop and a requested time, relative to the last time
FEWEST_STEPS = 8  # between two reports of the progress, at first


def integrate(
    theory: AbstractTheory,
    flow: Flow,
    how: Integration,
    times: np.ndarray,
    per_time: Array,
    rtol: Array,
    atol: Array,
    *,
    stops: np.ndarray = NONE,
    states: bool = False,
    report: Report | None = None,
) -> Trajectory:
    """Integrates a flow from time 0, observing at `times`.

    Learning rate, spectrum, start and tolerances are traced, and times are padded: only new shapes
    of the state compile again.

    Args:
        theory: the theory, which defines the observables.
        flow: its flow.
        how: the initial state, the coordinates and the scheme.
        times: increasing, non-negative.
        per_time: factor from `drift` to the unit of `times`.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        stops: times at which steps end too, of the flow from time 0.
        states: whether to keep the states as well.
        report: called with the fraction done, if given.

    Returns:
        The trajectory of (observables, states or None), as NumPy arrays.
    """
    # A stop beside a requested time is left out: the step between them would be lost in rounding.
    nearest = np.min(np.abs(stops[:, None] - times), axis=1, initial=np.inf)
    every = np.union1d(times, stops[(stops < times[-1]) & (nearest > CLOSE * times[-1])])
    asked = np.searchsorted(every, times)
    padding, count = padded(every), np.int64(len(every))
    about = theory, flow, how, padding, per_time, rtol, atol, states
    walk, steps = _begin(*about), FEWEST_STEPS
    if report is None:
        walk = _advance(walk, *about, count, np.int64(MAX_STEPS))
    while report is not None and int(walk.done) < count and not walk.has_ended():
        clock = time.perf_counter()
        walk = _advance(walk, *about, count, np.int64(walk.steps + steps))
        report(float(walk.t / max(times[-1], 1e-300)))
        stop_if_interrupted()
        steps = steps if time.perf_counter() - clock > PIECE_SECONDS else 2 * steps
    path = to_numpy(walk).trajectory(count)
    return path._replace(saved=jax.tree.map(lambda rows: rows[asked], path.saved))


@eqx.filter_jit
def _begin(theory, flow, how, times, per_time, rtol, atol, states) -> Walk:
    about = theory, flow, how, per_time, rtol, atol, states
    return _integrator(*about).begin(how.begin, jnp.asarray(times))


@eqx.filter_jit
def _advance(
    walk: Walk, theory, flow, how, times, per_time, rtol, atol, states, count, most_steps
) -> Walk:
    about = theory, flow, how, per_time, rtol, atol, states
    return _integrator(*about).advance(walk, jnp.asarray(times), count, most_steps)


def _integrator(
    theory: AbstractTheory,
    flow: Flow,
    how: Integration,
    per_time: Array,
    rtol: Array,
    atol: Array,
    states: bool,
) -> Integrator:
    scaled = lambda y, factor: jax.tree.map(lambda leaf: leaf * factor, y)

    def linearise(y: State, w: Array) -> Solve:
        assert isinstance(how, Implicit)
        solve = how.linearise(y, w / per_time)
        return lambda b: solve(scaled(b, 1 / per_time))

    return ode.integrator(
        lambda y: scaled(flow.drift(y), per_time),
        _keep(theory, flow, states),
        rtol=rtol,
        atol=atol,
        diverged=lambda y: has_diverged(y, theory.bound(how.begin)),
        linearise=linearise if isinstance(how, Implicit) else None,
        radius=(lambda y: per_time * how.radius(y)) if isinstance(how, Stabilised) else None,
    )


def _keep(theory: AbstractTheory, moves: Flow | Map, states: bool) -> Callable[[State], Any]:
    return lambda y: (theory.observe(y), moves.state(y) if states else None)


@eqx.filter_jit
def iterate(
    theory: AbstractTheory,
    steps_of: Map,
    y: State,
    bound: Array,
    first: Array,
    targets: Array,
    count: Array,
    states: bool = False,
    spread: Spread | None = None,
) -> tuple[State, tuple[Any, Array]]:
    """Iterates a map, observing at some of its steps.

    Args:
        theory: the theory, which defines the observables.
        steps_of: its map.
        y: the state at step `first`, in the map's own coordinates.
        bound: the value that its largest entry may not exceed.
        first: the step number of y.
        targets: non-decreasing step numbers, (targets,).
        count: how many of the targets to visit; those after them are padding.
        states: whether to keep the states as well.
        spread: what standard deviations to add to the observables, if any.

    Returns:
        y at the last target, and for every target (observables, states or None) and whether the
        state has diverged, (targets, …).
    """
    plain = _keep(theory, steps_of, states)

    def keep(y: State) -> tuple[Any, Any]:
        observables, kept = plain(y)
        stds = {} if spread is None else spread.deviations(steps_of.state(y))
        return {**observables, **{f"{name}_std": std for name, std in stds.items()}}, kept

    step = lambda _, y: steps_of.advance(y)
    read = lambda _, y: ((keep(y), has_diverged(y, bound)), y)
    return record_steps(step, read, y, first, targets, count)


@eqx.filter_jit
def observe_each(
    theory: AbstractTheory, along: State, bound: Array, states: bool
) -> tuple[Any, Array]:
    """The rows that `iterate` records, of states that are known, leaves (states, …)."""
    read = lambda state: (
        (theory.observe(state), state if states else None),
        has_diverged(state, bound),
    )
    return jax.lax.map(read, jax.tree.map(jnp.asarray, along))
