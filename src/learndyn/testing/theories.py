"""What every theory must do. Each check takes a small system that it covers."""

import dataclasses
import json
import pathlib
import tempfile
from typing import Any

import jax
import numpy as np

from learndyn.analysis import compare
from learndyn.records import load, save
from learndyn.simulation import simulate
from learndyn.solving import solve
from learndyn.solving.integrate import _advance, iterate
from learndyn.starting import start
from learndyn.system import System
from learndyn.testing.refusals import refused
from learndyn.theory import AbstractTheory, Flow, Map, Refused, theory_of
from learndyn.theory.base import Coverage
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import Noise, Spread, State

THREE = np.arange(3.0)  # the number of times is compiled in: one number for all


def order_of(theory: AbstractTheory, kind: type) -> str | None:
    """The first order that is a flow, or a map; None if there is none."""
    return next((o for o in theory.orders if isinstance(theory.dynamics(o), kind)), None)


def _leaves(state: State) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state)])


def _size(state: State) -> float:
    return float(np.abs(_leaves(state)).max())


def moving(theory: AbstractTheory, state: State, order: str) -> State:
    """What the dynamics moves of a state: itself, or fewer numbers."""
    found: Any = theory.dynamics(order)
    y = found.begin(state) if isinstance(found, Map) else found.integration(state, 1.0).begin
    return found.state(y)


def _tangent(theory: AbstractTheory, state: State, order: str) -> State:
    """D state / d time in the unit of `solve`."""
    dynamics: Any = theory.dynamics(order)
    scale = dynamics.clock.drift
    return jax.tree.map(lambda d: scale * np.asarray(d), theory.drift(state, order))


def _changed(values: dict[str, Any], first: dict[str, Any]) -> float:
    return max(float(np.abs(np.asarray(values[n]) - first[n]).max()) for n in first)


def covers_what_it_says(system: System) -> None:
    """With a reason; a record names the theory and how it covers the system."""
    theory = theory_of(system)
    found = theory.covers(system)
    assert isinstance(found, Coverage) and found.reason
    assert found.level in ("exact", "approximate"), f"covers: got {found.level!r}"
    record = solve(system, THREE)
    assert record.attrs["theory"] == theory.name
    assert record.attrs["coverage"] == found.level and record.attrs["coverage_reason"]


def drift_is_the_slope_of_its_own_solution(system: System) -> None:
    """One-sided differences of the observables along a solve, against the derivative by `drift`."""
    theory, begin = theory_of(system), start(system, key=1)
    order = order_of(theory, Flow)
    if order is None:
        return
    state = moving(theory, begin.state, order)
    h = 1e-4 * (_size(state) or 1.0) / _size(_tangent(theory, state, order))
    solved = solve(system, [0.0, h, 2 * h], start=begin, order=order, rtol=1e-12, atol=1e-14)
    with jax.enable_x64(True):
        along = _tangent(theory, state, order)
        values, slopes = jax.jvp(theory.observe, (state,), (along,))
    for name, slope in slopes.items():
        slope, first = np.asarray(slope), np.abs(np.asarray(values[name])).max()
        measured = (4 * solved[name][1] - solved[name][2] - 3 * solved[name][0]) / (2 * h)
        # The state moves by 1e-4 in h: such a difference misses by about 1e-8 of the state's rate.
        scale = np.abs(slope).max()
        np.testing.assert_allclose(measured, slope, atol=2e-4 * scale + 1e-12 * first / h)
        still = name in theory.invariants(state)
        assert still or scale * h > 1e-7 * first, f"{name} does not move: any drift would do"


def maps_advance_as_they_are_solved(system: System) -> None:
    """Two steps by `advance`, against `solve`; a theory without maps says so."""
    theory = theory_of(system)
    order = order_of(theory, Map)
    if order is None:
        with refused("has no map, as no order is one; allowed is `drift`"):
            theory.advance(start(system).state)
        return
    begin, dynamics = start(system, key=1), theory.dynamics(order)
    assert isinstance(dynamics, Map)
    state = theory.advance(theory.advance(begin.state))
    solved = solve(system, THREE / dynamics.clock.steps, start=begin, order=order)
    for name, value in theory.observe(state).items():
        np.testing.assert_allclose(solved[name][2], value, rtol=1e-12, atol=1e-14)


def invariants_do_not_move(system: System) -> None:
    """Along the flow; along a random direction they do, so that the check could fail."""
    theory = theory_of(system)
    order = order_of(theory, Flow)
    if order is None:
        return
    state = moving(theory, start(system, key=2).state, order)
    first, h = theory.invariants(state), 1e-6
    if not first:
        return
    along, rng = _tangent(theory, state, order), np.random.default_rng(0)
    across = jax.tree.map(lambda d: rng.normal(size=d.shape) * _size(along), along)
    moved = lambda t: jax.tree.map(lambda s, d: s + h * d, state, t)
    bound = 100 * h**2 * max(1, _size(along)) ** 2
    changes = [_changed(theory.invariants(moved(t)), first) for t in (along, across)]
    assert changes[0] < bound, f"invariants: changed by {changes[0]:.2g} along the flow"
    assert bound < changes[1], "invariants: another direction does not change them either"


def project_undoes_realise(system: System) -> None:
    """Or the theory cannot realise weights, and a start from a state says so."""
    theory, state = theory_of(system), start(system, key=3).state
    found = theory.realise(state, 5)
    if isinstance(found, Refused):
        with refused(r"\Astart: got a state, but [^\n]*\Z"):
            _ = start(system, state=state).weights
        return
    np.testing.assert_allclose(_leaves(theory.project(*found)), _leaves(state), atol=1e-12)


