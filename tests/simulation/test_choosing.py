"""Which engine "auto" takes, where the slower one took more than twice the time of the faster.

The cases are those of `benchmarks/choosing.py`, on two cores.
"""

import sys

import numpy as np
import pytest

import learndyn as ld
from learndyn.simulation import costs, reduced
from learndyn.simulation.choosing import choose
from learndyn.simulation.costs import seconds_per_step


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    for module in (costs, reduced):
        monkeypatch.setattr(module, "cores", lambda: 2)
        monkeypatch.setattr(module, "on_one_cpu", lambda: True)


def committee(activation, K, M, N, levels=1, batch=1):
    inputs = ld.Spectrum(np.arange(1, levels + 1) ** -1.25, np.full(levels, N // levels))
    problem = ld.TeacherStudent(inputs, ld.Committee(M, activation, scale=1 / M))
    return ld.System(problem, ld.Committee(K, activation, scale=1 / K), ld.SGD(0.01, batch=batch))


def taken(system, runs, dtype="float32"):
    return choose(system, ld.theory_of(system), "auto", {}, runs, dtype)[0]


@pytest.mark.parametrize(
    ("activation", "K", "M", "levels", "batch", "measured"),
    [
        ("quadratic", 3, 2, 1, 1, {(64, 1): "direct", (64, 10): "reduced", (1024, 1): "reduced"}),
        ("erf", 4, 2, 10, 1, {(64, 10): "direct", (256, 1): "direct", (1024, 1): "direct"}),
        ("erf", 4, 2, 10, 1, {(1024, 10): "reduced", (4096, 64): "reduced"}),
        ("erf", 4, 2, 60, 1, {(256, 10): "direct", (4096, 64): "reduced"}),
        ("linear", 2, 1, 1, 1, {(64, 10): "reduced"}),
        ("quadratic", 3, 2, 1, 8, {(64, 10): "reduced", (1024, 1): "reduced"}),
    ],
)
def test_the_faster_engine_of_committees(activation, K, M, levels, batch, measured):
    for (N, runs), faster in measured.items():
        assert taken(committee(activation, K, M, N, levels, batch), runs) == faster, (N, runs)


def test_the_faster_engine_of_two_perturbed_layers():
    teacher = ld.LinearTeacher(3, np.ones((3, 10)))
    problem = ld.TeacherStudent(ld.Isotropic(10), teacher)
    for (hidden, runs), faster in {(64, 10): "direct", (1024, 1): "reduced"}.items():
        student = ld.DeepLinear([10, hidden, 3])
        assert taken(ld.System(problem, student, ld.NodePerturbation(1e-5)), runs) == faster


def test_double_precision_costs_only_the_direct_engine():
    system = committee("quadratic", 3, 2, 256)
    single, double = (
        seconds_per_step(system, ld.theory_of(system).chain(), 1, dtype)
        for dtype in ("float32", "float64")
    )
    assert double["direct"] > 1.5 * single["direct"] and double["reduced"] == single["reduced"]


def test_runs_of_all_starts_count(monkeypatch):
    asked = []

    class Asked(Exception):
        pass

    def choosing(system, theory, method, probes, runs, dtype):
        asked.append(runs)
        raise Asked

    monkeypatch.setattr(sys.modules["learndyn.simulation.simulate"], "choose", choosing)
    system = committee("quadratic", 3, 2, 64)
    starts = [ld.start(system, key=key) for key in range(3)]
    for given in ({"starts": starts}, {"start": starts[0]}):
        with pytest.raises(Asked):
            ld.simulate(system, [0], runs=2, **given)
    assert asked == [6, 2]
