"""`solve`: the curve that a theory predicts."""

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from learndyn.numerics.checks import (
    increasing_times,
    instance,
    one_of,
    positive,
    seed,
    warn_off_grid,
)
from learndyn.numerics.divergence import bound_of, diverged_rows
from learndyn.numerics.interruption import interruptible
from learndyn.numerics.pieces import pieces
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.progress import Report, metered, reporting
from learndyn.numerics.types import Number
from learndyn.records import Outcome, Recording, Variable, make_record
from learndyn.records.schema import Stopwatch
from learndyn.solving.fluctuations import integrate_with_noise
from learndyn.solving.integrate import integrate, iterate
from learndyn.starting import Start, draw
from learndyn.system import System
from learndyn.theory import AbstractTheory, Coverage, Flow, Map, Noise, Refused, theory_of
from learndyn.theory.dynamics import Explicit, Implicit, Stabilised, State

ROWS = 256  # times in a piece of an iterated map
MOST_STEPS = 10**11  # of an iterated map, whose step takes a tenth of a microsecond at least
SOLVERS = {Explicit: "Dopri8", Implicit: "Rodas", Stabilised: "Chebyshev"}


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
    rtol: Number = 1e-8,
    atol: Number = 1e-10,
    progress: bool | Report = False,
) -> xr.Dataset:
    """The trajectory that the theory of a system predicts.

    Args:
        system: what learns.
        times: increasing, non-negative, in the system's unit of time (steps / N for
            committees).
        start: where it begins, at time 0; None draws `start(system, key=key)`.
        key: seed of that draw.
        order: "full", all terms in the learning rate; "flow", the limit of a small one on
            the same time axis; "finite" (committees), the exact mean of one step, iterated:
            closed for linear students, elsewhere it leaves out the feedback of the
            fluctuations, which is of the same order 1/N. Two linear layers have "finite", without
            neglecting 2 against sizes, and "wide", the limit of a wide hidden layer.
        fluctuations: whether to predict, for every observable, the standard deviation of a
            run at size N (`<name>_std`), by the linear-noise equation of committees under
            SGD; orders "full" and "flow", at most 2000 state variables. The tolerance of their
            covariance is 1000 `rtol`, but not below 1e-8.
        states: whether to keep the state itself, as variables `state_<field>`.
        theory: the name or the class of a theory, to take that one.
        rtol: relative tolerance of the integrator.
        atol: absolute tolerance of the integrator.
        progress: True shows a bar with the time left; a function gets the fraction done.

    Returns:
        A record. A solution that diverges is one too: see `outcome` and `diverged_at`.

    Warns:
        UserWarning: where the theory covers the start only approximately, and where a map is asked
            for times between its steps, each once.

    Raises:
        NoTheory: where no theory covers the system.
        ValueError: for times, tolerances or an order that are not allowed.
    """
    instance("system", system, System, "a System")
    times, key = increasing_times(times), seed("key", key)
    one_of("fluctuations", fluctuations, (False, True))
    one_of("states", states, (False, True))
    found, moves, noise = interruptible(lambda: _moves(system, theory, order, fluctuations))
    # As `start` draws it, but a state of the theory that is named.
    start = draw(system, found, key) if start is None else Start.of(start)
    tolerances = positive("rtol", rtol), positive("atol", atol)
    state, coverage = interruptible(
        lambda: (found.as_state(start.state), found.covers_start(start.state, start.realise))
    )
    clock = moves.clock
    steps = clock.step_numbers(times)
    if isinstance(moves, Map):
        _check_steps(times, steps)
        warn_off_grid(times, steps, clock.steps, "solve")
    _warn_of_start(found, coverage)
    about = system.describe()  # before the work, which it must not be able to lose
    watch = Stopwatch()
    recording = Recording({}, times, _labels(found.variables, fluctuations))
    with jax.enable_x64(True), reporting(progress, "solving") as report:
        if isinstance(moves, Map):
            work = lambda: _iterated(found, moves, state, steps, states, recording, report)
        else:
            shown = report if progress else None
            asked = noise, state, times, tolerances, states, recording, shown
            work = lambda: _integrated(found, moves, *asked)
        method = interruptible(work)
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
            "theory": found.name,
            "coverage": coverage.level,
            "coverage_reason": coverage.reason,
            "order": order,
            "rtol": float(tolerances[0]),
            "atol": float(tolerances[1]),
            "dtype": "float64",
            **({"diffusion_error": noise.error(state)} if noise is not None else {}),
            "key": key,
            **about,
            "wall_seconds": watch.seconds(),
        },
    )


