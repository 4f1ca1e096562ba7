"""Both engines against the loops one would write, and against the machine: `make bench`.

N = 10⁴, p = 6, p* = 3, squares. On CPUs: the reduced chain (100 runs) and the direct engine (10
runs) against a NumPy loop and, where torch is installed, an eager PyTorch loop, per run·step;
the chain's cost from N = 10³ to 10⁸. On a GPU: the chain with 10⁵ runs. Ceilings of the machine
(copying memory, drawing normal numbers, multiplying matrices) are measured in the same run, and
what the engines reach of them is printed; both work in cache, so that bytes may exceed what
memory gives. `--all` adds peak memory over 10⁵ and 10⁷ steps and a figure at a paper's size.
"""

import importlib.util
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from foundation import ETA, P_STAR, N, P, numpy_loop, seconds

import learndyn as ld
from learndyn.numerics.random import Source, key_of_run
from learndyn.runtime.cores import cores
from learndyn.studies import registry
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.theory import Refused

CPU = jax.default_backend() == "cpu"


def rate(work, amount: float, *arguments) -> float:
    """Amount a second where every core (or the one other device) repeats a compiled work."""
    threads = cores() if CPU else 1

    def call(_) -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(work(*arguments))

    call(0)
    with ThreadPoolExecutor(threads) as pool:
        took = min(seconds(lambda: list(pool.map(call, range(threads)))) for _ in range(3))
    return threads * amount / took


def ceilings() -> dict[str, float]:
    """Bytes, normal numbers and operations a second that the machine reaches."""
    again = lambda count, body: jax.jit(lambda x: jax.lax.fori_loop(0, count, body, x))
    size, n, numbers = (2**24, 1000, 2**15) if CPU else (2**28, 8000, 2**24)
    big = jnp.ones(size, jnp.float32)
    found = {"bytes": rate(again(20, lambda i, x: x + 1), 40 * big.nbytes, big)}
    for name in ("float32", "float64"):
        draw = lambda i, x: x + Source(key_of_run(0, 0), i).normal(x.shape, x.dtype)
        product = lambda i, A: A @ A / n
        x, A = jnp.zeros(numbers, name), jnp.ones((n, n), name)
        found[f"normals {name}"] = rate(again(200, draw), 200 * numbers, x)
        found[f"flops {name}"] = rate(again(20, product), 40 * n**3, A)
    for what, value in found.items():
        print(f"ceiling, {what} a second: {value:.2e}")
    return found


def torch_loop(start: ld.Start, steps: int) -> None:
    """The straightforward eager loop: one example a step, float32."""
    import torch

    torch.manual_seed(0)
    W, B = (torch.tensor(w, dtype=torch.float32) for w in (start.weights, start.teacher))
    root = W.shape[1] ** 0.5
    with torch.no_grad():
        for _ in range(steps):
            x = torch.randn(W.shape[1])
            h, u = W @ x / root, B @ x / root
            F = 4 * ETA / P * ((u**2).mean() - (h**2).mean()) * h
            W += torch.outer(F, x) / root


def prepared(method: str, size: int, runs: int) -> Callable[[int], xr.Dataset]:
    """A compiled simulation, as a function of the number of steps."""
    system = quadratic_system(P, P_STAR, ETA, size)
    start = ld.start(system, key=1)
    go = lambda steps: ld.simulate(system, [0, steps / size], start=start, runs=runs, method=method)
    go(1)
    return go


def per_run_step(method: str, size: int, runs: int, steps: int) -> float:
    go = prepared(method, size, runs)
    return min(seconds(lambda: go(steps)) for _ in range(3)) / (runs * steps)


def loops(start: ld.Start) -> dict[str, float]:
    found = {"NumPy loop": seconds(lambda: numpy_loop(start, 2000)) / 2000}
    if importlib.util.find_spec("torch"):
        torch_loop(start, 10)
        found["eager PyTorch loop"] = seconds(lambda: torch_loop(start, 2000)) / 2000
    else:
        print("eager PyTorch loop: torch is not installed")
    for name, each in found.items():
        print(f"{name}, N = {N}: {each * 1e6:.1f} µs a step")
    return found


