"""Rows of a simulation while it runs, and calls that an event ends."""

import threading
import time

import numpy as np
import pytest

import learndyn as ld

# Seconds of the processor, which others on a busy machine do not lengthen: half a second is
# promised on an idle one, and a call that does not end takes minutes.
SOON = 5.0
HUNG = 300  # seconds


@pytest.fixture(autouse=True)
def _wait_for_abandoned_work():
    """What was cancelled ends soon after; it must not compile during other tests."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(HUNG)
        assert not thread.is_alive()


def committee(units=2, learning_rate=0.5):
    problem = ld.TeacherStudent(ld.Isotropic(30), ld.Committee(2, "erf"), label_noise=0.1)
    return ld.System(problem, ld.Committee(units, "erf"), ld.SGD(learning_rate))


def descent():
    x = np.random.default_rng(0).normal(size=(5, 3))
    return ld.System(ld.Dataset(x, x[:, 0]), ld.MLP([3, 2, 1], "tanh"), ld.GradientDescent(0.1))


def assembled(record, rows):
    """The record's numbers, put together from rows."""
    parts = {name: np.full(record[name].shape, np.nan) for name in rows[0].values}
    for row in rows:
        for name, values in row.values.items():
            parts[name][row.runs, row.times] = values
    return parts


@pytest.mark.parametrize("method", ["direct", "reduced", "flow"])
def test_rows_are_the_record(method):
    rows: list[ld.Rows] = []
    system, times = (descent() if method == "flow" else committee()), np.linspace(0, 3, 7)
    runs = 1 if method == "flow" else 3
    record = ld.simulate(system, times, runs=runs, method=method, on_rows=rows.append)
    parts = assembled(record, rows)
    assert "error" in parts and {row.start for row in rows} == {0}
    for name, values in parts.items():
        np.testing.assert_array_equal(values, record[name].values)


def test_rows_of_runs_that_diverge_are_blank_from_there():
    rows: list[ld.Rows] = []
    data = ld.TeacherStudent(ld.Isotropic(30), ld.Committee(2, "quadratic"))
    system = ld.System(data, ld.Committee(2, "quadratic"), ld.SGD(3.0))
    record = ld.simulate(system, np.linspace(0, 9, 10), runs=2, on_rows=rows.append)
    assert (record.outcome == "diverged").all()
    np.testing.assert_array_equal(assembled(record, rows)["error"], record.error.values)


def test_an_error_of_the_listener_ends_the_simulation():
    def fail(rows):
        raise RuntimeError("the listener's own")

    with pytest.raises(RuntimeError, match="the listener's own"):
        ld.simulate(committee(), [0, 1], on_rows=fail)


LONG = np.linspace(0, 1e6, 100)
WORKS = {
    "flow of a theory": lambda cancel: ld.solve(committee(), LONG, cancel=cancel, rtol=1e-13),
    "noise": lambda cancel: ld.solve(committee(), LONG, cancel=cancel, fluctuations=True),
    "map of a theory": lambda cancel: ld.solve(committee(), 100 * LONG, order="finite",
                                               cancel=cancel),
    "reduced": lambda cancel: ld.simulate(committee(), LONG, method="reduced", cancel=cancel),
    "direct": lambda cancel: ld.simulate(committee(), LONG, method="direct", cancel=cancel),
    "compiling": lambda cancel: ld.solve(committee(4), [0.0, 1.0], cancel=cancel),
}  # fmt: skip


SLOW = {"noise"}  # its programs take half a minute to compile


@pytest.mark.parametrize(
    "work",
    [pytest.param(w, marks=[pytest.mark.slow] * (n in SLOW)) for n, w in WORKS.items()],
    ids=WORKS,
)
def test_an_event_ends_a_call_of_another_thread(work):
    cancel, ends = threading.Event(), []

    def call():
        with pytest.raises(ld.Cancelled, match="the event given as `cancel` was set"):
            work(cancel)
        ends.append(time.process_time())

    caller = threading.Thread(target=call)
    caller.start()
    time.sleep(0.5)
    began = time.process_time()
    cancel.set()
    caller.join(HUNG)
    assert ends and ends[0] - began < SOON


def test_a_call_that_nobody_cancels_has_the_same_numbers():
    system, times = committee(), np.linspace(0, 5, 6)
    cancel = threading.Event()
    assert ld.solve(system, times, cancel=cancel).Q.equals(ld.solve(system, times).Q)


def test_an_event_that_is_set_already_ends_the_call_at_once():
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(ld.Cancelled):
        ld.simulate(committee(), LONG, cancel=cancel)
