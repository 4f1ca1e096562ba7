"""The one engine that integrates theories: adaptive Runge-Kutta by diffrax, in float64."""

from typing import Any, NamedTuple, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics.types import Array
from learndyn.theory import AbstractTheory
from learndyn.theory.base import DIVERGED, State

MAX_STEPS = 200_000


class Trajectory(NamedTuple):
    """Observables at the asked times, and how the integration ended."""

    observables: dict[str, Any]
    end: Array
    diverged: Array
    succeeded: Array


@eqx.filter_jit
def integrate(
    theory: AbstractTheory, state: State, times: Array, order: str, rtol: Array, atol: Array
) -> Trajectory:
    """Integrates `theory.drift` from time 0, observing at `times`.

    Learning rate, spectrum, start and tolerances are traced: only shapes compile anew.

    Args:
        theory: the theory, bound to its system.
        state: the state at time 0.
        times: increasing, non-negative.
        order: passed to `drift`.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.

    Returns:
        The trajectory; entries after a divergence are not finite.
    """
    bound = DIVERGED * _largest(state)
    observe = diffrax.SubSaveAt(ts=times, fn=lambda t, y, args: theory.observe(y))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: theory.drift(y, order)),
        diffrax.Dopri8(),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=jax.tree.map(jnp.asarray, state),
        saveat=diffrax.SaveAt(subs=[observe, diffrax.SubSaveAt(t1=True, fn=lambda t, y, a: t)]),
        stepsize_controller=_controller(times, rtol, atol),
        event=diffrax.Event(lambda t, y, args, **_: _largest(y) > bound),
        max_steps=MAX_STEPS,
        throw=False,
    )
    observables, end = cast(Any, solution.ys)
    succeeded = diffrax.is_okay(solution.result)
    return Trajectory(observables, end[0], solution.event_mask, succeeded)


def _controller(times: Array, rtol: Array, atol: Array) -> diffrax.AbstractStepSizeController:
    # Steps end on the asked times, since interpolating between steps loses a digit or two, and
    # the largest error counts, since a mean would be diluted by entries that never move.
    adaptive = diffrax.PIDController(rtol=rtol, atol=atol, norm=_largest)
    return diffrax.ClipStepSizeController(adaptive, step_ts=times)


def _largest(tree: Any) -> Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(tree)]))
