"""Errors that are expected."""

import contextlib
import re
from collections.abc import Iterator


@contextlib.contextmanager
def refused(pattern: str) -> Iterator[None]:
    """Raises an AssertionError unless the block raises a ValueError whose message matches."""
    try:
        yield
    except ValueError as error:
        assert re.search(pattern, str(error)), f"got {str(error)!r}; expected is {pattern!r}"
    else:
        raise AssertionError(f"got no ValueError; expected is one that matches {pattern!r}")
