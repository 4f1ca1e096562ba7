"""How much memory a device has, and how much of it is free."""

import contextlib
import importlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import jax

UNKNOWN = 8 * 2**30  # bytes assumed if the system does not tell
CONTAINERS = ("memory.max", "memory/memory.limit_in_bytes")  # what a container may use, on Linux


def memory() -> int:
    """Bytes of the device that JAX computes on."""
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    if limit:
        return int(limit)
    return _of_host()


def free_memory(array: Any) -> int:
    """Bytes that are free on the device of an array of NumPy, JAX or PyTorch; half of a host's."""
    if isinstance(array, jax.Array):
        stats = next(iter(array.devices())).memory_stats() or {}
        if stats.get("bytes_limit"):
            return int(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    elif getattr(array, "is_cuda", False):
        cuda: Any = importlib.import_module("torch").cuda
        # PyTorch keeps memory that it has freed, and takes it again.
        kept = cuda.memory_reserved(array.device) - cuda.memory_allocated(array.device)
        return int(cuda.mem_get_info(array.device)[0] + kept)
    return _of_host() // 2  # the same at every call, so that results are


def check_weights_fit(array: Any, weights: int, vectors: int, why: str) -> None:
    """Raises a ValueError if so many vectors of a model's weights exceed the free memory.

    Args:
        array: one of the weights, which has their device and precision.
        weights: how many weights there are.
        vectors: how many vectors of them are needed.
        why: what for, in words.
    """
    needed, allowed = vectors * weights * array[:1].nbytes, free_memory(array)
    if needed > allowed:
        raise ValueError(
            f"model: got {weights} weights, of which {why} takes {needed / 2**30:.3g} GiB; allowed "
            f"here are {allowed / 2**30:.3g} GiB"
        )


def check_fits(name: str, size: int) -> None:
    """Raises a ValueError if so many bytes fill more than half of the memory.

    Args:
        name: of what takes them, a file mostly.
        size: bytes.
    """
    if size > (allowed := free_memory(None)):
        raise ValueError(
            f"{name}: takes {size / 2**30:.3g} GiB of memory; allowed here are "
            f"{allowed / 2**30:.3g} GiB"
        )


def _of_host() -> int:
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        whole = UNKNOWN
    return min([whole, *_limits()])


def _limits() -> Iterator[int]:
    """Limits of this process (`ulimit -v`), and of the container or job that it runs in."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no `resource`
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            yield soft
    for name in CONTAINERS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            yield int(pathlib.Path("/sys/fs/cgroup", name).read_text())
