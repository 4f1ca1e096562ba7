"""The one engine of theories: flows are integrated, maps are iterated, in float64."""

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics import ode
from learndyn.numerics.ode import Trajectory, largest
from learndyn.numerics.rosenbrock import Solve
from learndyn.numerics.types import Array
from learndyn.theory import AbstractTheory
from learndyn.theory.base import DIVERGED, Scheme, State


@eqx.filter_jit
def integrate(
    theory: AbstractTheory,
    state: State,
    times: Array,
    order: str,
    per_time: Array,
    rtol: Array,
    atol: Array,
    scheme: Scheme = "explicit",
) -> Trajectory:
    """Integrates `theory.drift` from time 0, observing at `times`.

    Learning rate, spectrum, start and tolerances are traced: only shapes compile anew.

    Args:
        theory: the theory, bound to its system.
        state: the state at time 0.
        times: increasing, non-negative.
        order: passed to `drift`.
        per_time: what `drift` is multiplied by, for the unit of `times`.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        scheme: "explicit" is Dopri8, "implicit" Rodas, "stabilised" Chebyshev.

    Returns:
        The trajectory of observables.
    """
    scaled = lambda y, factor: jax.tree.map(lambda leaf: leaf * factor, y)

    def linearise(y: State, w: Array) -> Solve:
        solve = theory.linearise(y, order, w / per_time)
        return lambda b: solve(scaled(b, 1 / per_time))

    radius = lambda y: per_time * theory.radius(y, order)
    return ode.integrate(
        lambda y: scaled(theory.drift(y, order), per_time),
        state,
        times,
        theory.observe,
        rtol=rtol,
        atol=atol,
        bound=DIVERGED * largest(state),
        linearise=linearise if scheme == "implicit" else None,
        radius=radius if scheme == "stabilised" else None,
    )


@eqx.filter_jit
def iterate(theory: AbstractTheory, state: State, steps: Array) -> Trajectory:
    """Iterates `theory.advance` from step 0, observing at `steps`.

    Args:
        theory: the theory, bound to its system.
        state: the state at step 0.
        steps: non-decreasing step numbers.

    Returns:
        The trajectory of observables.
    """
    state = jax.tree.map(jnp.asarray, state)
    bound = DIVERGED * largest(state)

    def until(carry, step):
        state, first = carry
        state = jax.lax.fori_loop(first, step, lambda _, s: theory.advance(s), state)
        return (state, step), (theory.observe(state), ~(largest(state) <= bound))

    _, (observables, gone) = jax.lax.scan(until, (state, jnp.zeros_like(steps[0])), steps)
    gone = jnp.cumsum(gone) > 0
    blank = lambda v: jnp.where(gone.reshape(-1, *[1] * (v.ndim - 1)), jnp.nan, v)
    end = steps[jnp.argmax(gone)]
    return Trajectory(jax.tree.map(blank, observables), end, jnp.any(gone), jnp.array(True))
