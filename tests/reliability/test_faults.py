"""Faults that need processes of their own: of sweeps and of saving."""

import contextlib
import os
import pathlib
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from distributed import Client

import learndyn as ld

POINTS, FIRST = 30, 4  # the points after the first wait until they may go on
SUM = str(float(sum(range(0, 2 * POINTS, 2))))
SCRIPT = f"""
import pathlib, sys, time
import learndyn as ld

def slowly(a):
    while a >= {FIRST} and not pathlib.Path(GO).exists():
        time.sleep(0.05)
    time.sleep(0.05)
    return 2 * a

GO = {{go!r}}
if __name__ == "__main__":
    axes = {{{{"a": list(range({POINTS}))}}}}
    data = ld.sweep(slowly, axes, store=sys.argv[1], workers=1, chunk=1)
    print(float(data["value"].sum()))
"""


@pytest.fixture
def begun(tmp_path):
    """A sweep under way, which waits for `go()`: its process, store and what starts others."""
    script, store, going = tmp_path / "script.py", tmp_path / "s.zarr", tmp_path / "go"
    script.write_text(SCRIPT.format(go=str(going)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = []

    def start(place=store):
        started.append(
            subprocess.Popen(
                [sys.executable, str(script), str(place)], text=True, env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )
        )  # fmt: skip
        return started[-1]

    process = start()
    while not (store / "zarr.json").exists() or statuses(store).count("finished") < FIRST:
        assert process.poll() is None
        time.sleep(0.2)
    yield process, store, start, going.touch
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def statuses(store: pathlib.Path) -> list[str]:
    return [str(status) for status in ld.open_sweep(store)["point_status"].values]


def finishes(process: subprocess.Popen) -> bool:
    said, errors = process.communicate(timeout=300)
    assert said.split()[-1:] == [SUM], errors
    return True


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP on this system")
@pytest.mark.slow
def test_a_sweep_that_is_stopped_continues(begun):
    process, store, _, go = begun
    os.killpg(process.pid, signal.SIGSTOP)
    go()
    time.sleep(3.0)
    assert statuses(store).count("finished") == FIRST
    os.killpg(process.pid, signal.SIGCONT)
    assert finishes(process)
    assert statuses(store).count("finished") == POINTS


@pytest.mark.slow
def test_a_store_that_was_moved_continues(begun):
    process, store, start, go = begun
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    away = store.with_name("moved.zarr")
    shutil.move(store, away)
    assert statuses(away).count("finished") == FIRST
    go()
    assert finishes(start(away))
    attempts = ld.open_sweep(away)["point_attempt"].values
    assert list(attempts).count(2) == 1 and set(attempts) == {1, 2}  # the point under way
    assert not store.exists()


@pytest.mark.slow
def test_a_copy_made_while_a_store_is_written_is_a_store(begun):
    """Nothing in it is wrong; what is missing is computed again at the new place."""
    process, store, start, go = begun
    copies = []
    while process.poll() is None and len(copies) < 20:
        copies.append(store.with_name(f"copy{len(copies)}.zarr"))
        subprocess.run(["cp", "-r", str(store), str(copies[-1])], capture_output=True)
        go()
    assert finishes(process)
    for copy in copies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of points whose data were not copied yet
            data = ld.open_sweep(copy).load()
        there = data["point_status"].values == "finished"
        assert there.sum() >= FIRST
        assert np.array_equal(data["value"][there], 2.0 * data["a"][there])
        assert np.isnan(data["value"][~there]).all()
    assert finishes(start(copies[0]))
    assert statuses(copies[0]).count("finished") == POINTS


@pytest.mark.slow
def test_a_second_process_is_refused_while_the_first_writes(begun):
    process, _, start, go = begun
    second = start()
    _, said = second.communicate(timeout=300)
    assert second.returncode == 1 and said.count("Traceback") == 1
    assert said.splitlines()[-1].endswith(
        f"is being written by process {process.pid} on {platform.node()}; allowed is one at a time"
    )
    go()
    assert finishes(process)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_one_line_and_loses_nothing(tmp_path):
    file, started = tmp_path / "scheduler.json", []
    for words in (["scheduler", "--port", "0", "--no-dashboard"], ["worker", "--no-dashboard"]):
        given = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(file)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(given, cwd=tmp_path, start_new_session=True, **quiet))

    def slowly(a):
        time.sleep(0.2)
        return 2 * a

    killed = []

    def kill(fraction):
        if fraction > 0.2 and not killed:
            killed.append(fraction)
            started[0].kill()

    options = {"store": tmp_path / "s.zarr", "chunk": 1}
    try:
        with Client(scheduler_file=str(file), timeout=120) as client:
            client.wait_for_workers(1, timeout=120)
            with pytest.raises(ValueError, match=r"client: the scheduler is gone; finished point"):
                ld.sweep(slowly, {"a": range(20)}, client=client, progress=kill, **options)
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    kept = ld.open_sweep(tmp_path / "s.zarr")["point_status"].values
    assert 4 <= list(kept).count("finished") < 20
    data = ld.sweep(slowly, {"a": range(20)}, workers=1, progress=False, **options)
    assert np.array_equal(data["value"], 2 * np.arange(20))
    assert np.all(data["point_attempt"].values[kept == "finished"] == 1)


SAVES = """
import sys
import numpy as np
import learndyn as ld
import small

start = ld.start(small.SYSTEM)
while True:
    record = ld.simulate(small.SYSTEM, small.TIMES, start=start, runs=4, method="direct")
    ld.save(record.assign_attrs(padding="p" * 10**7), sys.argv[1])
    print("saved", flush=True)
"""


@pytest.mark.slow
def test_a_process_killed_while_it_simulates_and_saves_leaves_a_whole_file(tmp_path):
    path, chance = tmp_path / "record.nc", random.Random(0)
    here = str(pathlib.Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    given = [sys.executable, "-c", SAVES, str(path)]
    halves = 0
    for _ in range(8):
        process = subprocess.Popen(given, stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None and process.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        process.communicate()
        halves += len(list(tmp_path.iterdir())) > 1
        assert ld.load(path)["error"].sizes == {"run": 4, "time": 5}
    assert halves  # some were killed in the middle of a file
    ld.save(ld.load(path), path)
    assert [each.name for each in tmp_path.iterdir()] == ["record.nc"]
