"""`solve`: the curve that a theory predicts."""

import threading
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from learndyn.records import Outcome, Recording, Variable, make_record
from learndyn.records.schema import Stopwatch
from learndyn.runtime.checks import (
    either,
    instance,
    one_of,
    positive,
    seed,
)
from learndyn.runtime.divergence import bound_of, diverged_rows, has_diverged
from learndyn.runtime.interruption import interruptible, stop_if_interrupted, warn
from learndyn.runtime.pieces import pieces
from learndyn.runtime.precision import full_precision, to_numpy
from learndyn.runtime.progress import Report, reporting
from learndyn.runtime.times import increasing_times, padded_rows, warn_off_grid
from learndyn.runtime.types import Int, Number
from learndyn.solving.fluctuations import integrate_with_noise
from learndyn.solving.integrate import integrate, iterate, observe_each
from learndyn.starting import Start, sampled_start
from learndyn.system import System
from learndyn.theory import AbstractTheory, Coverage, Flow, Map, Noise, Refused, theory_of
from learndyn.theory.dynamics import Explicit, Implicit, Spread, Stabilised, State

ROWS = 256  # largest number of times in a piece of an iterated map
NUMBERS = 2**22  # of a closed form that are in memory at once
MOST_STEPS = 10**11  # of an iterated map, at 0.1 microseconds per step or more
SOLVERS = {Explicit: "Dopri8", Implicit: "Rodas", Stabilised: "Chebyshev"}


@interruptible
def solve(
    system: System,
    times,
    *,
    start: Start | None = None,
    key: int = 0,
    order: str = "full",
    fluctuations: bool = False,
    states: bool = False,
    theory: Any = None,
    accuracy: Number | None = None,
    rtol: Number = 1e-8,
    atol: Number = 1e-10,
    progress: bool | Report = False,
    cancel: threading.Event | None = None,
) -> xr.Dataset:
    """The trajectory that the theory of a system predicts.

    Args:
        system: the system.
        times: increasing, non-negative, in the system's unit of time (steps / N for
            committees).
        start: the initial condition, at time 0; None samples `start(system, key=key)`.
        key: seed of that sample.
        order: "full", all terms in the learning rate; "flow", the limit of a small learning rate
            on the same time axis; "finite" (committees), the exact mean of one step, iterated. It
            is closed for linear students; otherwise it neglects the feedback of the fluctuations,
            which is of the same order 1/N. Two linear layers have "finite", which keeps the 2 in
            factors such as (inputs + 2), and "wide", the limit of a wide hidden layer. Committees
            with momentum have "inertial", the limit of large N at a fixed N (1 − momentum), which
            is the better one if momentum is near 1; "full" is the limit at a fixed momentum.
        fluctuations: whether to predict, for every observable, the standard deviation of a
            run at size N (`<name>_std`), by the linear-noise equation of committees under
            SGD; for orders "full" and "flow" and at most 2000 state variables. The tolerance of the
            covariance is 1000 `rtol`, but at least 1e-8. For linear models under mini-batches it is
            that of a run, as if outputs were Gaussian.
        states: whether to keep the state itself, as variables `state_<field>`.
        theory: the name or the class of the theory to use; None takes the one that covers the
            system.
        accuracy: the relative error that Gaussian averages without a closed form aim at, for
            committees; None is 1e-6. The attributes `averages` and `averages_error` of the record
            say how they were computed, and how much a finer computation changes them at the start.
        rtol: relative tolerance of the integrator.
        atol: absolute tolerance of the integrator.
        progress: True shows a bar with the time left (in a file, a line every half minute); a
            function is called with the fraction done.
        cancel: an event; once another thread has set it, the call ends within half a second.

    Returns:
        A record. A solution that diverges is also a result: see `outcome` and `diverged_at`.

    Warns:
        UserWarning: if the theory covers the start only approximately, and if times lie between
            the steps of a map.

    Raises:
        NoTheory: if no theory covers the system.
        ValueError: for times, tolerances or an order that are not allowed.
        Cancelled: if `cancel` was set.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> record = ld.solve(ld.System(line, network, ld.GradientDescent(0.1)), [0, 50])
        >>> record["map"].values[:, 0].round(3).tolist()
        [0.25, 2.0]
    """
    instance("system", system, System, "a System")
    times, key = increasing_times(times), seed("key", key)
    one_of("fluctuations", fluctuations, (False, True))
    one_of("states", states, (False, True))
    chosen, *_ = _moves(system, theory, order, fluctuations)
    # Not `start(system)`: the state must be one of the theory that was chosen.
    start = sampled_start(system, chosen, key) if start is None else Start.of(start)
    tolerances = positive("rtol", rtol), positive("atol", atol)
    state = chosen.as_state(start.state)
    coverage = chosen.covers_start(start.state, start.realise)
    chosen = chosen.resolved([state], accuracy)
    moves, noise = _dynamics(chosen, order), _noise(chosen, order) if fluctuations else None
    clock = moves.clock
    steps = clock.step_numbers(times)
    if isinstance(moves, Map):
        warn_off_grid(times, steps, clock.steps, "solve")
    _warn_of_start(chosen, coverage)
    about = system.describe()  # before the work: an error here must not lose the result
    watch = Stopwatch()
    recording = Recording({}, times, _labels(chosen.variables, fluctuations))
    with full_precision(), reporting(progress, "solving") as report:
        if isinstance(moves, Map):
            method = _iterated(chosen, moves, noise, state, steps, states, recording, report)
        else:
            # With nobody to report to or to listen to, the integration is a single call.
            watched = progress or cancel is not None
            arguments = noise, state, times, tolerances, states, recording
            method = _integrated(chosen, moves, *arguments, report if watched else None)
        report(1.0)
    return make_record(
        recording.variables(),
        times=times,
        steps=steps,
        time_unit=clock.unit,
        lead={},
        outcomes=recording.outcomes,
        attributes={
            "engine": "solve",
            "method": method,
            "theory": chosen.name,
            "coverage": coverage.level,
            "coverage_reason": coverage.reason,
            "order": order,
            "rtol": float(tolerances[0]),
            "atol": float(tolerances[1]),
            "dtype": "float64",
            **chosen.attributes(state),
            **({"diffusion_error": noise.error(state)} if isinstance(noise, Noise) else {}),
            "key": key,
            **about,
            "wall_seconds": watch.seconds(),
        },
    )


