"""The logger of the package: what long computations do, and how long they take."""

import contextlib
import logging
import time
from collections.abc import Iterator

log = logging.getLogger("learndyn")
log.addHandler(logging.NullHandler())  # silent unless a program asks for it


@contextlib.contextmanager
def logged(what: str) -> Iterator[None]:
    """Logs the beginning and the end of the work in the block, with its duration.

    Args:
        what: the work, in a word or two.
    """
    log.info("%s: begins", what)
    began, how = time.monotonic(), "failed"
    try:
        yield
        how = "done"
    finally:
        log.info("%s: %s after %.3g s", what, how, time.monotonic() - began)
