"""The one engine of theories: flows are integrated, maps are iterated, in float64."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from learndyn.numerics import ode
from learndyn.numerics.divergence import bound_of, has_diverged
from learndyn.numerics.ode import Trajectory
from learndyn.numerics.progress import Meter
from learndyn.numerics.rosenbrock import Solve
from learndyn.numerics.stepping import record_steps
from learndyn.numerics.types import Array
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

    Learning rate, spectrum, start and tolerances are traced: only shapes compile anew.

    Args:
        theory: the theory, which observes.
        flow: its flow.
        how: where to begin, in which coordinates and by which scheme.
        times: increasing, non-negative.
        per_time: what `drift` is multiplied by, for the unit of `times`.
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
        theory: the theory, which observes.
        steps_of: its map.
        y: the state at step `first`, in the map's own coordinates.
        bound: what its largest entry may grow to.
        first: the step at which y stands.
        targets: non-decreasing step numbers, (targets,).
        count: how many of them are meant.
        states: whether to keep the states as well.

    Returns:
        y at the last target; and (observables, states or None) with whether it has diverged,
        (targets, …).
    """
    keep = _keep(theory, steps_of, states)
    advance = lambda y, _, at, end: jax.lax.fori_loop(at, end, lambda _, y: steps_of.advance(y), y)
    read = lambda y: (keep(y), has_diverged(y, bound))
    return record_steps(advance, read, y, first, targets, count)
