"""Imports that Ctrl-C does not cut short: JAX, half imported, works no more in that process."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Keeps an interruption that arrives in the block until its end.

    Where Ctrl-C has a handler of its own, that is called as ever.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