def _moves(
    system: System, theory: Any, order: str, fluctuations: bool
) -> tuple[AbstractTheory, Flow | Map, Noise | Spread | None]:
    """The theory to solve, its dynamics and, if requested, its noise."""
    chosen = theory_of(system, theory)
    one_of("order", order, chosen.orders)
    return chosen, _dynamics(chosen, order), _noise(chosen, order) if fluctuations else None


def _dynamics(theory: AbstractTheory, order: str) -> Flow | Map:
    """The dynamics at an order; raises a ValueError that lists the orders that have dynamics."""
    moves = theory.dynamics(order)
    if not isinstance(moves, Refused):
        return moves
    others = [o for o in theory.orders if not isinstance(theory.dynamics(o), Refused)]
    if others:
        raise ValueError(f"order: got {order!r}, but {moves.reason}; allowed is {either(others)}")
    raise ValueError(
        f"system: got one that the {theory.name} theory does not solve at any order, as "
        f"{moves.reason}; allowed here is `simulate`"
    )


def _noise(theory: AbstractTheory, order: str) -> Noise | Spread:
    """The noise at an order; raises a ValueError that lists the orders that have one."""
    noise = theory.noise(order)
    if not isinstance(noise, Refused):
        return noise
    others = [o for o in theory.orders if not isinstance(theory.noise(o), Refused)]
    allowed = f"order={either(others)}" if others else "False"
    raise ValueError(f"fluctuations: got True, but {noise.reason}; allowed is {allowed}")


def _check_steps(steps: np.ndarray, per_time: Number) -> None:
    """Raises a ValueError where a map would be iterated for days."""
    if steps[-1] > MOST_STEPS:
        raise ValueError(
            f"times: got {steps[-1] / per_time:g}, which is step {steps[-1]:.3g} of a map, "
            f"hours to days of iterating; allowed are steps up to {MOST_STEPS:.0e}"
        )


def _warn_of_start(theory: AbstractTheory, coverage: Coverage) -> None:
    """Warns if the theory covers this start less well than the system's own initialisations."""
    if coverage.level == "approximate" and coverage != theory.covers(theory.system):
        warn(
            f"solve: the {theory.name} theory covers this start approximately "
            f"({coverage.reason}); start(system, state=…) begins from its state alone"
        )


