"""Visitors over processes: how many there are, what is kept when one dies, who is told."""

import pytest

from learndyn.explorer import pool
from learndyn.explorer.pool import LEAST_SECONDS, MOST, Pool
from learndyn.explorer.worker import Question


class Process(pool.Process):
    """A process that notes its questions, and answers when a test says so."""

    def __init__(self, arguments, hear):
        self.hear, self.ready, self.ended, self.heard = hear, False, False, []
        made.append(self)

    @property
    def pid(self):
        return made.index(self)

    def send(self, question):
        self.heard.append((question.kind, question.visitor, question.number))

    def end(self):
        self.ended = True

    def starts(self):
        self.hear(self, {"kind": "ready", "visitor": ""})

    def dies(self):
        self.hear(self, None)


made: list[Process] = []


class Server:
    """A pool with what it delivered and put off."""

    def __init__(self):
        self.told, self.put_off = [], []
        soon = lambda function, *arguments: function(*arguments)
        later = lambda seconds, function: self.put_off.append((seconds, function))
        self.pool = Pool({}, print, self.deliver, soon, later)

    def deliver(self, visitor, answer):
        self.told.append((visitor, answer["kind"]))

    def ask(self, visitor, kind="show", number=1):
        self.pool.ask(Question(kind, visitor, number, "committee", {}))


@pytest.fixture
def served(monkeypatch):
    made.clear()
    monkeypatch.setattr(pool, "Process", Process)
    monkeypatch.setattr(pool, "cores", lambda: 8)
    return Server()


def test_there_is_a_process_per_visitor_and_at_most_four(served):
    assert len(made) == 1  # waits for the first visitor
    for visitor in range(MOST + 3):
        served.pool.join(str(visitor))
        assert len(made) == min(visitor + 1, MOST) == len(served.pool.pids)


def test_there_are_not_more_processes_than_cores(served, monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 2)
    for visitor in "abc":
        served.pool.join(visitor)
    assert len(made) == 2


def test_visitors_are_distributed_evenly(served):
    for visitor in "abcdefgh":
        served.pool.join(visitor)
    for process in made:
        process.starts()
    for process in made:
        process.heard.clear()
    for visitor in "abcdefgh":
        served.ask(visitor)
    assert [len(process.heard) for process in made] == [2] * MOST


def test_questions_wait_for_the_first_process_and_runs_are_refused(served):
    assert not served.pool.join("a")
    served.ask("a", number=1)
    served.ask("a", number=2)
    served.ask("a", "train", number=3)
    assert served.told == [("a", "error")]
    made[0].starts()
    assert made[0].heard == [("show", "a", 2)]  # the latest
    assert served.pool.join("b")


def test_a_process_that_dies_is_replaced_and_its_visitor_is_told(served):
    served.pool.join("a")
    made[0].starts()
    served.ask("a", number=5)
    served.ask("a", "train", number=6)
    served.told.clear()
    made[0].dies()
    assert served.told == [("a", "error"), ("a", "restarting")] and len(made) == 2
    made[1].starts()
    assert made[1].heard == [("show", "a", 5)]  # not the run, which nobody asked for again


def test_a_process_that_dies_at_once_is_not_replaced_at_once(served):
    made[0].dies()
    (seconds, grow), count = served.put_off[0], len(made)
    assert seconds == LEAST_SECONDS and count == 1
    grow()
    assert len(made) == 2


def test_who_trains_is_not_moved_and_who_leaves_ends_the_run(served):
    served.pool.join("a")
    made[0].starts()
    served.ask("a", "train")
    for visitor in "bc":
        served.pool.join(visitor)
    for process in made[1:]:
        process.starts()
    assert ("gone", "a", 0) not in made[0].heard
    served.pool.leave("a")
    assert made[0].heard[-1] == ("gone", "a", 0)


def test_all_processes_end_and_none_begins_afterwards(served):
    served.pool.join("a")
    served.pool.end()
    assert all(process.ended for process in made)
    made[0].dies()
    assert len(made) == 1 and not served.told
