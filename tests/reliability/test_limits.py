"""Memory under a limit that the system enforces, and clocks that jump."""

import os
import pathlib
import runpy
import subprocess
import sys
import time
import types

import numpy as np
import pytest

import learndyn as ld
from learndyn.sweeping import local
from learndyn.sweeping import store as storing
from learndyn.sweeping.lock import GONE, RENEWED, held, is_held

HERE = pathlib.Path(__file__).parent
ABOUT = {
    "grid": {"axes": {"a": [1]}, "zipped": [], "points": [[0]]},
    "identity": {"version": "", "pad": []}, "attrs": {}, "function": {},
}  # fmt: skip
# Between the limit and what is in use when it is set there are 600 MB.
LIMITED = """
import re, resource, sys
import numpy as np
import learndyn as ld
import small

before = small.curve()[2].verdict
used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_AS, (used * 2**10 + 600 * 2**20,) * 2)
try:
    WORK
    print("it fitted")
except (ValueError, MemoryError, RuntimeError) as error:  # jax's is a RuntimeError
    print(f"{type(error).__name__}: {error}")
print(small.curve()[2].verdict == before)
"""
WORKS = {
    "simulate": (
        "ld.simulate(small.SYSTEM, np.arange(10**5), runs=1000)",
        "ValueError: runs: got 1000 at 100000 times, which takes",
    ),
    "solve": (
        "ld.solve(small.SYSTEM, np.linspace(0, 20, 10**8))",
        "MemoryError: Unable to allocate",
    ),
    "ntk": (
        "net = ld.MLP([1, 1], 'tanh'); weights = net.sample(np.random.default_rng(0), (1,)); "
        "ld.ntk(ld.Model(net, weights), np.ones((20000, 1)))",
        "ValueError: x: got 20000 × 20000 examples of 1 output, whose kernel takes 2.98 GiB",
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit that the system enforces")
@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_a_limit_on_memory_is_one_line_and_the_process_goes_on(work):
    code, said = WORKS[work]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.replace("WORK", code)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert said in lines[0] and lines[1:] == ["True"], done.stdout


def hungry(a):
    import resource

    import numpy as np

    used, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**32, most))
    try:
        return float(np.ones(2**30 if a == 3 else 2**10).mean() * a)  # 8 GiB
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (used, most))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit that the system enforces")
@pytest.mark.slow
def test_a_point_beyond_the_limit_of_its_worker_fails_alone(tmp_path):
    with local(1) as client:
        options = {"client": client, "progress": False, "retries": 0}
        data = ld.sweep(hungry, {"a": range(6)}, store=tmp_path / "s.zarr", **options)
    assert [str(status) for status in data["point_status"].values].count("failed") == 1
    assert "Unable to allocate 8.00 GiB" in str(data["point_message"].sel(a=3).values)
    assert np.array_equal(data["value"].sel(a=[0, 1, 2, 4, 5]), [0, 1, 2, 4, 5])


@pytest.fixture
def clock(monkeypatch):
    """Sets by how many seconds the time of day has jumped."""
    jumped, true = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: true() + jumped[0])
    monkeypatch.setattr(time, "time_ns", lambda: int((true() + jumped[0]) * 1e9))
    return lambda seconds: jumped.__setitem__(0, seconds)


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_the_lock_of_a_remote_store_survives_a_clock_that_jumps(clock, jump):
    """One of a client that is gone is not held for ever, and one that is renewed stays."""
    location = f"memory://clock{jump}.zarr"
    with held(location) as renew:
        opened = storing.Store(location, "a")
        opened.describe(sweep=ABOUT)
        renew(opened)
        assert is_held(storing.Store(location))
        clock(jump)
        renew.renewed -= RENEWED  # as if so much time had passed
        renew(opened)
        assert is_held(storing.Store(location))
        left = storing.Store(location).attrs
    opened.describe(owner=left["owner"])  # as a client leaves it that is killed
    assert is_held(storing.Store(location))
    clock(0.0 if jump > 0 else GONE)  # the owner's time is now far ahead, or long ago
    assert not is_held(storing.Store(location))


# All processes of the sweep read the time of day from here, and Dask binds it when it is imported.
JUMPS = """
import mmap, struct, sys, time

with open(sys.argv[1], "r+b") as file:
    board = mmap.mmap(file.fileno(), 8)
true = time.time
time.time = lambda: true() + struct.unpack("d", board[:8])[0]
time.time_ns = lambda: int(time.time() * 1e9)
import learndyn as ld

def slowly(a):
    time.sleep(0.2)
    return 2.0 * a

def told(fraction):
    if fraction > 0.2:
        board[:8] = struct.pack("d", float(sys.argv[3]))

if __name__ == "__main__":
    data = ld.sweep(slowly, {"a": range(40)}, store=sys.argv[2], workers=2, chunk=1, progress=told)
    print(time.time() - true(), float(data["value"].sum()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("jump", [-5.0, 1e6])
def test_a_sweep_goes_on_when_the_clock_jumps(tmp_path, jump):
    """After a jump ahead, as after a computer slept, the scheduler takes its workers to be gone."""
    script, board = tmp_path / "script.py", tmp_path / "board"
    script.write_text(JUMPS)
    board.write_bytes(bytes(8))
    done = subprocess.run(
        [sys.executable, str(script), str(board), str(tmp_path / "s.zarr"), str(jump)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    jumped, total = map(float, done.stdout.split()[-2:])
    assert total == 1560 and abs(jumped - jump) < 1


def test_work_and_its_times_do_not_follow_the_clock(clock, tmp_path):
    """Progress, pieces of work and durations count by a clock that never jumps."""
    small = types.SimpleNamespace(**runpy.run_path(str(HERE / "small.py")))
    expected, told = small.curve()[1], []

    def jumps(fraction):
        told.append(fraction)
        clock((-1) ** len(told) * 1e7)

    record = ld.simulate(
        small.SYSTEM, small.TIMES, runs=4, key=1, method="direct", progress=jumps,
        start=ld.start(small.SYSTEM),
    )  # fmt: skip
    assert told == sorted(told) and told[-1] == 1
    np.testing.assert_array_equal(record["error"], expected["error"])
    assert 0 <= record.attrs["wall_seconds"] < 1e5
    ld.save(record, tmp_path / "record.nc")
    assert ld.load(tmp_path / "record.nc").identical(record)
    with held(str(tmp_path / "s.zarr")), pytest.raises(ValueError, match="is being written"):
        ld.sweep(lambda a: a, {"a": [1]}, store=tmp_path / "s.zarr", workers=1, progress=False)
