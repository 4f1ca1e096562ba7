"""Where a sweep runs: a local cluster, or one that the caller has."""

import contextlib
import logging
import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

import dask.config
from distributed import Client, LocalCluster

from learndyn.numerics.checks import a_kind, positive_int

# One worker a core: pools of threads of their own would only stand in each other's way.
ALONE = {
    "NPROC": "1",  # XLA's
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# What Dask looks at many times a second, in each process, takes from cores that compute.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
ALLOWED = "None, a distributed.Client, or the address of a scheduler"


def check_client(client: Any) -> None:
    """Raises a ValueError for what cannot be submitted to."""
    if client is not None and not isinstance(client, str | Client):
        raise ValueError(f"client: got {a_kind(client)}; allowed is {ALLOWED}")


@contextlib.contextmanager
def connected(client: Any, retries: int) -> Iterator[Client]:
    """A client to submit to; one that is made here is closed here.

    Args:
        client: None for a local cluster, a `distributed.Client`, or a scheduler's address.
        retries: how often a local cluster tries again what ended its worker.

    Yields:
        The client.

    Raises:
        ValueError: where there is no scheduler.
    """
    if client is None:
        with local(retries=retries) as own:
            yield own
    elif isinstance(client, str):
        try:
            own = Client(client, timeout=10)
        except (OSError, ValueError, ImportError) as error:
            why = str(error).partition("\n")[0]
            raise ValueError(f"client: got {client!r} ({why}); allowed is {ALLOWED}") from None
        with own:
            yield own
    else:
        check_client(client)
        yield client


@contextlib.contextmanager
def local(workers: int | None = None, retries: int = 2) -> Iterator[Client]:
    """A client of a cluster on this computer, with one thread a worker.

    Args:
        workers: number of processes; None for one a core.
        retries: how often what ended its worker is tried again.

    Yields:
        The client.

    Raises:
        ValueError: in a script that does not protect its main part.
    """
    check_importable()
    count = cores() if workers is None else positive_int("workers", workers)
    settings = {"distributed.scheduler.allowed-failures": retries, **QUIET}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            env=ALONE,
        ) as cluster,
        Client(cluster) as client,
    ):
        # A worker that dies before its nanny has seen it start is not begun anew by that.
        cluster.adapt(minimum=count, maximum=count)  # pyright: ignore
        yield client


def check_importable() -> None:
    """Refuses a call while a worker imports the script: it would start workers of its own.

    Raises:
        ValueError: in a script that does not protect its main part.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ValueError(
            "sweep: starts processes, which import this script; allowed is a call "
            "under `if __name__ == '__main__':`"
        )


def cores() -> int:
    """Cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