def _moves(
    system: System, theory: Any, order: str, fluctuations: bool
) -> tuple[AbstractTheory, Flow | Map, Noise | None]:
    """The theory that is meant, how it moves and, where that is asked, its noise."""
    found = theory_of(system, theory)
    one_of("order", order, found.orders)
    moves = given("order", found.dynamics(order), order)
    noise = given("fluctuations", found.noise(order), True) if fluctuations else None
    return found, moves, noise


def given(argument: str, capability: Any, value: Any) -> Any:
    """What a theory gave, or a ValueError with the reason why it did not."""
    if isinstance(capability, Refused):
        raise ValueError(f"{argument}: got {value!r}, but {capability.reason}; allowed is another")
    return capability


def _check_steps(times: np.ndarray, steps: np.ndarray) -> None:
    """Raises a ValueError where a map would be iterated for days."""
    if steps[-1] > MOST_STEPS:
        raise ValueError(
            f"times: got {times[-1]:g}, which is step {steps[-1]:.3g} of a map, "
            f"hours to days of iterating; allowed are steps up to {MOST_STEPS:.0e}"
        )


def _warn_of_start(theory: AbstractTheory, coverage: Coverage) -> None:
    """Warns where a theory covers this start only approximately, whatever it says of its law."""
    if coverage.level == "approximate" and coverage != theory.covers(theory.system):
        warnings.warn(
            f"solve: the {theory.name} theory covers this start approximately "
            f"({coverage.reason}); start(system, state=…) begins from its state alone",
            stacklevel=3,
        )


def _labels(variables: Mapping[str, Variable], fluctuations: bool) -> dict[str, Variable]:
    found = dict(variables)
    for name, label in variables.items() if fluctuations else ():
        said = f"standard deviation of {label.long_name}"
        found[f"{name}_std"] = label._replace(long_name=said)
    return found


def _iterated(
    theory, moves: Map, state: State, steps, states: bool, recording: Recording, report: Report
) -> str:
    """Records a map at its steps, in pieces."""
    y = jax.tree.map(jnp.asarray, moves.begin(state))
    bound = bound_of(y)
    for piece in pieces(steps, ROWS):
        at = piece.first, piece.targets, piece.number
        y, ((observables, kept), gone) = to_numpy(iterate(theory, moves, y, bound, *at, states))
        cut = lambda rows, n=piece.kept: rows[:n]
        values = jax.tree.map(cut, {**observables, **_state_values(kept)})
        if not recording.take((), piece.asked, values, gone[: piece.kept]):
            break
        report(float(piece.targets[-1] / max(steps[-1], 1)))
    return "iterated map"


def _integrated(
    theory,
    flow: Flow,
    noise: Noise | None,
    state: State,
    times: np.ndarray,
    tolerances,
    states: bool,
    recording: Recording,
    report: Report | None,
) -> str:
    """Records a flow at the times: in closed form, or integrated."""
    curve = None if states or noise is not None else flow.closed_form(state, times)
    if curve is not None:
        recording.take((), 0, curve, diverged_rows(curve))
        return "closed form"
    how = flow.integration(state, float(times[-1]))
    scale, (rtol, atol) = np.asarray(flow.clock.drift, dtype=np.float64), tolerances
    method = f"{SOLVERS[type(how)]}, adaptive, in {type(how.begin).__name__}"
    if noise is None:
        with metered(report) as meter:
            path = to_numpy(
                integrate(theory, flow, how, times, scale, rtol, atol, states=states, meter=meter)
            )
    else:
        asked = how, times, scale, float(theory.system.dim), rtol, atol
        path = integrate_with_noise(theory, flow, noise, *asked, report or (lambda fraction: None))
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
    found = {}
    for path, values in jax.tree_util.tree_leaves_with_path(kept):
        name = "state" + "".join(f"_{getattr(k, 'name', getattr(k, 'idx', k))}" for k in path)
        found[name] = values
    return found
