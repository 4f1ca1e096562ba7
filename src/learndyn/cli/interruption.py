"""Ctrl-C: one line, what is there, and the end, whatever is under way.

An exception would not do: one in eight is raised in a callback of the garbage collector, which
swallows it, and compiled work keeps the main thread from raising it at all.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

# Processes that are cut off leave semaphores, which Python's tracker frees, with a warning.
UNTRACKED = "ignore::UserWarning:multiprocessing.resource_tracker"
SHOW_CURSOR = b"\x1b[?25h\n"  # a bar that is cut off has hidden it
_states: list[Callable[[], str]] = []


def heed() -> None:
    """Ends the process at an interruption, unless whoever started it has them ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    sys.warnoptions.append(UNTRACKED)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.set_wakeup_fd(theirs.detach())

    def wait() -> None:
        ours.recv(1)
        end()

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def interruptible(state: Callable[[], str]) -> Iterator[None]:
    """Has an interruption say what is there."""
    _states.append(state)
    try:
        yield
    except KeyboardInterrupt:
        end()
    finally:
        _states.pop()


def end() -> NoReturn:
    """Says what is there, and ends the process at once.

    Compiled work that was cut off need not survive the interpreter's own end.
    """
    try:
        # The module may not be imported yet, or not to its end.
        getattr(sys.modules.get("learndyn.records.files"), "discard", lambda: None)()
        said = "; ".join(["interrupted", *(state() for state in _states[-1:])])
        if os.isatty(1):
            os.write(1, SHOW_CURSOR)
        # While a bar is shown, sys.stderr is the bar's, which does not print any more.
        stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        print(f"learndyn: {said}", file=stream, flush=True)
    finally:
        os._exit(130)
