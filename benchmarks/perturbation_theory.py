"""The chain of two linear layers against the loop one would write: µs a step, and what L_h costs.

100-10⁴-10 under node perturbation: a NumPy loop over the weights, the direct engine, and the
reduced chain, all one run in float64 (the direct engine in float32); then the chain's cost from
L_h = 10³ to 10⁷; then the direct engine against the bytes that it must move, at the bandwidth
that a copy reaches. Ratios are of one run of this file.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from foundation import seconds

import learndyn as ld
from learndyn.theory import Refused

L_X, L_H, L_Y, ETA = 100, 10_000, 10, 5e-5


def system(hidden: int) -> ld.System:
    A = np.random.default_rng(0).standard_normal((L_Y, L_X)) * np.sqrt(2 / (L_X + L_Y))
    problem = ld.TeacherStudent(ld.Isotropic(L_X), ld.LinearTeacher(L_Y, A))
    rate = ETA * (L_H / hidden) ** (1 / 3)
    return ld.System(problem, ld.DeepLinear([L_X, hidden, L_Y]), ld.NodePerturbation(rate))


def numpy_loop(start: ld.Start, steps: int) -> None:
    """Eqs. 47 and 48, one example a step."""
    rng = np.random.default_rng(0)
    (W_1, W_2), A = (w.copy() for w in start.weights), start.teacher
    for _ in range(steps):
        x, xi_1, xi_2 = (rng.standard_normal(size) for size in (L_X, L_H, L_Y))
        h = W_1 @ x
        kappa = ETA * ((W_2 @ xi_1 + xi_2) @ (W_2 @ h - A @ x))
        W_2 -= np.outer(kappa * xi_2, h)
        W_1 -= np.outer(kappa * xi_1, x)


def prepared(method: str, hidden: int) -> Callable[[int], float]:
    """Seconds a step of a compiled simulation, as a function of the number of steps."""
    it = system(hidden)
    start = ld.start(it, key=1)
    go = lambda steps: ld.simulate(it, [0, steps], start=start, method=method)
    go(64)
    return lambda steps: seconds(lambda: go(steps)) / steps


def against_the_loop() -> None:
    start = ld.start(system(L_H), key=1)
    loop = min(seconds(lambda: numpy_loop(start, 200)) for _ in range(3)) / 200
    print(f"NumPy loop, {L_X}-{L_H}-{L_Y}: {loop * 1e6:.0f} µs a step")
    for method, steps in (("direct", 500), ("reduced", 10_000)):
        run = prepared(method, L_H)
        each = min(run(steps) for _ in range(3))
        print(f"{method}: {each * 1e6:.1f} µs a step, {loop / each:.0f}× the loop's speed")


def against_the_width() -> None:
    widths = [10**power for power in range(3, 8)]
    runs = {width: prepared("reduced", width) for width in widths}
    # In turns, so that what else the machine does falls on all of them.
    turns = [{width: run(5000) for width, run in runs.items()} for _ in range(6)]
    cost = {width: min(turn[width] for turn in turns) for width in widths}
    for width, each in cost.items():
        chain = ld.theory_of(system(width)).chain()
        assert not isinstance(chain, Refused)
        ratio = each / cost[widths[0]]
        print(f"L_h = {width:.0e}: {each * 1e6:.1f} µs a step, {ratio:.2f} of 10³", end=", ")
        print(f"{chain.operations:.2g} operations")


def bandwidth(size: int = 2**28) -> float:
    """Bytes a second of adding one to `size` float32 numbers: each is read and written."""
    add = jax.jit(lambda a: a + 1)
    a = add(jnp.zeros(size, jnp.float32)).block_until_ready()
    return 8 * size / min(seconds(lambda: add(a).block_until_ready()) for _ in range(5))


def against_the_bytes(runs: int, steps: int) -> None:
    """A step reads the weights for the outputs, then reads and writes them for the update."""
    it = system(L_H)
    start = ld.start(it, key=1)
    go = lambda steps: ld.simulate(it, [0, steps], start=start, runs=runs, method="direct")
    go(steps), go(2 * steps)
    # The difference of two lengths: what is paid once (starting, recording) drops out.
    once, twice = (min(seconds(lambda n=n: go(n)) for _ in range(3)) for n in (steps, 2 * steps))
    each = (twice - once) / steps
    moved = 3 * 4 * (L_X + L_Y) * L_H * runs
    least = moved / bandwidth()
    print(
        f"direct on {jax.devices()[0].device_kind}, {runs} runs: {each * 1e6:.0f} µs a step",
        end=", ",
    )
    print(f"{each / least:.1f}× the {moved / 1e6:.0f} MB it moves at the bandwidth of a copy")


if __name__ == "__main__":
    against_the_loop()
    against_the_width()
    on_cpu = jax.default_backend() == "cpu"
    against_the_bytes(*((10, 100) if on_cpu else (100, 2000)))
