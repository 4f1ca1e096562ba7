"""Where a sweep runs: on a local cluster, or on one of the caller."""

import contextlib
import logging
import multiprocessing
import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import dask.config
from distributed import Client, LocalCluster

from learndyn.runtime.checks import a_kind, positive_int
from learndyn.runtime.cores import cores

# There is one worker per core, so further thread pools in each would only compete for cores.
ALONE = {
    "NPROC": "1",  # read by XLA
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# By default Dask checks these many times per second in each process, which costs computing time.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
STARTING = "LEARNDYN_STARTS_WORKERS"  # in the environment while this process starts workers
GUARD = "a call under `if __name__ == '__main__':`"
ALLOWED = "None, a distributed.Client, or the address of a scheduler"


def chosen(client: Any, workers: Any) -> Any:
    """The `client` of `connected`, from the arguments of a sweep, checked.

    Raises:
        ValueError: for a client to which tasks cannot be submitted, and for one beside `workers`.
    """
    if client is not None and not isinstance(client, str | Client):
        raise ValueError(f"client: got {a_kind(client)}; allowed is {ALLOWED}")
    if workers is None:
        return client
    count = positive_int("workers", workers)
    if client is not None:
        raise ValueError(f"workers: got {count} and a client; allowed is one of the two")
    return count


@contextlib.contextmanager
def connected(client: Any, retries: int) -> Iterator[Client]:
    """A client to submit tasks to; if it is created here, it is closed here.

    Args:
        client: None for a local cluster, or its number of processes; a `distributed.Client`, or
            the address of a scheduler.
        retries: how often a local cluster retries a task whose worker died.

    Yields:
        The client.

    Raises:
        ValueError: if there is no scheduler.
    """
    if client is None or isinstance(client, int):
        with local(client, retries) as own:
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
        yield client


def dashboard(client: Client) -> str:
    """A line with the address of Dask's dashboard; empty without bokeh, which draws it."""
    link: Any = client.dashboard_link
    return f"sweep: Dask's dashboard is at {link}" if link and find_spec("bokeh") else ""


@contextlib.contextmanager
def local(workers: int | None = None, retries: int = 2) -> Iterator[Client]:
    """A client of a cluster on this computer, with one thread per worker.

    Args:
        workers: number of processes; None for one per core.
        retries: how often a task whose worker died is tried again.

    Yields:
        The client.

    Raises:
        ValueError: in a script whose main part is not under `if __name__ == '__main__':`.
    """
    check_importable()
    count = cores() if workers is None else positive_int("workers", workers)
    settings = {"distributed.scheduler.allowed-failures": retries, **QUIET}
    with dask.config.set(settings), _started(count) as cluster, Client(cluster) as client:
        # A nanny does not restart a worker that dies before it has reported; `adapt` does.
        cluster.adapt(minimum=count, maximum=count)  # pyright: ignore
        yield client


def _started(count: int) -> LocalCluster:
    os.environ[STARTING] = "1"
    try:
        return LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            env={**ALONE, STARTING: ""},  # not inherited by processes that workers start
        )
    except RuntimeError as error:
        if "failed to start" not in str(error):
            raise
        raise ValueError(
            f"sweep: its workers ended while they imported this script; allowed is {GUARD}"
        ) from None
    finally:
        del os.environ[STARTING]


def check_importable() -> None:
    """Raises if a worker is importing the script: it would start workers of its own.

    Raises:
        ValueError: in a script whose main part is not under `if __name__ == '__main__':`.
    """
    if not getattr(multiprocessing.current_process(), "_inheriting", False):
        return
    if os.environ.get(STARTING):
        os._exit(1)  # silently: the process that started this one reports the error
    raise ValueError(f"sweep: starts processes, which import this script; allowed is {GUARD}")
