"""Types are checked at run time in the tests, and only there; caches do not pile up."""

import contextlib
import ctypes
import gc
import os
import pathlib
import re
from collections.abc import Callable

import jax
import pytest
from jaxtyping import install_import_hook

os.environ["LEARNDYN_CACHE"] = "0"  # the tests leave a developer's own cache alone
STATUS = pathlib.Path("/proc/self/status")
install_import_hook("learndyn", "beartype.beartype").__enter__()


MOST = 1600  # MB that a worker may hold before it forgets what it compiled
GROWTH = 300  # MB that it may grow by before it does so again
_limit = [MOST]
# What takes long: CI runs it by `make test-defaults` and `make test-long`, not by `make test`.
LONG = set((pathlib.Path(__file__).parent / "long.txt").read_text(encoding="utf-8").splitlines())


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid in LONG or item.nodeid.partition("::")[0] in LONG:
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def _forget():
    """Compiled programs pile up to gigabytes; while there is room, the next tests share them."""
    yield
    if _held("VmRSS") > _limit[0]:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)
        # What remains is not compiled programs: to forget at every test would help nobody.
        _limit[0] = max(MOST, _held("VmRSS") + GROWTH)


def _held(what: str) -> float:
    """MB that the process holds, as the system counts them; 0 where it does not say."""
    if not STATUS.exists():
        return 0.0
    found = re.search(rf"{what}:\s+(\d+)", STATUS.read_text())
    return int(found[1]) / 1024 if found else 0.0


@pytest.fixture
def peak_memory() -> Callable[[Callable[[], object]], float]:
    """By how many MB the process grows at its peak during some work, XLA's buffers included."""
    reset = pathlib.Path("/proc/self/clear_refs")
    if not reset.exists():
        pytest.skip("needs /proc to see what XLA holds")

    def grown(work: Callable[[], object]) -> float:
        gc.collect()
        reset.write_text("5")  # the peak so far is forgotten
        before = _held("VmRSS")
        work()
        return _held("VmHWM") - before

    return grown
