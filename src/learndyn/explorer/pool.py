"""The computing processes: one per visitor and a few in all, at most; dead ones are replaced."""

import contextlib
import multiprocessing
import threading
from collections.abc import Callable, Mapping
from typing import Any

from learndyn.explorer import worker
from learndyn.explorer.worker import Question
from learndyn.runtime.cores import cores

MOST = 4  # processes
LEAST_SECONDS = 2.0  # a process that dies sooner than this after its start is not replaced at once


class Process:
    """A computing process.

    Args:
        arguments: of `worker.main`, after the connection.
        hear: takes its answers, in a thread of its own; None once it has ended.
    """

    def __init__(self, arguments: tuple[Any, ...], hear: Callable[["Process", dict | None], None]):
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self.ready, self._hear = False, hear
        self._process = context.Process(target=worker.main, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    def send(self, question: Question) -> None:
        """Sends a question; one to a process that has just died is lost."""
        with contextlib.suppress(OSError):
            self._ours.send(tuple(question))

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._hear(self, self._ours.recv())
        self._hear(self, None)


class Pool:
    """Distributes visitors over processes. All methods but `_hear` run in the server's thread.

    Args:
        folders: of results, sweeps and files that were sent.
        prepare: called in each process before anything is compiled.
        deliver: takes an answer for a visitor.
        soon: has a function called in the server's thread.
        later: has a function called there after some seconds.
    """

    def __init__(
        self,
        folders: Mapping[str, str],
        prepare: Callable[[], object],
        deliver: Callable[[str, dict[str, Any]], object],
        soon: Callable[..., Any],
        later: Callable[..., Any],
    ):
        self._arguments, self._deliver = (dict(folders), prepare), deliver
        self._soon, self._later = soon, later
        self._processes: list[Process] = []
        self._of: dict[str, Process] = {}  # the process of each visitor
        self._shown: dict[str, Question] = {}  # what each visitor looks at
        self._training: set[str] = set()
        self._ended = False
        self._grow()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    def join(self, visitor: str) -> bool:
        """A visitor comes; returns whether a process is ready."""
        self._shown.setdefault(visitor, Question("stop", visitor, 0, "", {}))
        if len(self._shown) > len(self._processes):
            self._grow()
        return any(process.ready for process in self._processes)

    def ask(self, question: Question) -> None:
        """Passes a question on; one to be shown is kept until a process is ready."""
        if question.kind == "show":
            self._shown[question.visitor] = question
        if question.kind == "train":
            self._training.add(question.visitor)
        process = self._process_of(question.visitor)
        if process is not None:
            process.send(question)
        elif question.kind in ("train", "files"):
            self._training.discard(question.visitor)
            text = "no process is ready yet; try again in a few seconds"
            self._answer(question.visitor, "error", question.number, text=text)

    def leave(self, visitor: str) -> None:
        """A visitor goes: the run ends."""
        self._shown.pop(visitor, None)
        self._training.discard(visitor)
        process = self._of.pop(visitor, None)
        if process is not None:
            process.send(Question("gone", visitor, 0, "", {}))

    def end(self) -> None:
        """Ends all processes."""
        self._ended = True
        for process in self._processes:
            process.end()

    def _grow(self) -> None:
        if not self._ended and len(self._processes) < min(MOST, cores()):
            self._processes.append(Process(self._arguments, self._hear))

    def _process_of(self, visitor: str) -> Process | None:
        if visitor not in self._of:
            ready = [process for process in self._processes if process.ready]
            if not ready:
                return None
            load = lambda process: sum(each is process for each in self._of.values())
            self._of[visitor] = min(ready, key=load)
        return self._of[visitor]

    def _hear(self, process: Process, answer: dict[str, Any] | None) -> None:
        self._soon(self._heard, process, answer)

    def _heard(self, process: Process, answer: dict[str, Any] | None) -> None:
        if answer is None:
            self._lost(process)
        elif answer["kind"] == "ready":
            process.ready = True
            self._spread()
        else:
            visitor = answer.pop("visitor")
            if answer["kind"] in ("verdict", "stopped", "error"):
                self._training.discard(visitor)
            self._deliver(visitor, answer)

    def _spread(self) -> None:
        """Visitors who are not training are distributed anew, and asked for again if they wait."""
        for visitor, question in self._shown.items():
            if visitor in self._training and visitor in self._of:
                continue
            waits = visitor not in self._of
            old = self._of.pop(visitor, None)
            new = self._process_of(visitor)
            if old is not None and new is not old:
                old.send(Question("gone", visitor, 0, "", {}))
                waits = True
            if waits and new is not None and question.kind == "show":
                new.send(question)
            self._answer(visitor, "ready", question.number)

    def _lost(self, process: Process) -> None:
        """A process has died: its visitors are told, and move to another one."""
        if self._ended or process not in self._processes:
            return
        self._processes.remove(process)
        mine = [visitor for visitor, each in self._of.items() if each is process]
        for visitor in mine:
            del self._of[visitor]
            if visitor in self._training:
                self._training.discard(visitor)
                text = "the process that trained the networks has ended; start it again"
                self._answer(visitor, "error", 0, text=text)
            self._answer(visitor, "restarting", self._shown[visitor].number)
        if process.ready:
            self._grow()
        else:
            self._later(LEAST_SECONDS, self._grow)
        if any(each.ready for each in self._processes):
            self._spread()

    def _answer(self, visitor: str, kind: str, number: int, **content: Any) -> None:
        self._deliver(visitor, {"kind": kind, "number": number, **content})
