"""Locks a store: one client at a time, without leaving a lock behind if a client is killed."""

import contextlib
import json
import os
import pathlib
import platform
import time
from collections.abc import Callable, Iterator

from filelock import FileLock, Timeout

from learndyn.sweeping.errors import StoreError, one_line
from learndyn.sweeping.store import Store, holds_files, is_local, local_path

OWNER = "owner"  # attribute of remote stores: which client writes, and when it last renewed
RENEWED, GONE = 10.0, 60.0  # seconds between renewals, and after which an owner counts as gone
AHEAD = 3600.0  # seconds by which the clock of another computer may be ahead
PROBED = 1.0  # seconds to wait for the lock, since `is_held` may take it for a moment


@contextlib.contextmanager
def held(location: str) -> Iterator[Callable[[Store], None]]:
    """Locks a store during the block.

    For stores on disk the operating system keeps the lock, and releases it when the process ends,
    however that happens. Remote stores name their owner, which counts as gone after a minute
    without renewal.

    Args:
        location: the location of the store.

    Yields:
        A function to call from time to time with the opened store, which renews the lock.

    Raises:
        StoreError: if another client holds the lock.
    """
    if not is_local(location):
        lease = _Lease()
        try:
            yield lease
        finally:
            lease.end()
        return
    folder = local_path(location)
    path, owner = _beside(folder, "lock"), _beside(folder, OWNER)
    lock = FileLock(path)
    with one_line(location, "one that can be written"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=PROBED)
        except Timeout:
            raise _refusal(location, owner) from None
    try:
        # In a separate file: on Windows others cannot read the locked one.
        with one_line(location, "one that can be written"):
            owner.write_text(_me(), encoding="utf-8")
        if not holds_files(folder):  # incomplete files of killed processes
            for left in folder.rglob("*.partial"):
                left.unlink(missing_ok=True)
        yield lambda store: None
    finally:
        # Removed while still locked, so that a client that has opened the file meanwhile notices
        # that it is gone. On Windows an open file cannot be removed; the release does it there.
        for left in (owner, path):
            with contextlib.suppress(OSError):
                left.unlink()
        lock.release()


def is_held(store: Store) -> bool:
    """Whether a client is writing the store now; True if that cannot be determined."""
    if not is_local(store.location):
        owner = store.attrs.get(OWNER)
        return bool(owner) and _recent(owner["when"], GONE)
    path = _beside(local_path(store.location), "lock")
    if not path.exists():
        return False
    try:
        with FileLock(path).acquire(blocking=False):
            return False
    except (Timeout, OSError):
        return True


def _beside(folder: pathlib.Path, what: str) -> pathlib.Path:
    """A path next to the store rather than in it, where it would confuse readers of Zarr."""
    return folder.with_name(f".{folder.name}.{what}")


class _Lease:
    """The lock of a remote store: writes the owner into it, and renews that."""

    def __init__(self):
        self.renewed, self.store = -RENEWED, None

    def __call__(self, store: Store) -> None:
        if time.monotonic() - self.renewed < RENEWED:
            return
        owner = Store(store.location, "a").attrs.get(OWNER)
        if owner and owner["who"] != _me() and _recent(owner["when"], GONE):
            raise _refused(store.location, owner["who"])
        # Not monotonic: other computers compare it with their own clock.
        store.describe(**{OWNER: {"who": _me(), "when": time.time()}})
        self.renewed, self.store = time.monotonic(), store

    def end(self) -> None:
        """Releases the store."""
        if self.store is not None:
            self.store.describe(**{OWNER: None})


def _recent(when: float, seconds: float) -> bool:
    """Whether a time is less than some seconds ago; one far ahead is of a clock that jumped."""
    return -AHEAD < time.time() - when < seconds


def _me() -> str:
    return json.dumps({"process": os.getpid(), "host": platform.node()})


def _refusal(location: str, owner: pathlib.Path) -> StoreError:
    try:
        return _refused(location, owner.read_text(encoding="utf-8"))
    except OSError:  # the other client has only just begun, or is just ending
        return _refused(location, "")


def _refused(location: str, owner: str) -> StoreError:
    try:
        process = json.loads(owner)
        who = f"process {process['process']} on {process['host']}"
    except (ValueError, KeyError):
        who = "another process"
    return StoreError(f"store: {location!r} is being written by {who}; allowed is one at a time")
