"""Sweeps against a loop, in one run: `python benchmarks/sweep.py`.

400 solves of Fig. 1 of bocchi2026escape over rates and starts, in one process, and on two workers
that have started and compiled; overhead a point; what it takes to call a finished store of 10⁴
points again, and the memory of the client at 10³ and 10⁴ points.
"""

import pathlib
import resource
import tempfile
import time

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.sweeping import local

WORKERS = 2
RATES, STARTS = np.geomspace(0.02, 0.3, 20), range(20)


def curve(eta, key):
    system = quadratic_system(6, 3, eta, 1000)
    t = np.linspace(0, 15, 31)
    record = ld.solve(system, t / eta, start=ld.start(system, key=key))
    return record.assign_coords(time=t)[["error", "Q", "R"]].drop_vars("step")


def nothing(a):
    return xr.Dataset({"y": float(a)})


def timed(work):
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def loop():
    return [curve(float(eta), key) for eta in RATES for key in STARTS]


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    curve(0.05, 0)
    alone, _ = timed(loop)
    with tempfile.TemporaryDirectory() as folder, local(WORKERS) as client:
        place = pathlib.Path(folder)
        sweep = lambda function, axes, name: ld.sweep(
            function, axes, store=place / name, client=client, progress=False
        )
        warm = {"eta": [0.05, 0.06], "key": range(1000, 1020)}
        sweep(curve, warm, "warm.zarr")
        side, data = timed(lambda: sweep(curve, {"eta": RATES, "key": STARTS}, "curves.zarr"))
        inside = float(data["point_seconds"].sum()) / WORKERS
        print(f"400 solves: loop {alone:.2f} s, sweep on {WORKERS} workers {side:.2f} s")
        print(f"ratio {alone / side:.2f} (two cores: at least 1.7)")
        print(f"overhead {1e3 * (side - inside) * WORKERS / 400:.2f} ms a point and worker")
        for count in (1000, 10_000):
            took, _ = timed(lambda n=count: sweep(nothing, {"a": range(n)}, f"{n}.zarr"))
            print(f"{count} empty points: {took:.2f} s, {1e3 * took / count:.3f} ms a point")
            print(f"  largest memory of the client so far {memory():.0f} MB")
        again, _ = timed(lambda: sweep(nothing, {"a": range(10_000)}, "10000.zarr"))
        print(f"a finished store of 10000 points again: {again:.2f} s")


if __name__ == "__main__":
    main()
