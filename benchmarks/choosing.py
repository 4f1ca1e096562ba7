"""Both engines over systems, sizes and runs, and which `method="auto"` takes: `make bench`.

A line a case: microseconds until all runs have taken a step, in the direct and in the reduced
engine, what is compiled left out; what `simulation/costs.py` says of both; which one is taken, and
its time over that of the faster one. The last line counts how often that exceeds 2. With `--first`
also what a first call takes, compiled anew.
"""

import sys
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np
from foundation import seconds

import learndyn as ld
from learndyn.simulation import costs
from learndyn.simulation.choosing import choose
from learndyn.theory import Refused
from learndyn.theory.chain import AbstractChain
from learndyn.theory.registry import clock_of

SIZES, RUNS, ENGINES = (64, 256, 1024, 4096), (1, 10, 64), ("direct", "reduced")
LONG = 0.05  # seconds of a measurement, at least


def committee(activation: str, K: int, M: int, levels: int = 1, batch: int = 1):
    """Size N → a system of equal levels, λ_l ∝ l^(-1.25)."""

    def at(N: int) -> ld.System:
        inputs = ld.Spectrum(np.arange(1, levels + 1) ** -1.25, np.full(levels, N // levels))
        problem = ld.TeacherStudent(inputs, ld.Committee(M, activation, scale=1 / M))
        student = ld.Committee(K, activation, scale=1 / K)
        return ld.System(problem, student, ld.SGD(0.01, batch=batch))

    return at


def perturbed(inputs: int, outputs: int):
    """Hidden width → two linear layers under node perturbation."""

    def at(hidden: int) -> ld.System:
        A = np.random.default_rng(0).standard_normal((outputs, inputs)) / np.sqrt(inputs)
        problem = ld.TeacherStudent(ld.Isotropic(inputs), ld.LinearTeacher(outputs, A))
        student = ld.DeepLinear([inputs, hidden, outputs])
        return ld.System(problem, student, ld.NodePerturbation(1e-5))

    return at


SYSTEMS = {
    "squares, 3 units": committee("quadratic", 3, 2),
    "erf, 4 units, 10 levels": committee("erf", 4, 2, levels=10),
    "erf, 4 units, 60 levels": committee("erf", 4, 2, levels=60),
    "linear, 2 units": committee("linear", 2, 1),
    "squares, 3 units, batch 8": committee("quadratic", 3, 2, batch=8),
    "two layers, 10 inputs, perturbed": perturbed(10, 3),
}


def a_step(system: ld.System, method: str, runs: int) -> float:
    """Seconds until all runs have taken a step: of a long call, less those of a short one."""
    start, unit = ld.start(system, key=1), 1 / clock_of(system, ld.theory_of(system)).steps

    def taking(steps: int) -> float:
        given = {"start": start, "runs": runs, "method": method}
        return seconds(lambda: ld.simulate(system, [steps * unit], **given))

    least, steps = min(taking(1) for _ in range(3)), 64
    while (took := taking(steps) - least) < max(LONG, least):
        steps *= 4 if took < LONG / 8 else 2
    return min(took, taking(steps) - least) / steps


def cases() -> Iterator[tuple[str, int, int, ld.System, AbstractChain]]:
    for name, at in SYSTEMS.items():
        for size in SIZES:
            system = at(size)
            chain = ld.theory_of(system).chain()
            if not isinstance(chain, Refused):
                yield from ((name, size, runs, system, chain) for runs in RUNS)


def table(measured: Callable[[ld.System, str, int], float]) -> None:
    ratios = []
    print(f"{'':34}{'N':>5} {'runs':>4} {'direct':>8} {'reduced':>8} {'said':>13}  auto")
    for name, size, runs, system, chain in cases():
        took = {method: measured(system, method, runs) for method in ENGINES}
        taken, _ = choose(system, ld.theory_of(system), "auto", {}, runs)
        ratios.append(took[taken] / min(took.values()))
        said = "/".join(
            f"{1e6 * s:.1f}" for s in costs.seconds_per_step(system, chain, runs).values()
        )
        each = " ".join(f"{took[method] * 1e6:8.2f}" for method in ENGINES)
        line = f"{name:34}{size:5} {runs:4} {each} {said:>13}  {taken:7} {ratios[-1]:5.2f}"
        print(line, flush=True)
    worst, missed = max(ratios), sum(ratio > 2 for ratio in ratios)
    print(
        f"{len(ratios)} cases: the engine taken is {worst:.2f} times the faster one at worst,",
        end=" ",
    )
    print(f"more than 2 times in {missed}")


def first_calls() -> None:
    jax.config.update("jax_enable_compilation_cache", False)
    for name, at in SYSTEMS.items():
        system, took = at(256), {}
        start = ld.start(system, key=1)
        for method in ENGINES:
            jax.clear_caches()
            clock = time.process_time()
            ld.simulate(system, [1.0], start=start, method=method)
            took[method] = time.process_time() - clock
        print(f"{name}: first call " + ", ".join(f"{m} {t:.1f} s" for m, t in took.items()))


def main() -> None:
    table(a_step)
    if "--first" in sys.argv:
        first_calls()


if __name__ == "__main__":
    main()
