"""What does not fit into memory is refused in one line, before anything is compiled."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.simulation import memory


def committee(rule):
    data = ld.TeacherStudent(ld.Isotropic(300), ld.Committee(2, "quadratic"))
    return ld.System(data, ld.Committee(3, "quadratic"), rule)


@pytest.mark.parametrize("method", ["auto", "direct", "reduced"])
def test_a_batch_beyond_the_memory(method):
    system = committee(ld.SGD(0.1, batch=10**15))
    with pytest.raises(ValueError, match=r"^system: got batch 1000000000000000 .*allowed: a smal"):
        ld.simulate(system, [0, 1.0], method=method)


def test_perturbations_beyond_the_memory():
    system = committee(ld.NodePerturbation(0.1, perturbations=10**15))
    with pytest.raises(ValueError, match=r"^system: got batch 1 .* with 10+ perturbations, which"):
        ld.simulate(system, [0, 1.0], method="direct")
    with pytest.raises(ValueError, match=r"^system: got batch 1 "):
        ld.update(system, np.zeros((3, 300)), teacher=np.zeros((2, 300)))


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_runs_beyond_the_memory(method):
    system, times = committee(ld.SGD(0.1)), np.arange(10**5)
    with pytest.raises(ValueError, match=r"^runs: got 1000000 at 100000 times, which takes"):
        ld.simulate(system, times, runs=10**6, method=method)


@pytest.mark.parametrize("method", ["direct", "reduced"])
def test_more_runs_than_anybody_waits_for(method):
    """They fit into memory, but would run for hours without a word."""
    said = r"^runs: got 10,000,000; allowed are at most 1,000,000: [^\n]*$"
    with pytest.raises(ValueError, match=said):
        ld.simulate(committee(ld.SGD(0.1)), [0], runs=10**7, method=method)


def test_many_starts_count_as_runs():
    system = committee(ld.SGD(0.1))
    starts = [ld.start(system, key=key) for key in range(2)]
    with pytest.raises(ValueError, match=r"^runs: got 1,999,998; "):
        ld.simulate(system, [0], starts=starts, runs=999_999)


def test_memory_beside_the_values_counts(monkeypatch):
    monkeypatch.setattr(memory, "memory", lambda: 2**30)
    monkeypatch.setattr(memory, "MOST_RUNS", 2**30)
    memory.require_memory_for_record(2**19, 2, [np.zeros(9)])
    with pytest.raises(ValueError, match=r"^runs: got 1048576 at 2 times, which takes 1.14 GiB of"):
        memory.require_memory_for_record(2**20, 2, [np.zeros(9)])
