"""How much memory a device has, and how much of it is free."""

import importlib
import os
from typing import Any

import jax

UNKNOWN = 8 * 2**30  # bytes assumed if the system does not tell


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


def _of_host() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
