"""Ctrl-C ends a command at once, with one line that says what is left on disk.

A KeyboardInterrupt is not enough. About one in eight is raised in a callback of the garbage
collector, which swallows it, and while compiled code runs, the main thread cannot raise it at all.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

# Processes that are killed leave semaphores behind. Python's resource tracker frees them and warns.
UNTRACKED = "ignore::UserWarning:multiprocessing.resource_tracker"
SHOW_CURSOR = b"\x1b[?25h\n"  # a progress bar hides the cursor, and is killed before it shows it
_states: list[Callable[[], str]] = []


def end_on_ctrl_c() -> None:
    """Makes Ctrl-C end the process, unless the parent process has interruptions ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # for instance under nohup, or in a background job of a shell script
    sys.warnoptions.append(UNTRACKED)
    # Python's C-level handler writes to the wake-up descriptor immediately, whatever the main
    # thread does; a thread that waits at the other end can then act. The Python-level handler has
    # to exist, but does nothing.
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)  # `set_wakeup_fd` requires it
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.set_wakeup_fd(theirs.detach())

    def wait() -> None:
        ours.recv(1)
        end()

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def interruption_message(state: Callable[[], str]) -> Iterator[None]:
    """Within this context, an interruption prints what `state` returns."""
    _states.append(state)
    try:
        yield
    except KeyboardInterrupt:
        end()
    finally:
        _states.pop()


def end() -> NoReturn:
    """Removes unfinished files, prints what is left, and ends the process at once."""
    try:
        # The module may not be imported yet, or only partly.
        getattr(sys.modules.get("learndyn.records.files"), "discard", lambda: None)()
        message = "; ".join(["interrupted", *(state() for state in _states[-1:])])
        if os.isatty(1):
            os.write(1, SHOW_CURSOR)
        # While a progress bar is shown, sys.stderr is a proxy of rich, which no longer prints.
        stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        print(f"learndyn: {message}", file=stream, flush=True)
    finally:
        # Not sys.exit: compiled code that still runs may crash while the interpreter shuts down.
        os._exit(130)
