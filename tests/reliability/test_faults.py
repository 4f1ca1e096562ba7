"""Faults of sweeps that need processes of their own."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import learndyn as ld

SCRIPT = """
import sys, time
import learndyn as ld

def slowly(a):
    time.sleep(0.3)
    return 2 * a

if __name__ == "__main__":
    data = ld.sweep(slowly, {"a": list(range(20))}, store=sys.argv[1], workers=1, chunk=1)
    print(float(data["value"].sum()))
"""


@pytest.fixture
def begun(tmp_path):
    """A sweep of twenty points under way, in a process group of its own, and its store."""
    script, store = tmp_path / "script.py", tmp_path / "s.zarr"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(store)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    start = lambda: subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    process = start()
    while not (store / "zarr.json").exists() or "finished" not in statuses(store):
        assert process.poll() is None
        time.sleep(0.2)
    yield process, store, start
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def statuses(store: pathlib.Path) -> list[str]:
    return list(np.ravel(ld.open_sweep(store)["point_status"].values))


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP on this system")
@pytest.mark.slow
def test_a_sweep_that_is_stopped_continues(begun):
    process, store, _ = begun
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(1.0)  # what a worker had written before it was stopped
    before = statuses(store).count("finished")
    time.sleep(3.0)
    assert statuses(store).count("finished") == before < 20
    os.killpg(process.pid, signal.SIGCONT)
    assert process.communicate(timeout=120)[0].split()[-1] == "380.0"
    assert statuses(store).count("finished") == 20


@pytest.mark.slow
def test_a_store_that_was_moved_continues(begun):
    process, store, start = begun
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = statuses(store).count("finished")
    away = store.with_name("moved.zarr")
    shutil.move(store, away)
    assert statuses(away).count("finished") == finished < 20
    shutil.move(away, store)
    again = start()
    assert again.communicate(timeout=120)[0].split()[-1] == "380.0"
    assert np.all(ld.open_sweep(store)["point_attempt"] <= 2)
