"""`simulate`: trains the real network."""

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from learndyn.numerics.generators import selected
from learndyn.records import Recording, Variable, make_record
from learndyn.records.recording import OnRows
from learndyn.records.schema import Stopwatch
from learndyn.rules.watching import AbstractStepProbe
from learndyn.runtime.checks import (
    function,
    instance,
    one_of,
    positive_int,
    seed,
    shown,
)
from learndyn.runtime.interruption import interruptible
from learndyn.runtime.precision import full_precision, products
from learndyn.runtime.progress import Counter, Report, reporting
from learndyn.runtime.times import increasing_times, warn_off_grid
from learndyn.runtime.types import Weights
from learndyn.simulation import direct, memory, reduced
from learndyn.simulation.choosing import choose
from learndyn.simulation.flow import check_flow, follow_flow
from learndyn.simulation.following import follow, groups_of, rows_of
from learndyn.simulation.named_probe import NamedProbe
from learndyn.simulation.reading import Probe, Reading, reading_of
from learndyn.starting import Start, sampled_start
from learndyn.system import System
from learndyn.theory import AbstractTheory, clock_of, find_theory
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import continuous

RESERVED = ("time", "step", "run", "start", "outcome", "diverged_at")  # see `make_record`


@interruptible
def simulate(
    system: System,
    times,
    *,
    start: Start | None = None,
    starts: Any = None,
    runs: int = 1,
    key: int = 0,
    method: str = "auto",
    dtype: Any = "float32",
    probes: Mapping[str, Callable[..., Any]] | None = None,
    progress: bool | Report = False,
    on_rows: OnRows | None = None,
    cancel: threading.Event | None = None,
) -> xr.Dataset:
    """Trains the network of a system and measures the observables of its theory.

    If a theory knows the exact Markov chain of its state ("reduced"), no network is built: its
    order parameters are sampled step by step, from their distribution in a network of that size,
    at a cost that is independent of the size.

    Args:
        system: the system.
        times: increasing, non-negative, in the system's unit of time.
        start: the initial condition of every run, at time 0; None samples `start(system, key=key)`.
        starts: a list of several starts, each with `runs` runs; the record then has a dimension
            `start`. Start number s runs as it would alone with `key + s`.
        runs: number of repetitions, each with its own random numbers; up to a million in all.
        key: seed; run r depends on (key, r) alone.
        method: "direct" takes every step on the full weights; "reduced" takes every step of
            the exact chain of the state (committees under SGD, two linear layers under SGD or
            node perturbation; always float64); "flow" integrates a rule without sampling in
            continuous time (learning rate × steps, float64, one run); "auto" is "reduced" if that
            is exact and faster for these runs on this machine and there are no probes, and
            "direct" otherwise. The record says which was used; the two use different random
            numbers.
        dtype: precision of the weights of the direct engine, "float32" or "float64", as a string
            or as a NumPy or JAX type (`np.float64`, `jnp.float32`).
        probes: name → function of a `Model`, evaluated at the requested times inside the compiled
            program. A function that cannot be traced is called on NumPy arrays instead, and the
            attribute `read_between_pieces` names it. It returns numbers, of the same shape at all
            times. A name that the record has already is an error.
        progress: True shows a bar with the time left (in a file, a line every half minute); a
            function is called with the fraction done.
        on_rows: called with what is recorded, as `Rows`, while the simulation runs: about four
            times a second for every core, from other threads, one call at a time.
        cancel: an event; once another thread has set it, the call ends within half a second.

    Returns:
        A record with the dimension `run`. A run that diverges is also a result: see `outcome`. The
        attribute `steps_per_second` counts the steps of all runs, without compilation.

    Warns:
        UserWarning: if times lie between steps, so that the nearest steps are taken instead.

    Raises:
        ValueError: for an argument that is not allowed.
        Cancelled: if `cancel` was set.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> record = ld.simulate(ld.System(line, network, ld.GradientDescent(0.1)), [0, 50])
        >>> record["map"].dims, record["outcome"].values.tolist()
        (('run', 'time', 'mode'), ['finished'])
    """
    instance("system", system, System, "a System")
    times, runs, key = increasing_times(times), positive_int("runs", runs), seed("key", key)
    dtype = _precision(dtype)
    probes, theory = _probes(probes), find_theory(system)
    number = len(starts) if isinstance(starts, list | tuple) else 1
    method, chain = choose(system, theory, method, probes, max(number, 1) * runs, dtype)
    memory.require_memory_for_step(system, chain)
    rate = check_flow(system).learning_rate if method == "flow" else None
    clock = clock_of(system, theory) if rate is None else continuous(rate, 1.0)
    steps = clock.step_numbers(times)
    if rate is None:
        warn_off_grid(times, steps, clock.steps, "simulate")
    on_rows = None if on_rows is None else function("on_rows", on_rows)
    begin = _starts(system, theory, start, starts, key)
    seed("key", key + len(begin) - 1)  # the seed of the last start must be allowed too
    for each in begin:
        each.check_fits(system, theory, weights=chain is None)
    states = [each.state for each in begin if each.state is not None]
    theory = theory.resolved(states) if theory is not None and states else theory
    plan = _Plan(
        system=system,
        theory=theory,
        times=times,
        steps=steps,
        starts=begin,
        runs=1 if method == "flow" else runs,
        key=key,
        dtype=dtype if method == "direct" else "float64",
        probes=probes,
        on_rows=on_rows,
    )
    about = system.describe()  # before the work: an error here must not lose the result
    watch = Stopwatch()
    with full_precision(), reporting(progress, "simulating") as report:
        count = Counter(len(begin) * plan.runs * int(steps[-1]), report)
        if chain is not None:
            recording, attributes = _reduced(plan, chain, count)
        else:
            recording, attributes = (_flow if method == "flow" else _direct)(plan, count)
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
            "generator": selected() if system.rule.samples else "none",
            "dtype": plan.dtype,
            **({} if jax.default_backend() == "cpu" else {"products": products()}),
            "key": key,
            **about,
            **attributes,
            "wall_seconds": watch.seconds(),
        },
    )
    return record if starts is not None else record.isel(start=0, drop=True)


