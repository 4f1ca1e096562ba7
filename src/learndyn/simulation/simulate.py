"""`simulate`: the curve of the real network."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from learndyn.networks.base import Weights
from learndyn.numerics.checks import (
    function,
    increasing_times,
    instance,
    one_of,
    positive_int,
    seed,
    shown,
    warn_off_grid,
)
from learndyn.numerics.interruption import interruptible
from learndyn.numerics.precision import full_precision, products
from learndyn.numerics.progress import Counter, Report, reporting
from learndyn.records import Recording, Variable, make_record
from learndyn.records.schema import Stopwatch
from learndyn.simulation import direct, reduced, room
from learndyn.simulation.choosing import choose
from learndyn.simulation.flow import check_flow, follow_flow
from learndyn.simulation.following import follow, groups_of, rows_of
from learndyn.simulation.reading import Probe, Reading, reading_of
from learndyn.starting import Start, draw
from learndyn.system import System
from learndyn.theory import AbstractTheory, clock_of, find_theory
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import continuous

RESERVED = ("time", "step", "run", "start", "outcome", "diverged_at")  # see `make_record`


def simulate(
    system: System,
    times,
    *,
    start: Start | None = None,
    starts: Any = None,
    runs: int = 1,
    key: int = 0,
    method: str = "auto",
    dtype: str = "float32",
    probes: Mapping[str, Probe] | None = None,
    progress: bool | Report = False,
) -> xr.Dataset:
    """Trains the network of a system and measures what its theory speaks of.

    Where a theory knows the exact Markov chain of its state ("reduced"), the network is not
    built: its order parameters are drawn step by step, with the law that they have in a network
    of that size, at a cost that does not contain the size.

    Args:
        system: what learns.
        times: increasing, non-negative, in the system's unit of time.
        start: where every run begins, at time 0; None draws `start(system, key=key)`.
        starts: a list of several, each with `runs` runs: a dimension `start` more. Start number s
            runs as it would alone with `key + s`.
        runs: number of repeats, each with its own random numbers.
        key: seed; run r depends on (key, r) alone.
        method: "direct" takes every step on the full weights; "reduced" takes every step of
            the exact chain of the state (committees under SGD, two linear layers under SGD or
            node perturbation; always float64); "flow"
            integrates a rule without sampling in continuous time (learning rate × steps,
            float64, one run); "auto" is "reduced" where that is exact and faster for these runs
            on this machine, without probes, and else "direct". The record says which; random
            numbers of the two differ.
        dtype: precision of the weights of the direct engine, "float32" or "float64".
        probes: name → function of a `Model`, evaluated at the asked times in the compiled
            program; one that cannot be traced is called on NumPy arrays, and the attribute
            `read_between_pieces` names it. A name that the record has already is an error.
        progress: True shows a bar with the time left; a function gets the fraction done.

    Returns:
        A record with the dimension `run`. A run that diverges is a result: see `outcome`. The
        attribute `steps_per_second` counts the steps of all runs, what was compiled left out.

    Warns:
        UserWarning: where times lie between steps, so that others are taken for them.

    Raises:
        ValueError: for an argument that is not allowed.
    """
    instance("system", system, System, "a System")
    times, runs, key = increasing_times(times), positive_int("runs", runs), seed("key", key)
    one_of("dtype", dtype, ("float32", "float64"))
    probes, theory = _probes(probes), interruptible(lambda: find_theory(system))
    number = len(starts) if isinstance(starts, list | tuple) else 1
    asked = method, probes, max(number, 1) * runs, dtype
    method, chain = interruptible(lambda: choose(system, theory, *asked))
    room.check_step(system, chain)
    rate = check_flow(system).learning_rate if method == "flow" else None
    clock = clock_of(system, theory) if rate is None else continuous(rate, 1.0)
    steps = clock.step_numbers(times)
    if rate is None:
        warn_off_grid(times, steps, clock.steps, "simulate")
    given = _starts(system, theory, start, starts, key)
    seed("key", key + len(given) - 1)  # that of the last start
    for each in given:
        each.check_fits(system, theory, weights=chain is None)
    plan = _Plan(
        system=system,
        theory=theory,
        times=times,
        steps=steps,
        starts=given,
        runs=1 if method == "flow" else runs,
        key=key,
        dtype=dtype if method == "direct" else "float64",
        probes=probes,
    )
    about = system.describe()  # before the work, which it must not be able to lose
    watch = Stopwatch()
    with full_precision(), reporting(progress, "simulating") as report:
        count = Counter(len(given) * plan.runs * int(steps[-1]), report)
        if chain is not None:
            work = lambda: _reduced(plan, chain, count)
        else:
            work = lambda: (_flow if method == "flow" else _direct)(plan, count)
        recording, said = interruptible(work)
    record = make_record(
        recording.variables(),
        times=times,
        steps=steps,
        time_unit=clock.unit,
        lead=recording.lead,
        outcomes=recording.outcomes,
        attributes={
            "engine": "simulate",
            "method": method,
            "generator": "Philox4x32-10" if system.rule.samples else "none",
            "dtype": plan.dtype,
            **({} if jax.default_backend() == "cpu" else {"products": products()}),
            "key": key,
            **about,
            **said,
            "wall_seconds": watch.seconds(),
        },
    )
    return record if starts is not None else record.isel(start=0, drop=True)


class _Plan(NamedTuple):
    """What is to be simulated."""

    system: System
    theory: AbstractTheory | None
    times: np.ndarray
    steps: np.ndarray
    starts: Sequence[Start]
    runs: int
    key: int
    dtype: str
    probes: Mapping[str, Probe]

    def recording(self, labels: Mapping[str, Variable]) -> Recording:
        return Recording({"start": len(self.starts), "run": self.runs}, self.times, labels)

    def begin(self, number: int, together: int) -> tuple[Weights, Weights, Reading]:
        """Weights and teacher of a start, in the precision of the run, and how it is read."""
        cast = lambda tree: jax.tree.map(lambda w: np.asarray(w, self.dtype), tree)
        weights, teacher = cast(self.starts[number].weights), cast(self.starts[number].teacher)
        given = self.system, self.theory, weights, teacher, self.probes, together
        return weights, teacher, reading_of(*given)


def _starts(system, theory, start, starts, key) -> Sequence[Start]:
    if starts is None:
        return [draw(system, theory, key) if start is None else Start.of(start)]
    if start is not None:
        raise ValueError("starts: got some beside a start; allowed is one of the two")
    if not isinstance(starts, list | tuple) or not starts:
        raise ValueError(f"starts: got {shown(starts)}; allowed is a list of starts")
    return [Start.of(each, "starts") for each in starts]


def _probes(probes: Any) -> Mapping[str, Probe]:
    if probes is None:
        return {}
    instance("probes", probes, Mapping, "a dict name → function of a Model")
    for name, probe in probes.items():
        instance("probes", name, str, "a dict name → function of a Model")
        function(f"probes[{name!r}]", probe)
        if name in RESERVED:
            allowed = "another name"
            raise ValueError(f"probes: got {name!r}, which every record has; allowed is {allowed}")
    return probes


def _direct(plan: _Plan, count: Counter) -> tuple[Recording, dict[str, Any]]:
    width = direct.width_of(plan.runs)
    begin = functools.lru_cache(maxsize=4)(lambda number: plan.begin(number, width))
    weights, teacher, reading = begin(0)
    like = jax.eval_shape(reading.inside, weights, teacher)
    rows = rows_of(like, width, bool(reading.outside.names))
    room.check_record(len(plan.starts) * plan.runs, len(plan.times), like)
    engine = direct.Direct(plan.system, begin, plan.key, width)
    recording = plan.recording(reading.labels)
    groups = list(groups_of(len(plan.starts), plan.runs, width))
    rate = follow(engine, groups, plan.steps, rows, recording, count)
    return recording, {**reading.attributes, "steps_per_second": rate}


def _reduced(plan: _Plan, chain: AbstractChain, count: Counter) -> tuple[Recording, dict[str, Any]]:
    theory, states = plan.theory, [start.state for start in plan.starts]
    assert theory is not None
    width = reduced.width_of(plan.runs, chain)
    like = jax.eval_shape(theory.observe, states[0])
    rows = rows_of(like, width, False)
    room.check_record(len(plan.starts) * plan.runs, len(plan.times), like)
    engine = reduced.Reduced(theory, chain, states, plan.key, width)
    recording = plan.recording(theory.variables)
    groups = list(groups_of(len(states), plan.runs, width))
    rate = follow(engine, groups, plan.steps, rows, recording, count)
    return recording, {"theory": theory.name, "steps_per_second": rate}


def _flow(plan: _Plan, count: Counter) -> tuple[Recording, dict[str, Any]]:
    recording, attributes = None, {}
    for number in range(len(plan.starts)):
        weights, teacher, reading = plan.begin(number, 1)
        recording = recording or plan.recording(reading.labels)
        attributes = reading.attributes
        given = weights, teacher, reading, recording, number
        follow_flow(plan.system, plan.times, *given)
        count(int(plan.steps[-1]))
    assert recording is not None
    return recording, attributes
