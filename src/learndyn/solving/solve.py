"""`solve`: the curve that a theory predicts."""

import jax
import numpy as np
import xarray as xr

from learndyn.numerics.checks import increasing_times, one_of, positive
from learndyn.numerics.ode import Trajectory
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.types import Number
from learndyn.records import Outcome, make_record
from learndyn.records.schema import Stopwatch
from learndyn.solving.integrate import integrate, iterate
from learndyn.start import Start
from learndyn.start import start as begin
from learndyn.system import System
from learndyn.theory import theory_of


def solve(
    system: System,
    times,
    *,
    start: Start | None = None,
    key: int = 0,
    order: str = "full",
    fluctuations: bool = False,
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
            the same time axis.
        fluctuations: whether to predict standard deviations at size N; no theory here states
            a diffusion yet, so only False is allowed.
        rtol: relative tolerance of the integrator.
        atol: absolute tolerance of the integrator.

    Returns:
        A record. A solution that diverges is one too: see `outcome` and `diverged_at`.

    Raises:
        NoTheory: where no theory covers the system.
        ValueError: for times, tolerances or an order that are not allowed.
    """
    times = increasing_times(times)
    theory = theory_of(system)
    one_of("order", order, theory.orders)
    one_of("fluctuations", fluctuations, (False,))
    start = begin(system, key=key) if start is None else start
    tolerances = positive("rtol", rtol), positive("atol", atol)
    coverage = theory.judge(start.state, start.realise)
    watch = Stopwatch()
    state, clock = theory.check(start.state), theory.clock(order)
    steps = np.rint(times * clock.steps).astype(np.int64)
    with jax.enable_x64(True):
        if order in theory.maps:
            found = to_numpy(iterate(theory, state, steps))
        else:
            scale = np.asarray(clock.drift, dtype=np.float64)
            found = to_numpy(integrate(theory, state, times, order, scale, *tolerances))
    variables = {}
    for name, label in theory.variables.items():
        values = np.where(np.isfinite(found.saved[name]), found.saved[name], np.nan)
        labels = {"long_name": label.long_name, "units": label.unit}
        variables[name] = (("time", *label.dims), values, labels)
    return make_record(
        variables,
        times=times,
        steps=steps,
        time_unit=clock.unit,
        outcomes=[_outcome(found)],
        runs=False,
        attributes={
            "engine": "solve",
            "method": "iterated map" if order in theory.maps else "Dopri8, adaptive",
            "theory": theory.name,
            "coverage": coverage.level,
            "coverage_reason": coverage.reason,
            "order": order,
            "rtol": float(tolerances[0]),
            "atol": float(tolerances[1]),
            "dtype": "float64",
            "key": key,
            "size": system.dim,
            "system": system.to_json(),
            "wall_seconds": watch.seconds(),
        },
    )


def _outcome(found: Trajectory) -> Outcome:
    if found.diverged:
        return Outcome("diverged", float(found.end))
    if not found.succeeded:
        return Outcome("tolerance not reached", float(found.end))
    return Outcome("finished", float("nan"))
