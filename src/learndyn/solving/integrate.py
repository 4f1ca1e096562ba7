"""The engine of theories: integrates flows and iterates maps, in float64."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from learndyn.numerics import ode
from learndyn.numerics.ode import Trajectory
from learndyn.numerics.rosenbrock import Solve
from learndyn.runtime.divergence import bound_of, has_diverged
from learndyn.runtime.progress import Meter
from learndyn.runtime.stepping import record_steps
from learndyn.runtime.types import Array
from learndyn.theory import AbstractTheory, Flow, Map
from learndyn.theory.dynamics import Implicit, Integration, Stabilised, State


@eqx.filter_jit
def integrate(
    theory: AbstractTheory,
    flow: Flow,
    how: Integration,
    times: Array,
    per_time: Array,
    rtol: Array,
    atol: Array,
    states: bool = False,
    meter: Meter | None = None,
) -> Trajectory:
    """Integrates a flow from time 0, observing at `times`.

    Learning rate, spectrum, start and tolerances are traced: only new shapes compile again.

    Args:
        theory: the theory, which defines the observables.
        flow: its flow.
        how: the initial state, the coordinates and the scheme.
        times: increasing, non-negative.
        per_time: factor from `drift` to the unit of `times`.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        states: whether to keep the states as well.
        meter: shows the progress.

    Returns:
        The trajectory of (observables, states or None).
    """
    scaled = lambda y, factor: jax.tree.map(lambda leaf: leaf * factor, y)

    def linearise(y: State, w: Array) -> Solve:
        assert isinstance(how, Implicit)
        solve = how.linearise(y, w / per_time)
        return lambda b: solve(scaled(b, 1 / per_time))

    return ode.integrate(
        lambda y: scaled(flow.drift(y), per_time),
        how.begin,
        times,
        _keep(theory, flow, states),
        rtol=rtol,
        atol=atol,
        diverged=lambda y: has_diverged(y, bound_of(how.begin)),
        linearise=linearise if isinstance(how, Implicit) else None,
        radius=(lambda y: per_time * how.radius(y)) if isinstance(how, Stabilised) else None,
        meter=meter,
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

    Returns:
        y at the last target, and for every target (observables, states or None) and whether the
        state has diverged, (targets, …).
    """
    keep = _keep(theory, steps_of, states)
    step = lambda _, y: steps_of.advance(y)
    read = lambda _, y: (keep(y), has_diverged(y, bound))
    return record_steps(step, read, y, first, targets, count)
