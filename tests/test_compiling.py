"""What a person moves a slider over compiles nothing: solve, landmarks and simulate."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import learndyn as ld

COMPILED: list[str] = []
EVENT = "/jax/core/compile/backend_compile_duration"


@pytest.fixture(scope="module", autouse=True)
def _count():
    note = lambda name, seconds, **about: COMPILED.append(name) if name == EVENT else None
    jax.monitoring.register_event_duration_secs_listener(note)
    yield
    jax.monitoring.unregister_event_duration_listener(note)
    COMPILED.clear()


def committee(rate=0.5, noise=0.0, N=100, std=0.1, norm=1.0):
    teacher = ld.Committee(2, "erf", init=ld.Orthonormal(norm))
    problem = ld.TeacherStudent(ld.Isotropic(N), teacher, label_noise=noise)
    return ld.System(problem, ld.Committee(2, "erf", init=ld.Normal(std)), ld.SGD(rate))


def spectrum(exponent=1.0, rate=0.5, N=120):
    one = lambda std: ld.Committee(1, "linear", init=ld.Normal(std))
    return ld.System(
        ld.TeacherStudent(ld.PowerLaw(N, 4, exponent), one(1.0)), one(0.1), ld.SGD(rate)
    )


def deep(values=(3.0, 1.0), power=0.5, rate=0.1, strength=0.2):
    problem = ld.TeacherStudent(ld.Isotropic(2), ld.LinearTeacher(2, np.diag(values)))
    network = ld.DeepLinear([2, 2, 2], init=ld.Aligned(np.full((2, 2), strength)))
    return ld.System(problem, network, ld.NaturalGradient(rate, power=power))


def perturbed(rate=0.01, noise=0.0):
    problem = ld.TeacherStudent(ld.Isotropic(4), ld.LinearTeacher(2), label_noise=noise)
    return ld.System(problem, ld.DeepLinear([4, 6, 2]), ld.NodePerturbation(rate))


X = np.random.default_rng(0).normal(size=(6, 2))


def catapult(rate=0.1):
    return ld.System(ld.Dataset(X, X[:, 0]), ld.MLP([2, 8, 1], "tanh"), ld.SGD(rate, batch=2))


def shown(system, key: int, horizon: int) -> None:
    """All that a page shows of a system."""
    start, times = ld.start(system, key=key), np.linspace(0, horizon, 9)
    ld.solve(system, times, start=start)
    ld.theory_of(system).landmarks()


def trained(system, key: int, horizon: int) -> None:
    # Not "auto", which trains small networks on their weights, whose shape is that of N.
    times = np.linspace(0, horizon, 9)
    ld.simulate(system, times, key=key, runs=2, method="reduced")


def watched(system, key: int, horizon: int) -> None:
    probes: Any = {"watched": ld.probes.Watched(s=2)}
    ld.simulate(system, np.arange(9 * horizon), key=key, probes=probes)


RATES: list[dict[str, Any]] = [{"rate": 0.3}, {"rate": 0.007}]
SIZES = [*RATES, {"noise": 0.3}, {"N": 57}, {"std": 0.5}]
SLIDERS: dict[str, tuple[Callable, Callable, list[dict[str, Any]]]] = {
    "committee": (committee, shown, [*SIZES, {"norm": 2}]),
    "committee in training": (committee, trained, SIZES),
    "spectra": (spectrum, shown, [*RATES, {"exponent": 0.4}, {"N": 44}]),
    "deep linear": (deep, shown, [*RATES, {"values": (2.0, 0.5)}, {"power": 0.9}, {"power": 0.0},
                                  {"power": 1.0}, {"strength": 0.6}]),
    "node perturbation": (perturbed, shown, [*RATES, {"noise": 0.3}]),
    "catapult": (catapult, watched, RATES),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*lie between steps")
@pytest.mark.parametrize("page", SLIDERS)
def test_sliders_compile_nothing(page):
    system, look, changes = SLIDERS[page]
    COMPILED.clear()
    look(system(), 0, 8)
    assert COMPILED  # the counter counts
    COMPILED.clear()
    look(system(), 3, 16)
    for change in changes:
        look(system(**change), 0, 8)
        assert not COMPILED, change