def direct_engine(limits: dict[str, float], others: dict[str, float]) -> None:
    each = per_run_step("direct", N, 10, 2000)
    print(f"direct engine, N = {N}, 10 runs: {each * 1e6:.1f} µs a run·step")
    for name, other in others.items():
        print(f"  against the {name}: {other / each:.1f}×")
    moved = 4 * N * (2 * P + P + P_STAR + 2)  # weights read twice and written, teacher, input
    print(f"  bytes: {moved / each / limits['bytes']:.0%} of the ceiling", end="; ")
    print(f"normal numbers: {N / each / limits['normals float32']:.0%}", end="; ")
    print(f"operations: {4 * N * (P + P_STAR) / each / limits['flops float32']:.1%}")


def reduced_engine(
    limits: dict[str, float], others: dict[str, float], runs: int, steps: int
) -> None:
    each = per_run_step("reduced", N, runs, steps)
    print(f"reduced chain, N = {N}, {runs} runs: {each * 1e6:.4f} µs a run·step", end=", ")
    print(f"{1 / each:.2e} run·steps a second")
    for name, other in others.items():
        print(f"  against the {name}: {other / each:.0f}×")
    chain = ld.theory_of(quadratic_system(P, P_STAR, ETA, N)).chain()
    assert not isinstance(chain, Refused)
    drawn = chain.normals + 2 * len(chain.degrees)  # a chi-square: a normal and a uniform number
    held = 8 * (3 * chain.normals + P * (P + P_STAR) * 3)  # numbers written and read, state
    share = drawn / each / limits["normals float64"]
    print(f"  normal numbers: {share:.0%} of the ceiling", end="; ")
    print(f"bytes: {held / each / limits['bytes']:.0%}", end="; ")
    print(f"operations: {chain.operations / each / limits['flops float64']:.1%}")


def cost_against_size(runs: int, steps: int) -> None:
    go = {size: prepared("reduced", size, runs) for size in (10**3, 10**4, 10**6, 10**8)}
    # In turns, so that what else the machine does falls on all of them.
    times = [{size: seconds(lambda f=f: f(steps)) for size, f in go.items()} for _ in range(4)]
    best = {size: min(each[size] for each in times) for size in go}
    for size, f in go.items():
        end, ratio = f(steps), best[size] / best[10**3]
        moved = float(np.max(np.abs(end.R[:, 1] - end.R[:, 0])))
        print(f"reduced chain, N = {size:.0e}: {ratio:.2f} of the cost at 10³, R moved {moved:.1e}")


def memory() -> None:
    go, peaks = prepared("reduced", N, 8), []
    for steps in (10**5, 10**7):
        go(steps)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"peak memory after 10⁵ steps {peaks[0]:.0f} MiB, after 10⁷ steps {peaks[1]:.0f} MiB")


def paper_figure() -> None:
    study = registry.find("bocchi2026escape/fig1")
    took = seconds(lambda: study.compute(study.PRESETS["paper"], lambda f: None))
    print(f"bocchi2026escape/fig1, paper preset: {took:.0f} s")


def main() -> None:
    print(f"device: {jax.devices()[0].device_kind}")
    with jax.enable_x64(True):
        limits = ceilings()
    if CPU:
        others = loops(ld.start(quadratic_system(P, P_STAR, ETA, N), key=1))
        direct_engine(limits, others)
        reduced_engine(limits, others, runs=100, steps=50_000)
        cost_against_size(runs=100, steps=20_000)
        if "--all" in sys.argv:
            memory()
            paper_figure()
    else:
        reduced_engine(limits, {}, runs=100_000, steps=2000)
        cost_against_size(runs=100_000, steps=1000)


if __name__ == "__main__":
    main()
