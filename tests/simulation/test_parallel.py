"""Groups on threads: each done once, errors and Ctrl-C reach the caller."""

import signal
import subprocess
import sys
import threading

import pytest

from learndyn.simulation import parallel

HUNG = 300  # seconds; the work takes about five

CHILD = """
import signal
import threading

from learndyn.simulation import parallel

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have it ignored
parallel.cores = lambda: 2


def follow(group, stop):
    print("begun", flush=True)
    threading.Event().wait()


parallel.in_threads(follow, list(range(2)))
"""


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 2)


@pytest.mark.parametrize("number", [0, 1, 2, 50])
def test_every_group_is_done_once(number, two_cores):
    done = []
    parallel.in_threads(lambda group, stop: done.append(group), list(range(number)))
    assert sorted(done) == list(range(number))


def test_groups_are_made_as_they_are_needed(two_cores):
    made, done = [], []

    def groups():
        for number in range(1000):
            made.append(number)
            yield number

    def follow(group, stop):
        done.append(group)
        assert len(made) <= len(done) + 2

    parallel.in_threads(follow, groups())
    assert sorted(done) == list(range(1000))


def test_an_error_stops_the_other_threads_and_is_raised(two_cores):
    seen = []

    def follow(group, stop):
        if group == 1:
            raise ArithmeticError("of the second group")
        seen.append((group, stop.wait(HUNG)))

    with pytest.raises(ArithmeticError, match="of the second group"):
        parallel.in_threads(follow, list(range(9)))
    assert seen == [(0, True)]


def test_an_error_is_raised_beside_a_thread_that_never_ends(two_cores):
    release = threading.Event()

    def follow(group, stop):
        if group == 1:
            raise ArithmeticError("of the second group")
        release.wait()

    with pytest.raises(ArithmeticError, match="of the second group"):
        parallel.in_threads(follow, list(range(2)))
    release.set()


def test_an_interrupt_stops_the_threads(two_cores, monkeypatch):
    seen = []

    def interrupted(running, seconds, ended=parallel._ended):
        if not seen:
            seen.append("interrupted")
            raise KeyboardInterrupt
        return ended(running, seconds)

    def follow(group, stop):
        assert stop.wait(HUNG)
        seen.append("stopped")

    monkeypatch.setattr(parallel, "_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parallel.in_threads(follow, list(range(9)))
    assert seen == ["interrupted", "stopped", "stopped"]


def test_ctrl_c_ends_the_process_beside_threads_that_never_end():
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and "begun" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=HUNG)
    finally:
        child.kill()
    assert "KeyboardInterrupt" in said and child.returncode != 0
