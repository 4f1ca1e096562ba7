"""Refuses to compute in a process that was forked after JAX was used, where it would hang."""

import os

from learndyn.runtime.jax_versions import has_started

_forked = False


def _note() -> None:
    global _forked
    _forked = has_started()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_note)


def require_own_threads() -> None:
    """Raises a ValueError in a process whose parent had used JAX: a fork leaves threads behind."""
    if _forked:
        raise ValueError(
            "process: was forked after JAX had been used, and JAX's threads were left behind; "
            "allowed is one that multiprocessing starts by 'spawn' or 'forkserver'"
        )
