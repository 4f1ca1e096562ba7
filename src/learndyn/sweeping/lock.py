"""One client at a time: the second is refused, and a killed one stands in nobody's way."""

import contextlib
import fcntl
import json
import os
import pathlib
import platform
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from learndyn.sweeping.store import (
    Store,
    StoreTrouble,
    holds_files,
    is_local,
    local_path,
    one_line,
)

OWNER = "owner"  # elsewhere than on disk: who writes, and when he last said so
RENEWED, GONE = 10.0, 60.0  # seconds


@contextlib.contextmanager
def held(location: str) -> Iterator[Callable[[Store], None]]:
    """Holds a store while the block lasts.

    On disk the system keeps the lock, and drops it when the process ends, however that happens.
    Elsewhere the store names its owner, who is believed to be gone after a minute of silence.

    Args:
        location: of the store.

    Yields:
        What to call from time to time with the opened store.

    Raises:
        StoreTrouble: where another client holds it.
    """
    if not is_local(location):
        lease = _Lease()
        try:
            yield lease
        finally:
            lease.end()
        return
    folder = local_path(location)
    # Beside the store: what is no Zarr in it would puzzle its readers.
    path = folder.with_name(f".{folder.name}.lock")
    with one_line(location, "one that can be written"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(path, location)
    with file:
        file.truncate()
        file.write(_me())
        file.flush()
        if not holds_files(folder):
            _tidy(folder)
        try:
            yield lambda store: None
        finally:
            path.unlink(missing_ok=True)


def _locked(path: pathlib.Path, location: str) -> TextIO:
    """The file, open and locked."""
    while True:
        file = open(path, "a+")  # noqa: SIM115 (held open: that is the lock)
        file.seek(0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        except BlockingIOError:
            owner = file.read()
            file.close()
            raise _refusal(location, owner) from None
        except FileNotFoundError:
            pass
        file.close()  # its last holder removed it meanwhile


class _Lease:
    """Names the owner in the store, and renews that."""

    def __init__(self):
        self.said, self.store = 0.0, None

    def __call__(self, store: Store) -> None:
        now = time.time()
        if now - self.said < RENEWED:
            return
        owner = Store(store.location, "a").attrs.get(OWNER)
        if owner and owner["who"] != _me() and now - owner["when"] < GONE:
            raise _refusal(store.location, owner["who"])
        store.describe(**{OWNER: {"who": _me(), "when": now}})
        self.said, self.store = now, store

    def end(self) -> None:
        """Gives the store free."""
        if self.store is not None:
            self.store.describe(**{OWNER: None})


def _me() -> str:
    return json.dumps({"process": os.getpid(), "host": platform.node()})


def _refusal(location: str, owner: str) -> StoreTrouble:
    try:
        said = json.loads(owner)
        who = f"process {said['process']} on {said['host']}"
    except (ValueError, KeyError):
        who = "another process"
    return StoreTrouble(f"store: {location!r} is being written by {who}; allowed is one at a time")


def _tidy(folder: pathlib.Path) -> None:
    """Removes what killed processes left half written."""
    for left in folder.rglob("*.partial"):
        left.unlink(missing_ok=True)