def observables_are_finite_and_named(system: System) -> None:
    """As `variables` says; landmarks are numbers, and papers and equations are named."""
    theory = theory_of(system)
    found = theory.observe(start(system).state)
    assert set(found) == set(theory.variables), f"observe: got {', '.join(found)}"
    for name, label in theory.variables.items():
        assert np.all(np.isfinite(found[name])) and np.ndim(found[name]) == len(label.dims), name
        assert label.long_name, f"variables: {name} has no long_name"
    assert all(isinstance(value, float) for value in theory.landmarks().values())
    assert theory.reference and all(each.paper and each.equations for each in theory.reference)


def both_roads_give_one_schema(system: System) -> None:
    """`solve` and `simulate` give records of the same variables, which files keep."""
    begin = start(system, key=4)
    theory, runs = solve(system, THREE, start=begin), simulate(system, THREE, start=begin)
    for name, values in theory.data_vars.items():
        dims = ("run", *values.dims) if name != "outcome" else ("run",)
        assert runs[name].dims == dims, f"{name}: got {runs[name].dims}; expected is {dims}"
    if theory.attrs["coverage"] == "exact":  # others have a loss that the modes do not see
        np.testing.assert_allclose(theory.error[0], runs.error[0, 0], rtol=1e-4, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        for record in (theory, runs):
            save(record, pathlib.Path(folder) / "r.nc")
            assert load(pathlib.Path(folder) / "r.nc").identical(record)
            assert json.loads(record.attrs["system"])["kind"] == "System"
    assert compare(theory, runs).verdict


def its_system_is_written_and_read_again(system: System) -> None:
    """As JSON."""
    assert System.from_json(system.to_json()).to_json() == system.to_json()


def compiles_once_under_changed_learning_rates(system: System) -> None:
    """So that a sweep over rates compiles once: numbers are traced, not baked in."""
    engine: Any = iterate if order_of(theory_of(system), Map) == "full" else _advance
    solve(system, THREE)
    before = engine._cached._cache_size()
    names = [f.name for f in dataclasses.fields(system.rule) if f.init]
    settings = {name: getattr(system.rule, name) for name in names}
    rate = "learning_rate" if "learning_rate" in settings else "rate"
    other = type(system.rule)(**{**settings, rate: 0.9 * settings[rate]})
    solve(System(system.problem, system.network, other), THREE, key=7)
    assert engine._cached._cache_size() == before, "another rate was compiled anew"


def wrong_states_are_refused(system: System) -> None:
    """In one line."""
    with refused(r"state: got an? "):
        start(system, state="nothing")


def every_capability_works_or_refuses_with_a_reason(system: System) -> None:
    """Dynamics at every order, noise, chain; and states are vectors and back."""
    theory, state = theory_of(system), start(system, key=1).state
    for order in theory.orders:
        moves, noise = theory.dynamics(order), theory.noise(order)
        assert isinstance(moves, Flow | Map) and moves.clock.unit and moves.clock.steps > 0
        assert isinstance(noise, Noise | Spread) or (isinstance(noise, Refused) and noise.reason)
        n = np.size(theory.vector(state))
        if isinstance(noise, Noise):
            assert noise.diffusion(state).shape == (n, n) and noise.error(state) >= 0
        elif isinstance(noise, Spread):
            assert set(noise.deviations(state)) == set(theory.observe(state))
        else:
            with refused(r"\Afluctuations: got True, but [^\n]*\Z"):
                solve(system, THREE, order=order, fluctuations=True)
    again = theory.with_vector(state, theory.vector(state))
    np.testing.assert_allclose(_leaves(again), _leaves(state), rtol=1e-15)
    chain = theory.chain()
    assert isinstance(chain, AbstractChain) or (isinstance(chain, Refused) and chain.reason)


def unknown_orders_are_refused(system: System) -> None:
    """In one line that lists the theory's own."""
    with refused("order: got 'loud'; allowed is one of"):
        solve(system, THREE, order="loud")


def states_are_kept_where_they_are_asked_for(system: System) -> None:
    """As variables from which the states, and so the observables, can be made again."""
    theory, begin = theory_of(system), start(system, key=1)
    record = solve(system, THREE, start=begin, states=True)
    state = moving(theory, begin.state, "full")
    names = [str(name) for name in record.data_vars if str(name).startswith("state_")]
    assert names and "state_" not in "".join(map(str, solve(system, THREE).data_vars))
    fields = {name.removeprefix("state_"): record[name].values[0] for name in names}
    first = type(state)(**fields)
    np.testing.assert_allclose(_leaves(first), _leaves(state), atol=1e-12)
    last = type(state)(**{n.removeprefix("state_"): record[n].values[-1] for n in names})
    for name, value in theory.observe(last).items():
        np.testing.assert_allclose(record[name][-1], value, rtol=1e-8, atol=1e-12)


CHECKS = (
    covers_what_it_says,
    drift_is_the_slope_of_its_own_solution,
    maps_advance_as_they_are_solved,
    invariants_do_not_move,
    project_undoes_realise,
    observables_are_finite_and_named,
    both_roads_give_one_schema,
    its_system_is_written_and_read_again,
    compiles_once_under_changed_learning_rates,
    wrong_states_are_refused,
    every_capability_works_or_refuses_with_a_reason,
    unknown_orders_are_refused,
    states_are_kept_where_they_are_asked_for,
)