class _Plan(NamedTuple):
    """What to simulate."""

    system: System
    theory: AbstractTheory | None
    times: np.ndarray
    steps: np.ndarray
    starts: Sequence[Start]
    runs: int
    key: int
    dtype: str
    probes: Mapping[str, Probe]
    on_rows: OnRows | None

    def recording(self, labels: Mapping[str, Variable]) -> Recording:
        lead = {"start": len(self.starts), "run": self.runs}
        return Recording(lead, self.times, labels, self.on_rows)

    def begin(self, number: int, together: int) -> tuple[Weights, Weights, Reading]:
        """Weights and teacher of a start, in the precision of the run, and what to read."""
        cast = lambda tree: jax.tree.map(lambda w: np.asarray(w, self.dtype), tree)
        weights, teacher = cast(self.starts[number].weights), cast(self.starts[number].teacher)
        reading = reading_of(self.system, self.theory, weights, teacher, self.probes, together)
        return weights, teacher, reading


def _starts(system, theory, start, starts, key) -> Sequence[Start]:
    if starts is None:
        return [sampled_start(system, theory, key) if start is None else Start.of(start)]
    if start is not None:
        raise ValueError("starts: got a list and also a start; allowed is one of the two")
    if not isinstance(starts, list | tuple) or not starts:
        raise ValueError(f"starts: got {shown(starts)}; allowed is a list of starts")
    return [Start.of(each, "starts") for each in starts]


def _precision(dtype: Any) -> str:
    name = dtype
    with contextlib.suppress(Exception):  # of any kind: NumPy does not know this type
        name = None if dtype is None else np.dtype(dtype).name
    return one_of("dtype", name, ("float32", "float64"))


def _probes(probes: Any) -> Mapping[str, Probe]:
    if probes is None:
        return {}
    instance("probes", probes, Mapping, "a dict name → function of a Model")
    for name, probe in probes.items():
        instance("probes", name, str, "a dict name → function of a Model")
        function(f"probes[{name!r}]", probe)
        if name in RESERVED or not name or "/" in name:  # NetCDF cannot store such names
            allowed = f"names without '/' other than {', '.join(RESERVED)}"
            raise ValueError(f"probes: got {name!r}; allowed are {allowed}")
    as_named = lambda n, p: p if isinstance(p, AbstractStepProbe) else NamedProbe(n, p)
    return {name: as_named(name, probe) for name, probe in probes.items()}


def _direct(plan: _Plan, count: Counter) -> tuple[Recording, dict[str, Any]]:
    width = direct.width_of(plan.runs)
    begin = functools.lru_cache(maxsize=4)(lambda number: plan.begin(number, width))
    weights, teacher, reading = begin(0)
    read, like = direct.like_of(plan.system, reading.inside, weights, teacher)
    rows = rows_of(read, width, bool(reading.outside.names))
    memory.require_memory_for_record(len(plan.starts) * plan.runs, len(plan.times), like)
    engine = direct.Direct(plan.system, begin, plan.key, width)
    recording = plan.recording(reading.labels)
    groups = groups_of(len(plan.starts), plan.runs, width)
    rate = follow(engine, groups, plan.steps, rows, recording, count)
    return recording, {**reading.attributes, "steps_per_second": rate}


def _reduced(plan: _Plan, chain: AbstractChain, count: Counter) -> tuple[Recording, dict[str, Any]]:
    theory, states = plan.theory, [start.state for start in plan.starts]
    assert theory is not None
    width = reduced.width_of(plan.runs, chain)
    like = jax.eval_shape(theory.observe, states[0])
    rows = rows_of(like, width, False)
    memory.require_memory_for_record(len(plan.starts) * plan.runs, len(plan.times), like)
    engine = reduced.Reduced(theory, chain, states, plan.key, width)
    recording = plan.recording(theory.variables)
    groups = groups_of(len(states), plan.runs, width)
    rate = follow(engine, groups, plan.steps, rows, recording, count)
    return recording, {"theory": theory.name, "steps_per_second": rate}


def _flow(plan: _Plan, count: Counter) -> tuple[Recording, dict[str, Any]]:
    recording, attributes = None, {}
    for number in range(len(plan.starts)):
        weights, teacher, reading = plan.begin(number, 1)
        recording = recording or plan.recording(reading.labels)
        attributes = reading.attributes
        follow_flow(plan.system, plan.times, weights, teacher, reading, recording, number)
        count(int(plan.steps[-1]))
    assert recording is not None
    return recording, attributes
