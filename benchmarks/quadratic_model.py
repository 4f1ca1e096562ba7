"""The closed map of quadratic models against training them: `make bench`.

10⁵ rates and starts: each for 100 steps of `advance`, and each followed until it has converged or
diverged (`follow`). Then a NumPy loop that trains the quadratic model of a relu network of width
1000 on one example (Eq. 3.10, frozen gates), and the direct engine on `ld.quadratic`. Costs are of
a step of one start, float64; ratios are of one run of this file. What is asked: seconds, and at
least 1000× the loop.
"""

from typing import Any

import jax
import numpy as np
from foundation import seconds

import learndyn as ld
from learndyn.runtime.precision import compiled_in_float64
from learndyn.theory.quadratic_model.catapult import follow
from learndyn.theory.quadratic_model.closed_map import advance

COUNT, WIDTH, D, STEPS, MOST = 100_000, 1000, 10, 2000, 2000


def starts() -> Any:
    """r, λ, c, a and η of the starts."""
    rng = np.random.default_rng(0)
    v, m = rng.uniform(0.2, 5, COUNT), 10 ** rng.uniform(1, 5, COUNT)
    r, y = rng.standard_normal(COUNT), rng.choice([0.0, 1.0], COUNT)
    return r, np.ones(COUNT), 1 / m, y, v


@compiled_in_float64
def several(r: Any, kernel: Any, c: Any, a: Any, eta: Any) -> Any:
    """The state after a hundred steps."""
    step = lambda _, now: jax.vmap(advance)(now[0], now[1], c, a, eta)
    return jax.lax.fori_loop(0, 100, step, (r, kernel))


def map_costs() -> dict[str, float]:
    """Seconds a step of one start, in a fixed number and until the end."""
    given = starts()
    several(*given)
    fixed = min(seconds(lambda: several(*given)) for _ in range(3))
    taken, whole = (
        int(follow(*given, most=MOST).steps.sum()),
        seconds(lambda: follow(*given, most=MOST)),
    )
    print(f"advance: {COUNT} rates and starts, 100 steps each, in {fixed:.2f} s")
    print(f"follow: {COUNT} rates and starts, {taken:.2g} steps in all, in {whole:.2f} s")
    return {"advance": fixed / (100 * COUNT), "follow": whole / taken}


def loop_cost() -> float:
    """Seconds a step of the loop one would write."""
    rng = np.random.default_rng(0)
    U, v, x = rng.standard_normal((WIDTH, D)), rng.standard_normal(WIDTH), np.ones(D)
    gate, scale, eta = (U @ x > 0).astype(float), 1 / np.sqrt(WIDTH * D), 1.0

    def train() -> None:
        nonlocal U, v
        for _ in range(STEPS):
            h = gate * (U @ x)
            r = scale * (v @ h) - 1.0
            U, v = U - eta * r * scale * np.outer(v * gate, x), v - eta * r * scale * h

    return seconds(train) / STEPS


def engine_cost() -> float:
    """Seconds a step of the direct engine, what is compiled left out."""
    network = ld.MLP([D, WIDTH, 1], "relu")
    model = ld.Model(network, network.sample(np.random.default_rng(0), (D,)))
    data = ld.Dataset(np.ones((1, D)), np.ones(1), loss_scale=0.5)
    system = ld.System(data, ld.quadratic(model), ld.GradientDescent(1.0))
    start = ld.start(system, weights=model.weights)
    record = ld.simulate(system, [STEPS], start=start, method="direct", dtype="float64")
    return 1 / record.attrs["steps_per_second"]


def main() -> None:
    of_map = map_costs()
    for name, cost in (("NumPy loop", loop_cost()), ("direct engine", engine_cost())):
        ratios = ", ".join(f"{cost / each:.0f}× {how}" for how, each in of_map.items())
        print(f"{name}, width {WIDTH}: {cost * 1e6:.1f} µs a step, {ratios}")


if __name__ == "__main__":
    main()
