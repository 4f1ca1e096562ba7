"""Adaptive integration with diffrax's solvers, shared by theories and by training of weights.

The loop is our own. Diffrax's `diffeqsolve` checks its times by calls back into Python, and JAX
keeps no program with such calls in its persistent cache; it also compiles interpolation, events and
checkpoints that we do not use. Here a failure is part of the result, see `Trajectory`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp

from learndyn.numerics.chebyshev import Chebyshev, Radius
from learndyn.numerics.rosenbrock import Linearise, Rodas
from learndyn.runtime.divergence import largest
from learndyn.runtime.stepping import blank_rows, with_row
from learndyn.runtime.types import Array

MAX_STEPS = 200_000
# Length of the first step, relative to the first requested time. It is long: near a singular start,
# as of natural gradient, a field has digits only a little away from it.
FIRST = 1e-2
NEAR = 1e-14  # a requested time this close to the end of a step, relatively, is that end


class Trajectory(NamedTuple):
    """What was saved at the requested times, and how the integration ended.

    Attributes:
        saved: pytree with a leading time axis; NaN at times that were not reached.
        end: time at which the integration ended or was seen to have diverged.
        diverged: whether it diverged.
        succeeded: whether the tolerance was met up to the end.
        last: y at the end.
    """

    saved: Any
    end: Array
    diverged: Array
    succeeded: Array
    last: Any


class Walk(NamedTuple):
    """Where an integration stands.

    Attributes:
        t: the time.
        ahead: the end of the next step, as the controller proposes it.
        y: the state at t.
        solver: the solver's own state.
        controller: the controller's own state.
        steps: the number of steps tried so far.
        diverged: whether y has diverged.
        done: the number of times that were saved.
        rows: what was saved.
    """

    t: Array
    ahead: Array
    y: Any
    solver: Any
    controller: Any
    steps: Array
    diverged: Array
    done: Array
    rows: Any

    def has_ended(self, most_steps: Any = MAX_STEPS) -> Array:
        """Whether no further step can or may be taken."""
        # A step that is lost in rounding: the tolerance cannot be met.
        stuck = ~(self.ahead > self.t)
        return self.diverged | stuck | (self.steps >= most_steps)

    def trajectory(self, count: Any) -> Trajectory:
        """What was saved so far, of `count` requested times."""
        return Trajectory(self.rows, self.t, self.diverged, self.done >= count, self.y)


def integrate(
    field: Callable[[Any], Any],
    start: Any,
    times: Array,
    save: Callable[[Any], Any],
    **options: Any,
) -> Trajectory:
    """Integrates dy/dt = field(y) from time 0, saving `save(y)` at `times`.

    Args:
        field: the right-hand side.
        start: y at time 0, a pytree.
        times: increasing, non-negative.
        save: y → what to save.
        options: see `integrator`.

    Returns:
        The trajectory.
    """
    steps, times = integrator(field, save, **options), jnp.asarray(times)
    return steps.advance(steps.begin(start, times), times, len(times)).trajectory(len(times))


def integrator(
    field: Callable[[Any], Any],
    save: Callable[[Any], Any],
    *,
    rtol: Any,
    atol: Any,
    diverged: Callable[[Any], Array],
    linearise: Linearise | None = None,
    radius: Radius | None = None,
) -> "Integrator":
    """Dopri8, or for stiff systems Rodas if `linearise` is given and Chebyshev if `radius` is.

    Args:
        field: the right-hand side.
        save: y → what to save.
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        diverged: y → whether it has diverged; the integration then ends.
        linearise: (y, w) → the solver of (w − Jacobian) x = b, as `Rodas` takes it.
        radius: y → a bound on the Jacobian's spectral radius, as `Chebyshev` takes it.

    Returns:
        The integrator.
    """
    # "lax": the stages in a plain loop, without the checkpoints of reverse differentiation.
    solver = diffrax.Dopri8(scan_kind="lax") if radius is None else Chebyshev(radius)
    solver = solver if linearise is None else Rodas(linearise)
    # Errors are measured by the largest entry: entries that never move would dilute a mean.
    controller = diffrax.PIDController(rtol=rtol, atol=atol, norm=largest)
    return Integrator(
        diffrax.ODETerm(lambda t, y, args: field(y)), save, diverged, solver, controller
    )


class Integrator(NamedTuple):
    """Takes the steps of an integration, one after another.

    Attributes:
        term: the right-hand side.
        save: y → what to save.
        diverged: y → whether it has diverged.
        solver: computes a step and estimates its error.
        controller: accepts or rejects the step, and chooses the length of the next.
    """

    term: diffrax.ODETerm
    save: Callable[[Any], Any]
    diverged: Callable[[Any], Array]
    solver: diffrax.AbstractAdaptiveSolver
    controller: diffrax.PIDController

    def begin(self, start: Any, times: Array) -> Walk:
        """The walk at time 0, with room for what is saved at `times`."""
        y, t = jax.tree.map(jnp.asarray, start), jnp.zeros((), times.dtype)
        # The controller corrects a bad first step within a few. To choose a good one, diffrax would
        # compile the field twice more, a quarter of all that there is to compile.
        dt = FIRST * jnp.min(jnp.where(times > 0, times, jnp.inf))
        about, order = (self.term, t, times[-1], y), self._order()
        ahead, control = self.controller.init(*about, dt, None, self.solver.func, order)
        solver = self.solver.init(self.term, t, ahead, y, None)
        rows = blank_rows(jax.eval_shape(self.save, y), len(times))
        rows = jax.tree.map(lambda leaf: _blank_unless(False, leaf), rows)
        none = jnp.zeros((), int)
        return Walk(t, ahead, y, solver, control, none, jnp.asarray(False), none, rows)

    def advance(self, walk: Walk, times: Array, count: Any, most_steps: Any = MAX_STEPS) -> Walk:
        """Goes on until all times are saved, or no further step can or may be taken.

        Args:
            walk: where to go on.
            times: increasing, non-negative.
            count: how many of the times to visit; those after them are padding.
            most_steps: the number of steps, since time 0, to stop after.

        Returns:
            The walk at its end.
        """

        def to_next_time(walk: Walk) -> Walk:
            goal = times[walk.done]
            going = lambda walk: (walk.t < goal) & ~walk.has_ended(most_steps)
            walk = jax.lax.while_loop(going, lambda walk: self._step(walk, goal), walk)
            # The row of a time that was not reached is written all the same, as NaN: a branch
            # would copy all rows. It is written again if the walk goes on.
            reached = walk.t >= goal
            row = jax.tree.map(lambda leaf: _blank_unless(reached, leaf), self.save(walk.y))
            return walk._replace(done=walk.done + reached, rows=with_row(walk.rows, walk.done, row))

        def unfinished(walk: Walk) -> Array:
            at_time = walk.t >= times[walk.done]
            return (walk.done < count) & (at_time | ~walk.has_ended(most_steps))

        return jax.lax.while_loop(unfinished, to_next_time, walk)

    def _step(self, walk: Walk, goal: Array) -> Walk:
        """The walk after one step, accepted or not, which ends at `goal` at the latest."""
        # Steps end on the requested times: interpolating between steps would lose a digit or two.
        end = jnp.where(walk.ahead > goal * (1 - NEAR), goal, walk.ahead)
        at = walk.t, end, walk.y
        y, error, _, solver, _ = self.solver.step(self.term, *at, None, walk.solver, False)
        error = jax.tree.map(lambda e: jnp.where(jnp.isnan(e), jnp.inf, e), error)
        accepted, t, ahead, _, control, _ = self.controller.adapt_step_size(
            *at, y, None, error, self._order(), walk.controller
        )
        new, old = (y, solver), (walk.y, walk.solver)
        y, solver = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)
        state = dict(t=t, ahead=ahead, y=y, solver=solver, controller=control)
        return walk._replace(**state, steps=walk.steps + 1, diverged=self.diverged(y))

    def _order(self) -> Any:
        return self.solver.error_order(self.term)


def _blank_unless(known: Any, leaf: Array) -> Array:
    """The leaf, or NaN; zero if it holds no floats."""
    blank = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.inexact) else 0
    return jnp.where(known, leaf, jnp.asarray(blank, leaf.dtype))
