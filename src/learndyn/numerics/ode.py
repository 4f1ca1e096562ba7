"""Adaptive integration with diffrax, shared by theories and by training of weights."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import diffrax
import jax
import jax.numpy as jnp

from learndyn.numerics.chebyshev import Chebyshev, Radius
from learndyn.numerics.rosenbrock import Linearise, Rodas
from learndyn.runtime.divergence import largest
from learndyn.runtime.types import Array

MAX_STEPS = 200_000


class Trajectory(NamedTuple):
    """What was saved at the requested times, and how the integration ended.

    Attributes:
        saved: pytree with a leading time axis; not finite after a divergence.
        end: time (or step) at which the integration ended or was seen to have diverged.
        diverged: whether it diverged.
        succeeded: whether the tolerance was met up to the end.
        last: y at the end.
    """

    saved: Any
    end: Array
    diverged: Array
    succeeded: Array
    last: Any


def integrate(
    field: Callable[[Any], Any],
    start: Any,
    times: Array,
    save: Callable[[Any], Any],
    *,
    rtol: Any,
    atol: Any,
    diverged: Callable[[Any], Array],
    linearise: Linearise | None = None,
    radius: Radius | None = None,
    meter: diffrax.AbstractProgressMeter | None = None,
) -> Trajectory:
    """Integrates dy/dt = field(y) from time 0, saving `save(y)` at `times`.

    Uses Dopri8, or for stiff systems Rodas if `linearise` is given and Chebyshev if `radius` is.

    Args:
        field: the right-hand side.
        start: y at time 0, a pytree.
        times: increasing, non-negative.
        save: y → what to save.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        diverged: y → whether it has diverged; the integration then ends.
        linearise: (y, w) → the solver of (w − Jacobian) x = b, as `Rodas` takes it.
        radius: y → a bound on the Jacobian's spectral radius, as `Chebyshev` takes it.
        meter: shows the progress.

    Returns:
        The trajectory.
    """
    # Errors are measured by the largest entry: entries that never move would dilute a mean. Steps
    # end on the requested times: interpolating between steps would lose a digit or two.
    adaptive = diffrax.PIDController(rtol=rtol, atol=atol, norm=largest)
    kept = diffrax.SubSaveAt(ts=times, fn=lambda t, y, args: save(y))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: field(y)),
        _solver(linearise, radius),
        t0=0.0,
        t1=times[-1],
        dt0=None,  # chosen by diffrax from the tolerances
        y0=jax.tree.map(jnp.asarray, start),
        saveat=diffrax.SaveAt(subs=[kept, diffrax.SubSaveAt(t1=True, fn=lambda t, y, a: (t, y))]),
        stepsize_controller=diffrax.ClipStepSizeController(adaptive, step_ts=times),
        event=diffrax.Event(lambda t, y, args, **_: diverged(y)),
        max_steps=MAX_STEPS,
        throw=False,  # a failure is reported in the trajectory
        progress_meter=diffrax.NoProgressMeter() if meter is None else meter,
    )
    saved, ended = cast(Any, solution.ys)
    end, last = jax.tree.map(lambda leaf: leaf[0], ended)
    okay = diffrax.is_okay(solution.result)
    return Trajectory(saved, end, solution.event_mask, okay, last)


def _solver(linearise: Linearise | None, radius: Radius | None) -> diffrax.AbstractAdaptiveSolver:
    if linearise is not None:
        return Rodas(linearise)
    return diffrax.Dopri8() if radius is None else Chebyshev(radius)