def _labels(variables: Mapping[str, Variable], fluctuations: bool) -> dict[str, Variable]:
    labels = dict(variables)
    for name, label in variables.items() if fluctuations else ():
        long_name = f"standard deviation of {label.long_name}"
        labels[f"{name}_std"] = label._replace(long_name=long_name)
    return labels


def _iterated(
    theory,
    moves: Map,
    spread: Any,
    state: State,
    steps,
    states: bool,
    recording: Recording,
    report: Report,
) -> str:
    """Records a map at its steps, in closed form or iterated in pieces; returns the method."""
    if _in_closed_form(theory, moves, state, steps, states, recording, report):
        return "closed form"
    _check_steps(steps, moves.clock.steps)
    y = jax.tree.map(jnp.asarray, moves.begin(state))
    bound = bound_of(y)
    for piece in pieces(steps, ROWS):
        at = piece.first, piece.targets, piece.number
        y, ((observables, kept), gone) = to_numpy(
            iterate(theory, moves, y, bound, *at, states, spread)
        )
        cut = lambda rows, n=piece.kept: rows[:n]
        values = jax.tree.map(cut, {**observables, **_state_values(kept)})
        if not recording.take((), piece.asked, values, gone[: piece.kept]):
            break
        report(float(piece.targets[-1] / max(steps[-1], 1)))
        stop_if_interrupted()
    return "iterated map"


def _in_closed_form(
    theory, moves: Map, state: State, steps, states: bool, recording: Recording, report: Report
) -> bool:
    """Records a map in closed form, some of its steps at a time; False if it has none."""
    bound, rows = bound_of(state), max(1, NUMBERS // sum(map(np.size, jax.tree.leaves(state))))
    for first in range(0, len(steps), rows):
        along = moves.closed_form(state, steps[first : first + rows])
        if along is None:
            return False
        count = len(steps[first : first + rows])
        read = to_numpy(observe_each(theory, padded_rows(along, count), bound, states))
        (observables, kept), gone = jax.tree.map(lambda row, n=count: row[:n], read)
        values = {**observables, **_state_values(kept)}
        if not recording.take((), first, values, gone):
            before = steps[: first + int(np.argmax(gone))]
            step = _first_beyond(moves, state, bound, [0, *before][-1], steps[len(before)])
            recording.end((), Outcome("diverged", float(step / moves.clock.steps)))
            break
        report(min(1.0, (first + rows) / len(steps)))
    return True


def _first_beyond(moves: Map, state: State, bound, low: Int, high: Int) -> Int:
    """The first step after `low` whose state has diverged, which that of `high` has."""
    while high - low > 1:
        middle = (low + high) // 2
        gone = has_diverged(moves.closed_form(state, np.array([middle])), bound)
        low, high = (low, middle) if gone else (middle, high)
    return high


def _integrated(
    theory,
    flow: Flow,
    noise: Any,
    state: State,
    times: np.ndarray,
    tolerances,
    states: bool,
    recording: Recording,
    report: Report | None,
) -> str:
    """Records a flow at the times, in closed form or integrated; returns the method."""
    curve = None if states or noise is not None else flow.closed_form(state, times)
    if curve is not None:
        recording.take((), 0, curve, diverged_rows(curve))
        return "closed form"
    how = flow.integration(state, float(times[-1]))
    scale, (rtol, atol) = np.asarray(flow.clock.drift, dtype=np.float64), tolerances
    method = f"{SOLVERS[type(how)]}, adaptive, in {type(how.begin).__name__}"
    if noise is None:
        options = how, times, scale, rtol, atol
        stops = flow.stops(float(times[-1]))
        path = integrate(theory, flow, *options, stops=stops, states=states, report=report)
    else:
        options = how, times, scale, float(theory.system.dim), rtol, atol
        silent = lambda fraction: None
        path = integrate_with_noise(theory, flow, noise, *options, report or silent)
        method += ", with linear noise"
    observables, kept = path.saved
    values = {**observables, **_state_values(kept if states else None)}
    recording.take((), 0, values, np.zeros(len(times), bool))
    if path.diverged or not path.succeeded:
        how = "diverged" if path.diverged else "tolerance not reached"
        recording.end((), Outcome(how, float(path.end)))
    return method


def _state_values(kept: Any) -> dict[str, Any]:
    """The leaves of a state, (time, …), named after its fields."""
    variables = {}
    for path, values in jax.tree_util.tree_leaves_with_path(kept):
        name = "state" + "".join(f"_{getattr(k, 'name', getattr(k, 'idx', k))}" for k in path)
        variables[name] = values
    return variables
