"""How much memory there is."""

import os

import jax

UNKNOWN = 8 * 2**30  # bytes, where the system does not say


def memory() -> int:
    """Bytes of the device that JAX computes on."""
    said = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    if said:
        return int(said)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
