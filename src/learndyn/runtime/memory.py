"""How much memory the device has."""

import os

import jax

UNKNOWN = 8 * 2**30  # bytes assumed if the system does not tell


def memory() -> int:
    """Bytes of the device that JAX computes on."""
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    if limit:
        return int(limit)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
