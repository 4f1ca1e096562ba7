"""Speed of the foundation, as ratios measured in one run: `make bench`.

`solve` for the ODE of Fig. 1 of bocchi2026escape; the direct engine against the loop that one
would write with NumPy, at N = 10⁴, p = 6, p* = 3, ten runs; Fig. 1 in its quick preset.
"""

import time

import numpy as np

import learndyn as ld
from learndyn.studies import registry
from learndyn.studies.bocchi2026escape._model import quadratic_system

P, P_STAR, ETA, N, RUNS = 6, 3, 0.01, 10_000, 10


def seconds(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def numpy_loop(start: ld.Start, steps: int) -> None:
    """The straightforward loop: one example a step, float64."""
    rng, W, B = np.random.default_rng(0), start.weights.copy(), start.teacher
    root = np.sqrt(W.shape[1])
    for _ in range(steps):
        x = rng.standard_normal(W.shape[1])
        h, u = W @ x / root, B @ x / root
        F = 4 * ETA / P * (np.mean(u**2) - np.mean(h**2)) * h
        W += np.outer(F, x) / root


def solving() -> None:
    system = quadratic_system(P, P_STAR, ETA, N)
    start, times = ld.start(system, key=1), np.linspace(0, 2500, 101)
    first = seconds(lambda: ld.solve(system, times, start=start, rtol=1e-8))
    again = min(seconds(lambda: ld.solve(system, times, start=start, rtol=1e-8)) for _ in range(5))
    print(f"solve, Fig. 1's ODE to rtol 1e-8: first call {first:.2f} s, then {again * 1e3:.1f} ms")


def direct_engine(steps: int = 2000) -> None:
    system = quadratic_system(P, P_STAR, ETA, N)
    start = ld.start(system, key=1)
    direct = {"start": start, "runs": RUNS, "method": "direct"}
    ld.simulate(system, [1 / N], **direct)  # compiles
    ours = seconds(lambda: ld.simulate(system, [steps / N], **direct))
    theirs = seconds(lambda: numpy_loop(start, steps))
    per_ours, per_theirs = ours / (RUNS * steps), theirs / steps
    print(f"direct engine, N = {N}, {RUNS} runs: {per_ours * 1e6:.1f} µs a run·step")
    print(f"NumPy loop, N = {N}: {per_theirs * 1e6:.1f} µs a step")
    print(f"throughput ratio: {per_theirs / per_ours:.2f}")


def fig1() -> None:
    study = registry.find("bocchi2026escape/fig1")
    took = seconds(lambda: study.draw(study.compute(study.PRESETS["quick"], lambda f: None)))
    print(f"bocchi2026escape/fig1, quick preset: {took:.1f} s")


if __name__ == "__main__":
    solving()
    direct_engine()
    fig1()
