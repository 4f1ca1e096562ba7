"""The one engine of theories: flows are integrated, maps are iterated, in float64."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics import ode
from learndyn.numerics.ode import Trajectory, largest
from learndyn.numerics.rosenbrock import Solve
from learndyn.numerics.types import Array
from learndyn.theory import AbstractTheory, Flow, Map
from learndyn.theory.base import DIVERGED
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
        bound=DIVERGED * largest(how.begin),
        linearise=linearise if isinstance(how, Implicit) else None,
        radius=(lambda y: per_time * how.radius(y)) if isinstance(how, Stabilised) else None,
    )


def _keep(theory: AbstractTheory, moves: Flow | Map, states: bool) -> Callable[[State], Any]:
    return lambda y: (theory.observe(y), moves.state(y) if states else None)


@eqx.filter_jit
def iterate(
    theory: AbstractTheory, steps_of: Map, state: State, steps: Array, states: bool = False
) -> Trajectory:
    """Iterates a map from step 0, observing at `steps`.

    Args:
        theory: the theory, which observes.
        steps_of: its map.
        state: the state at step 0, in the map's own coordinates.
        steps: non-decreasing step numbers.
        states: whether to keep the states as well.

    Returns:
        The trajectory of (observables, states or None).
    """
    state = jax.tree.map(jnp.asarray, state)
    bound, keep = DIVERGED * largest(state), _keep(theory, steps_of, states)

    def until(carry, step):
        state, first = carry
        state = jax.lax.fori_loop(first, step, lambda _, s: steps_of.advance(s), state)
        return (state, step), (keep(state), ~(largest(state) <= bound))

    _, (saved, gone) = jax.lax.scan(until, (state, jnp.zeros_like(steps[0])), steps)
    gone = jnp.cumsum(gone) > 0
    blank = lambda v: jnp.where(gone.reshape(-1, *[1] * (v.ndim - 1)), jnp.nan, v)
    end = steps[jnp.argmax(gone)]
    return Trajectory(jax.tree.map(blank, saved), end, jnp.any(gone), jnp.array(True))
