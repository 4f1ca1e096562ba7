"""The process that computes: latest questions, stops, errors, and nothing held up by compiling."""

import threading
import time
from typing import ClassVar

import pytest

import learndyn as ld
from learndyn.explorer import worker
from learndyn.explorer.controls import Slider
from learndyn.explorer.pages.base import AbstractPage, Result
from learndyn.explorer.views import View
from learndyn.explorer.worker import Question, Worker

SECONDS = 120.0  # a worker that is stuck is found by this
Cancelled = ld.Cancelled  # imported here: JAX comes with it


class Page(AbstractPage):
    """A page whose slow shapes wait until they are told to go on."""

    name, title, about = "page", "Page", "for tests"
    controls: ClassVar = {
        "x": Slider("x", 0, 9, 1),
        "size": Slider("size", 0, 9, 1, whole=True, compiles=True),
    }

    def __init__(self):
        self.go_on, self.shown, self.refined = threading.Event(), [], []

    def show(self, values, folders):
        if values["size"] == 9:
            self.go_on.wait(SECONDS)
        if values["x"] == 7:
            raise ValueError("x: got 7; allowed is any other")
        if values["x"] == 8:
            raise KeyError("a bug")
        self.shown.append(values)
        return View(status=f"{values['x']}, {values['size']}")

    def refine(self, values, cancel):
        if values["x"] == 6:  # takes until somebody asks for something else
            self.refined.append(cancel.wait(SECONDS))
            raise Cancelled("cancelled")
        return View(status="finer") if values["x"] == 5 else None

    def neighbours(self, values):
        return [{**values, "size": values["size"] + 1}] if values["size"] == 3 else []

    def train(self, values, training, folders):
        training.progress(0.5)
        while not training.cancel.wait(0.01):
            pass
        raise Cancelled("cancelled")


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setattr(worker, "PAGES", {"page": Page()})
    monkeypatch.setattr(worker, "REST_SECONDS", 0.05)
    yield worker.PAGES["page"]
    worker.PAGES["page"].go_on.set()


@pytest.fixture
def asked(page):
    answers, process = [], None

    def send(answer):
        answers.append(answer)

    process = Worker(send, {})

    def ask(kind="show", visitor="a", number=1, x=1, size=1):
        process.take(Question(kind, visitor, number, "page", {"x": x, "size": size}))
        return answers

    return ask


def until(holds):
    end = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    assert holds()


def of(answers, kind):
    return [answer for answer in answers if answer["kind"] == kind]


def test_a_view_comes_back(asked):
    answers = asked(number=4, x=2)
    until(lambda: of(answers, "view"))
    answer = of(answers, "view")[0]
    assert (answer["visitor"], answer["number"]) == ("a", 4)
    assert answer["view"]["status"] == "2, 1"


def test_only_the_latest_question_of_a_visitor_is_answered(asked, page):
    answers = asked(size=9, number=1)  # holds the thread that compiles
    until(lambda: of(answers, "compiling"))
    for number in range(2, 30):
        asked(size=2, number=number, x=number / 10)
    asked(size=2, number=30, x=3, visitor="b")
    page.go_on.set()
    until(lambda: len(of(answers, "view")) >= 3)
    time.sleep(0.2)
    assert [each["number"] for each in of(answers, "view")] == [1, 29, 30]


def test_compiling_does_not_hold_up_what_is_compiled(asked):
    answers = asked(size=1)
    until(lambda: of(answers, "view"))
    asked(size=9, number=2)
    until(lambda: len(of(answers, "compiling")) == 2)
    asked(size=1, number=3)
    until(lambda: len(of(answers, "view")) == 2)
    assert of(answers, "view")[1]["number"] == 3


def test_errors_are_answers(asked, capsys):
    answers = asked(x=7)
    until(lambda: of(answers, "error"))
    assert of(answers, "error")[0]["text"] == "x: got 7; allowed is any other"
    asked(x=8, number=2)
    until(lambda: len(of(answers, "error")) == 2)
    assert of(answers, "error")[1]["text"] == "KeyError: 'a bug'"
    assert "Traceback" in capsys.readouterr().err


def test_a_view_at_rest_is_refined_and_neighbours_are_compiled(asked, page):
    answers = asked(x=5, size=3)
    until(lambda: len(of(answers, "view")) == 2)
    assert of(answers, "view")[1]["view"]["status"] == "finer"
    until(lambda: {"x": 5, "size": 4} in page.shown)
    assert len(of(answers, "view")) == 2  # nobody asked for the neighbour


@pytest.mark.parametrize(
    "kind, visitor, size", [("show", "a", 1), ("show", "b", 2), ("gone", "a", 1)]
)
def test_a_refinement_makes_way(asked, page, kind, visitor, size):
    """For its own visitor, and for others whose programs wait for the same thread."""
    answers = asked(x=6)
    until(lambda: of(answers, "view"))
    time.sleep(0.3)  # it refines
    asked(kind, number=2, x=2, size=size, visitor=visitor)
    until(lambda: page.refined == [True])
    if kind == "show":
        until(lambda: len(of(answers, "view")) == 2)
    assert not of(answers, "stopped") and not of(answers, "error")
    if visitor == "b":  # and goes on later
        time.sleep(0.3)
        asked("gone")
        until(lambda: page.refined == [True, True])


@pytest.mark.parametrize("kind", ["stop", "gone", "train"])
def test_a_run_ends_when_it_is_stopped_left_or_replaced(asked, kind):
    answers = asked("train", number=1)
    until(lambda: of(answers, "progress"))
    asked(kind, number=2)
    until(lambda: of(answers, "stopped"))  # by itself it would never end
    assert of(answers, "stopped")[0]["number"] == 1
    asked("gone", number=3)


def test_results_end_with_a_verdict(asked, page, monkeypatch):
    result = Result("agrees", "by a test", {})
    monkeypatch.setattr(page, "train", lambda values, training, folders: result)
    answers = asked("train", number=5)
    until(lambda: of(answers, "verdict"))
    assert of(answers, "verdict")[0]["verdict"] == "agrees"
