"""A computing process: answers the latest question of each visitor, and trains networks.

The server sends (kind, visitor, number, page, values); answers are dicts with the visitor and the
number of the question. Two threads answer: one serves the questions whose programs are compiled,
the other those that have to compile first, so that a slow one does not hold up the others.
"""

import base64
import os
import pathlib
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from learndyn.explorer.controls import Values
from learndyn.explorer.pages import PAGES
from learndyn.explorer.pages.base import Training
from learndyn.explorer.views import plain

if TYPE_CHECKING:
    from learndyn import Rows

COMPILED = "/jax/core/compile/backend_compile_duration"  # the event of JAX
REST_SECONDS = 0.5  # without a question before what can wait is computed


class Question(NamedTuple):
    """What a visitor asks.

    Attributes:
        kind: "show", "refine", "train", "files" or "stop".
        visitor: who asks.
        number: the visitor's own number of the question.
        page: the name of the page.
        values: of its controls.
    """

    kind: str
    visitor: str
    number: int
    page: str
    values: Values


class Worker:
    """What the process does.

    Args:
        send: takes the answers.
        folders: of results, sweeps and files that were sent.
        compiled: how many programs the calling thread has compiled so far.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        folders: Mapping[str, str],
        compiled: Callable[[], int] = lambda: 0,
    ):
        self._send, self._folders, self._compiled = send, folders, compiled
        self._waiting: dict[str, Question] = {}  # the latest question of each visitor
        self._ahead: list[tuple[str, Values]] = []  # what is compiled when nobody asks
        self._later: dict[str, Question] = {}  # the view to refine, of each visitor
        self._refining: tuple[Question, threading.Event] | None = None  # and what ends it
        self._warm: set[tuple[Any, ...]] = set()  # shapes whose programs are compiled
        self._changed = threading.Condition()
        self._cancels: dict[str, threading.Event] = {}
        self._kept: dict[str, tuple[str, Values, Mapping[str, Any]]] = {}  # records of runs
        self._saving: set[str] = set()  # visitors whose files are being written
        for work in (self._answer_warm, self._answer_cold):
            threading.Thread(target=work, daemon=True).start()

    def take(self, question: Question) -> None:
        """Takes a question, and returns at once."""
        if question.kind in ("stop", "gone"):
            self._stop(question.visitor)
        if question.kind == "gone":
            self._forget(question.visitor)
        elif question.kind == "show":
            with self._changed:
                self._waiting[question.visitor] = question
                self._later.pop(question.visitor, None)
                self._make_way(question)
                self._changed.notify_all()
        elif question.kind == "train":
            self._stop(question.visitor)
            cancel = self._cancels[question.visitor] = threading.Event()
            threading.Thread(target=self._train, args=(question, cancel), daemon=True).start()
        elif question.kind == "files":
            threading.Thread(target=self._save, args=(question,), daemon=True).start()

    def _stop(self, visitor: str) -> None:
        if visitor in self._cancels:
            self._cancels.pop(visitor).set()

    def _forget(self, visitor: str) -> None:
        with self._changed:
            for kept in (self._waiting, self._later, self._kept):
                kept.pop(visitor, None)
            if self._refining is not None and self._refining[0].visitor == visitor:
                self._refining[1].set()

    def _make_way(self, question: Question) -> None:
        """Ends a refinement that holds up a question, or that nobody waits for any more."""
        if self._refining is None:
            return
        refined, cancel = self._refining
        mine = refined.visitor == question.visitor
        if mine or PAGES[question.page].shape(question.values) not in self._warm:
            cancel.set()
            if not mine:
                self._later.setdefault(refined.visitor, refined)

    def _tell(self, question: Question, kind: str, **content: Any) -> None:
        about = {"kind": kind, "visitor": question.visitor, "number": question.number}
        self._send({**about, **plain(content)})

    def _guarded(self, question: Question, work: Callable[[], Any]) -> bool:
        """Does the work; errors become answers. Returns whether there was none."""
        from learndyn import Cancelled

        try:
            work()
        except Cancelled:
            self._tell(question, "stopped")
        except ValueError as error:
            self._tell(question, "error", text=str(error))
        except Exception as error:
            # A bug: the visitor sees it in a line, the terminal in full.
            traceback.print_exc()
            self._tell(question, "error", text=f"{type(error).__name__}: {error}")
        else:
            return True
        return False

    def _answer_warm(self) -> None:
        while True:
            self._show(self._next(lambda shape: shape in self._warm))

    def _answer_cold(self) -> None:
        while True:
            question = self._next(lambda shape: shape not in self._warm, REST_SECONDS)
            if question is None:
                self._use_the_rest()
                continue
            shape = PAGES[question.page].shape(question.values)
            self._tell(question, "compiling")
            self._show(question)
            with self._changed:
                self._warm.add(shape)
                self._changed.notify_all()

    def _next(self, wanted: Callable[[Any], bool], seconds: float | None = None) -> Any:
        """The next question whose shape is wanted; None if none came for some seconds."""
        with self._changed:
            while True:
                for visitor, question in self._waiting.items():
                    if wanted(PAGES[question.page].shape(question.values)):
                        return self._waiting.pop(visitor)
                if not self._changed.wait(seconds):
                    return None

    def _show(self, question: Question) -> None:
        page, clock, before = PAGES[question.page], time.perf_counter(), self._compiled()

        def work() -> None:
            view = page.show(question.values, self._folders)
            seconds, compiled = time.perf_counter() - clock, self._compiled() - before
            self._tell(question, "view", view=view, seconds=seconds, compiled=compiled)

        if self._guarded(question, work):
            with self._changed:
                if question.visitor not in self._waiting:
                    self._later[question.visitor] = question
                self._ahead = [(question.page, v) for v in page.neighbours(question.values)]

    def _use_the_rest(self) -> None:
        """Refines a view, or compiles what may be asked for next."""
        with self._changed:
            later = self._later.pop(next(iter(self._later)), None) if self._later else None
            cancel = threading.Event()
            self._refining = None if later is None else (later, cancel)
            ahead = self._ahead.pop(0) if self._ahead and later is None else None
        if later is not None:
            self._guarded(later, lambda: self._refine(later, cancel))
            with self._changed:
                self._refining = None
        elif ahead is not None:
            name, values = ahead
            shape = PAGES[name].shape(values)
            if shape not in self._warm:
                try:
                    PAGES[name].show(values, self._folders)
                except ValueError:
                    return  # the visitor will be told, when it is asked for
                with self._changed:
                    self._warm.add(shape)

    def _refine(self, question: Question, cancel: threading.Event) -> None:
        from learndyn import Cancelled

        try:
            view = PAGES[question.page].refine(question.values, cancel)
        except Cancelled:
            return
        if view is not None:
            self._tell(question, "view", view=view, seconds=0.0, compiled=0)

    def _train(self, question: Question, cancel: threading.Event) -> None:
        def on_rows(rows: "Rows") -> None:
            numbers = {name: v for name, v in rows.values.items() if v.ndim == 2}
            place = {"run": rows.runs.start, "first": rows.times.start}
            self._tell(question, "rows", values=numbers, **place)

        def work() -> None:
            progress = lambda done: self._tell(question, "progress", done=done)
            page, clock = PAGES[question.page], time.perf_counter()
            training = Training(on_rows, progress, cancel)
            result = page.train(question.values, training, self._folders)
            self._kept[question.visitor] = question.page, question.values, result.records
            seconds = time.perf_counter() - clock
            end = {"verdict": result.verdict, "reason": result.reason, "seconds": seconds}
            self._tell(question, "verdict", **end)
            if result.view is not None:
                self._tell(question, "view", view=result.view, seconds=0.0, compiled=0)

        self._guarded(question, work)

    def _save(self, question: Question) -> None:
        """Sends the files of a view, unless that is under way already."""
        if question.visitor in self._saving:
            return
        self._saving.add(question.visitor)
        try:
            work = lambda: self._tell(question, "files", files=self._files(question))
            self._guarded(question, work)
        finally:
            self._saving.discard(question.visitor)

    def _files(self, question: Question) -> list[dict[str, str]]:
        """The records of a view as NetCDF, and their figure as PNG; or the files that were kept."""
        import learndyn as ld

        page, none = PAGES[question.page], ("", {}, {})
        name, values, records = self._kept.get(question.visitor, none)
        if (name, values) != (question.page, question.values):
            records = page.records(question.values, self._folders)
        if not records:
            kept = page.kept(question.values, self._folders)
            if not kept:
                raise ValueError("files: got a view without a record; allowed is one that has some")
            return [_file(path) for path in kept]
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            for kind, record in records.items():
                ld.save(record, place / f"{question.page}-{kind}.nc")
            figure = page.figure(question.values, records)
            if figure is not None:
                figure.savefig(place / f"{question.page}.png", dpi=150)
            return [_file(path) for path in sorted(place.iterdir())]


def _file(path: pathlib.Path) -> dict[str, str]:
    return {"name": path.name, "content": base64.b64encode(path.read_bytes()).decode()}


def _count_compilations() -> Callable[[], int]:
    """Counts the programs that each thread compiles; returns the count of the calling one."""
    import jax

    counts: dict[int, int] = {}

    def note(event: str, duration_secs: float, **about: Any) -> None:
        if event == COMPILED:
            thread = threading.get_ident()
            counts[thread] = counts.get(thread, 0) + 1

    jax.monitoring.register_event_duration_secs_listener(note)
    return lambda: counts.get(threading.get_ident(), 0)


def main(connection: Connection, folders: Mapping[str, str], prepare: Callable[[], object]) -> None:
    """The process: reads questions until the server is gone.

    Args:
        connection: to the server.
        folders: of results, sweeps and files that were sent.
        prepare: called before anything is compiled.
    """
    import matplotlib

    matplotlib.use("Agg")
    warnings.filterwarnings("ignore")  # nobody reads the terminal; views say what matters
    prepare()
    import learndyn as ld

    for name in ("solve", "simulate", "compare", "theory_of"):
        getattr(ld, name)  # imported before the first question
    lock = threading.Lock()

    def send(answer: dict[str, Any]) -> None:
        try:
            with lock:
                connection.send(answer)
        except OSError:
            os._exit(0)  # the server is gone

    worker = Worker(send, folders, _count_compilations())
    send({"kind": "ready", "visitor": ""})
    while True:
        try:
            worker.take(Question(*connection.recv()))
        except (EOFError, OSError):
            os._exit(0)  # compiled code may still run, and would crash a regular end
