"""Sweeps against a loop and under load, as `python benchmarks/sweep.py [PART …]`, of these parts.

- solves: 400 solves of Fig. 1 of bocchi2026escape over rates and starts, in one process, and on
  two workers that have started and compiled; how many cores each side used.
- overhead: what a point of 50 ms, asleep, costs beyond that.
- store: what it takes to call a finished store of 10⁴ points again, and the memory of a client of
  its own at 10³ and at 10⁴ points.
- load: 10⁵ points of 10 ms on two workers, of which one is killed at a third; at two thirds the
  client is killed, and the call repeated: points a second, memory, what was computed twice. It
  takes ten minutes and is left out unless it is named.
"""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.sweeping import local
from learndyn.sweeping.cluster import ALONE

WORKERS = 2
RATES, STARTS = np.geomspace(0.02, 0.3, 20), range(20)
ASLEEP = 0.05


def curve(eta, key):
    system = quadratic_system(6, 3, eta, 1000)
    t = np.linspace(0, 25, 51)
    record = ld.solve(system, t / eta, start=ld.start(system, key=key))
    return record.assign_coords(time=t)[["error", "Q", "R"]].drop_vars("step")


def asleep(a):
    time.sleep(ASLEEP)
    return xr.Dataset({"y": float(a)})


def nothing(a):
    return xr.Dataset({"y": float(a)})


def timed(work):
    """Seconds, those of one core that this process spent, and what came of it."""
    began, spent = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - began, time.process_time() - spent, found


def loop(rates=RATES):
    return [curve(float(eta), key) for eta in rates for key in STARTS]


def half(first):
    """Says that it is ready, and how long every second rate takes once it is told to begin."""
    curve(0.05, 0)
    print(flush=True)
    sys.stdin.readline()
    print(timed(lambda: loop(RATES[int(first) :: 2]))[0], flush=True)


