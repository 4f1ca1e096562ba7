"""Progress where there is no terminal: a plain line now and then, and one at the end."""

import io
import re
import threading
from contextlib import redirect_stdout

import pytest

from learndyn.runtime import progress

HUNG = 300  # seconds


class Output(io.StringIO):
    """Says when a line has come."""

    def __init__(self):
        super().__init__()
        self.came = threading.Event()

    def write(self, text):
        written = super().write(text)
        self.came.set()
        return written


def test_lines_come_while_it_works_and_at_the_end(monkeypatch):
    output = Output()
    monkeypatch.setattr(progress, "EVERY", 0.01)
    with redirect_stdout(output), progress.reporting(True, "solving") as report:
        report(0.25)
        output.came.clear()
        assert output.came.wait(HUNG)
        monkeypatch.setattr(progress, "EVERY", 1000.0)
        report(1.0)
    rows = output.getvalue().splitlines()
    pattern = r"solving: \d+%, \d:\d\d:\d\d elapsed, (\d|-):(\d\d|--):(\d\d|--) left"
    assert all(re.fullmatch(pattern, row) for row in rows), rows
    assert any(row.startswith("solving: 25%, ") for row in rows)
    assert re.fullmatch(r"solving: 100%, \S+ elapsed, 0:00:00 left", rows[-1])


def test_the_time_left_follows_from_the_fraction_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    state = progress._Fraction("simulating")
    assert state.line() == "simulating: 0%, 0:00:00 elapsed, -:--:-- left"
    now[0] = 90.0
    state(0.02)
    assert state.line() == "simulating: 2%, 0:01:30 elapsed, 1:13:30 left"


def test_work_that_fails_ends_without_a_line(capsys):
    with pytest.raises(ZeroDivisionError), progress.reporting(True, "solving") as report:
        report(1 / 0)
    assert capsys.readouterr().out == ""


def test_nothing_is_printed_where_nothing_is_asked_for(capsys):
    with progress.reporting(False, "solving") as report:
        report(1.0)
    assert capsys.readouterr().out == ""
