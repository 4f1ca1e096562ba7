"""Adaptive integration by diffrax: one way for theories and for weights."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import diffrax
import jax
import jax.numpy as jnp

from learndyn.numerics.chebyshev import Chebyshev, Radius
from learndyn.numerics.divergence import largest
from learndyn.numerics.rosenbrock import Linearise, Rodas
from learndyn.numerics.types import Array

MAX_STEPS = 200_000


class Trajectory(NamedTuple):
    """What was saved at the asked times, and how the integration ended.

    Attributes:
        saved: pytree with a leading time axis; not finite after a divergence.
        end: time (or step) at which it ended or was found to have diverged.
        diverged: whether it was found to have diverged.
        succeeded: whether the tolerance was kept all the way.
        last: y where it ended.
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

    By Dopri8, or for stiff systems by Rodas, where `linearise` is given, or Chebyshev, where
    `radius` is.

    Args:
        field: the right-hand side.
        start: y at time 0, a pytree.
        times: increasing, non-negative.
        save: what to keep of y.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        diverged: whether y has diverged, where the integration ends.
        linearise: (y, w) → the solver of (w − Jacobian) x = b, as `Rodas` takes it.
        radius: y → a bound on the Jacobian's spectral radius, as `Chebyshev` takes it.
        meter: shows the progress.

    Returns:
        The trajectory.
    """
    kept = diffrax.SubSaveAt(ts=times, fn=lambda t, y, args: save(y))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: field(y)),
        _solver(linearise, radius),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=jax.tree.map(jnp.asarray, start),
        saveat=diffrax.SaveAt(subs=[kept, diffrax.SubSaveAt(t1=True, fn=lambda t, y, a: (t, y))]),
        stepsize_controller=_controller(times, rtol, atol),
        event=diffrax.Event(lambda t, y, args, **_: diverged(y)),
        max_steps=MAX_STEPS,
        throw=False,
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


def _controller(times: Array, rtol: Any, atol: Any) -> diffrax.AbstractStepSizeController:
    # Steps end on the asked times, since interpolating between steps loses a digit or two, and
    # the largest error counts, since a mean would be diluted by entries that never move.
    adaptive = diffrax.PIDController(rtol=rtol, atol=atol, norm=largest)
    return diffrax.ClipStepSizeController(adaptive, step_ts=times)
