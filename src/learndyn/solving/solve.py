"""`solve`: the curve that a theory predicts."""

from typing import Any

import jax
import numpy as np
import xarray as xr

from learndyn.numerics.checks import increasing_times, one_of, positive, seed, step_numbers
from learndyn.numerics.ode import Trajectory
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.types import Number
from learndyn.records import Outcome, make_record
from learndyn.records.schema import Stopwatch
from learndyn.solving.fluctuations import integrate_with_noise
from learndyn.solving.integrate import integrate, iterate
from learndyn.start import Start
from learndyn.system import System
from learndyn.theory import Map, Refused, Variable, theory_of
from learndyn.theory.base import DIVERGED
from learndyn.theory.dynamics import Explicit, Implicit, Stabilised

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
            fluctuations, which is of the same order 1/N.
        fluctuations: whether to predict, for every observable, the standard deviation of a
            run at size N (`<name>_std`), by the linear-noise equation of committees under
            SGD; orders "full" and "flow", at most 2000 state variables.
        states: whether to keep the state itself, as variables `state_<field>`.
        theory: the name or the class of a theory, to take that one.
        rtol: relative tolerance of the integrator.
        atol: absolute tolerance of the integrator.

    Returns:
        A record. A solution that diverges is one too: see `outcome` and `diverged_at`.

    Raises:
        NoTheory: where no theory covers the system.
        ValueError: for times, tolerances or an order that are not allowed.
    """
    times, key = increasing_times(times), seed("key", key)
    found = theory_of(system, theory)
    one_of("order", order, found.orders)
    moves = given("order", found.dynamics(order), order)
    noise = given("fluctuations", found.noise(order), True) if fluctuations else None
    # As `start` draws it, but a state of the theory that is named.
    start = Start(*found.draw(key)) if start is None else start
    tolerances = positive("rtol", rtol), positive("atol", atol)
    state, clock = found.check(start.state), moves.clock
    coverage = found.judge(start.state, start.realise)
    steps = step_numbers(times, clock.steps)
    about = system.describe()  # before the work, which it must not be able to lose
    watch = Stopwatch()
    with jax.enable_x64(True):
        if noise is not None:
            path, method = _noisy(found, moves, noise, state, times, tolerances)
        else:
            path, method = _trajectory(found, moves, state, times, steps, tolerances, states)
    observables, kept = path.saved
    variables = {}
    for name, label in found.variables.items():
        variables[name] = _labelled(observables[name], label, label.long_name)
        if fluctuations:
            said = f"standard deviation of {label.long_name}"
            variables[f"{name}_std"] = _labelled(observables[f"{name}_std"], label, said)
    return make_record(
        variables | _state_variables(kept),
        times=times,
        steps=steps,
        time_unit=clock.unit,
        outcomes=[_outcome(path)],
        runs=False,
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


def given(argument: str, capability: Any, value: Any) -> Any:
    """What a theory gave, or a ValueError with the reason why it did not."""
    if isinstance(capability, Refused):
        raise ValueError(f"{argument}: got {value!r}, but {capability.reason}; allowed is another")
    return capability


def _state_variables(kept: Any) -> dict[str, Any]:
    """The leaves of a state, (time, …), as variables named after its fields."""
    found = {}
    for path, values in jax.tree_util.tree_leaves_with_path(kept):
        name = "state" + "".join(f"_{getattr(k, 'name', getattr(k, 'idx', k))}" for k in path)
        dims = tuple(f"{name}_{i}" for i in range(np.ndim(values) - 1))
        label = Variable(dims, name.replace("_", " "), "")
        found[name] = _labelled(values, label, label.long_name)
    return found


def _labelled(values: np.ndarray, label: Variable, said: str):
    finite = np.where(np.isfinite(values), values, np.nan)
    return ("time", *label.dims), finite, {"long_name": said, "units": label.unit}


def _trajectory(theory, moves, state, times, steps, tolerances, states) -> tuple[Trajectory, str]:
    """What the theory predicts at the times, and by which method."""
    if isinstance(moves, Map):
        return to_numpy(iterate(theory, moves, moves.begin(state), steps, states)), "iterated map"
    curve = None if states else moves.closed_form(state, times)
    if curve is not None:
        return _cut(curve, times), "closed form"
    how = moves.integration(state, float(times[-1]))
    scale = np.asarray(moves.clock.drift, dtype=np.float64)
    found = to_numpy(integrate(theory, moves, how, times, scale, *tolerances, states=states))
    return found, f"{SOLVERS[type(how)]}, adaptive, in {type(how.begin).__name__}"


def _noisy(theory, flow, noise, state, times, tolerances) -> tuple[Trajectory, str]:
    """The same with the standard deviation of every observable beside it."""
    scale, size = (np.asarray(x, np.float64) for x in (flow.clock.drift, theory.system.dim))
    found = integrate_with_noise(theory, flow, noise, state, times, scale, size, *tolerances)
    return to_numpy(found), "Dopri8, adaptive, with linear noise"


def _cut(curve: dict[str, np.ndarray], times: np.ndarray) -> Trajectory:
    """A closed form up to where it has diverged, as an integrator would have found it."""
    flat = np.concatenate([np.abs(v).reshape(len(times), -1) for v in curve.values()], axis=1)
    gone = ~(flat.max(axis=1) <= DIVERGED * max(flat[0].max(), 1.0))
    gone = np.cumsum(gone) > 0
    saved = {name: v.copy() for name, v in curve.items()}
    for v in saved.values():
        v[gone] = np.nan
    end = times[np.argmax(gone)] if gone.any() else times[-1]
    return Trajectory((saved, None), np.asarray(end), np.asarray(gone.any()), np.asarray(True))


def _outcome(found: Trajectory) -> Outcome:
    if found.diverged:
        return Outcome("diverged", float(found.end))
    if not found.succeeded:
        return Outcome("tolerance not reached", float(found.end))
    return Outcome("finished", float("nan"))