def halves():
    """Seconds of two loops side by side, which share nothing but this computer."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [[sys.executable, __file__, "half", str(first)] for first in range(2)]
    running = [subprocess.Popen(each, env={**os.environ, **ALONE}, **pipes) for each in words]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    return max(float(process.communicate()[0]) for process in running)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def swept(function, axes, store, client):
    return ld.sweep(function, axes, store=store, client=client, progress=False)


def busy(client):
    return sum(client.run(time.process_time).values())


def solves(place):
    """Three rounds in turn, and of each side the fastest: the one that was disturbed least."""
    curve(0.05, 0)
    rows = []
    with local(WORKERS) as client:
        warm = {"eta": [0.05, 0.06], "key": range(1000, 1020)}
        swept(curve, warm, place / "warm.zarr", client)
        for turn in range(3):
            alone, cores, _ = timed(loop)
            rows.append([alone, halves(), *_side(place / f"{turn}.zarr", client), cores / alone])
            print("  loop {:.2f} s, halves {:.2f} s, sweep {:.2f} s".format(*rows[-1]))
    alone, apart, side, inside, spent, cores = np.min(rows, axis=0)
    print(f"400 solves: loop {alone:.2f} s on {cores:.2f} cores, ", end="")
    print(f"halves side by side {apart:.2f} s: {alone / apart:.2f} × (what two cores give)")
    print(f"sweep on {WORKERS} workers {side:.2f} s: {alone / side:.2f} × (wanted: 1.7)")
    print(f"  workers used {spent:.2f} cores (wanted: at most {WORKERS})")
    print(f"  a solve takes {2.5 * alone:.1f} ms in the loop, {2.5 * inside:.1f} ms on a worker")


def _side(store, client):
    """Seconds of a sweep, those inside its points, and the cores that workers used."""
    before = busy(client)
    side, _, data = timed(lambda: swept(curve, {"eta": RATES, "key": STARTS}, store, client))
    return side, float(data["point_seconds"].sum()), (busy(client) - before) / side


def overhead(place):
    count = 400
    with local(WORKERS) as client:
        swept(asleep, {"a": range(-20, 0)}, place / "warm.zarr", client)
        took, _, data = timed(lambda: swept(asleep, {"a": range(count)}, place / "s.zarr", client))
    each, inside = took * WORKERS / count, float(data["point_seconds"].mean())
    print(f"{count} points of {1e3 * inside:.2f} ms: {1e3 * each:.2f} ms a point and worker")
    print(f"overhead {each / inside - 1:.1%} (wanted: below 5 %)")


def store(place):
    for count in (1000, 10_000):
        words = [sys.executable, __file__, "client", str(place / f"{count}.zarr"), str(count)]
        print(subprocess.run(words, check=True, capture_output=True, text=True).stdout, end="")
    path = place / "10000.zarr"
    again, _, _ = timed(lambda: swept(nothing, {"a": range(10_000)}, path, None))
    print(f"a finished store of 10000 points again: {again:.2f} s")


def client_of(path, count):
    with local(WORKERS) as client:
        swept(nothing, {"a": range(10)}, path + ".warm", client)
        first = peak()
        took, _, _ = timed(lambda: swept(nothing, {"a": range(int(count))}, path, client))
    print(f"{count} empty points: {took:.2f} s, {1e3 * took / int(count):.2f} ms a point, ", end="")
    print(f"largest memory of the client {peak():.0f} MB, of it before {first:.0f} MB")


def short(a):
    time.sleep(0.01)
    return {"y": float(a), "worker": float(os.getpid())}


def loaded(path, count):
    """One call, with what the parent process has to know on its standard output."""
    with local(WORKERS) as client:
        print(*client.run(os.getpid).values(), flush=True)
        tell = lambda fraction: print(fraction, peak(), flush=True)
        axes = {"a": range(int(count))}
        ld.sweep(short, axes, store=path, client=client, progress=tell)


def load(place, count=10**5):
    path, turn = str(place / "load.zarr"), [(1 / 3, "worker"), (2 / 3, "client"), (1.0, "")]
    words, began, held, rates = [sys.executable, __file__, "loaded", path, str(count)], None, 0, []
    while turn:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        workers, before = process.stdout.readline().split(), None
        for line in process.stdout:
            fraction, memory = map(float, line.split())
            began, held = began or time.perf_counter(), max(held, memory)
            before = before or (fraction, time.perf_counter())
            if turn and fraction >= turn[0][0]:
                took = time.perf_counter() - before[1]
                rates.append(count * (fraction - before[0]) / took)
                before = fraction, time.perf_counter()
                _, whom = turn.pop(0)
                if whom:
                    os.kill(int(workers[0]) if whom == "worker" else process.pid, signal.SIGKILL)
                if whom == "client":
                    break
        process.wait()
    took = time.perf_counter() - began
    data = ld.open_sweep(path)
    assert np.array_equal(data["y"], np.arange(count)), "some points are missing"
    again = int((data["point_attempt"] > 1).sum())
    size = sum(file.stat().st_size for file in pathlib.Path(path).rglob("*")) / 2**20
    print(f"{count} points of 10 ms: {took:.0f} s, asleep alone {count * 0.01 / WORKERS:.0f} s")
    print("points a second before each fault: " + ", ".join(f"{rate:.0f}" for rate in rates))
    print(f"largest memory of client and scheduler {held:.0f} MB; {again} points computed twice")
    print(f"the store has {size:.1f} MB in chunks of {data['y'].data.chunks[0][0]} points")


def main(names):
    for part in (solves, overhead, store, load):
        if part.__name__ in names or (not names and part is not load):
            with tempfile.TemporaryDirectory() as folder:
                part(pathlib.Path(folder))


if __name__ == "__main__":
    if sys.argv[1:2] in (["client"], ["half"], ["loaded"]):
        {"client": client_of, "half": half, "loaded": loaded}[sys.argv[1]](*sys.argv[2:])
    else:
        main(sys.argv[1:])
