"""A step of node perturbation against one of SGD, as ratios measured in one run: `make bench`.

The networks of hiratani2022perturbation: 784-800-10 at batch 1000 and 21-800-7 at batch 100, relu,
biases, float32, on random data of that shape; the limit of small noise and a finite one. Steps are
those of the direct engine, drawing of examples and noise included; all rules take turns, and the
best of several rounds counts.
"""

import numpy as np

import learndyn as ld

CASES = {"784-800-10": ([784, 800, 10], 1000, 20), "21-800-7": ([21, 800, 7], 100, 1000)}
ROUNDS = 5


def rules(batch: int) -> dict[str, ld.rules.AbstractRule]:
    noisy = lambda **options: ld.NodePerturbation(1e-5, batch=batch, **options)
    return {
        "SGD": ld.SGD(1e-5, batch=batch),
        "limit of small noise": noisy(),
        "sigma 3e-4": noisy(sigma=3e-4),
        "limit, one draw for all examples": noisy(shared=True),
        "limit, four perturbations": noisy(perturbations=4),
    }


def times(widths: list[int], batch: int, steps: int) -> dict[str, float]:
    """Seconds a step by rule."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4 * batch, widths[0])).astype(np.float32)
    data = ld.Dataset(x, rng.standard_normal((4 * batch, widths[-1])).astype(np.float32))
    network = ld.MLP(widths, "relu", parameterisation="standard", bias=True)
    systems = {name: ld.System(data, network, rule) for name, rule in rules(batch).items()}
    found = dict.fromkeys(systems, np.inf)
    for _ in range(ROUNDS):
        for name, system in systems.items():
            record = ld.simulate(system, [steps], key=1)
            found[name] = min(found[name], 1 / record.attrs["steps_per_second"])
    return found


def main() -> None:
    for name, (widths, batch, steps) in CASES.items():
        found = times(widths, batch, steps)
        print(f"{name}, batch {batch}: SGD {found['SGD'] * 1e3:.2f} ms a step")
        for rule, took in found.items():
            print(f"  {rule}: {took / found['SGD']:.2f}×")


if __name__ == "__main__":
    main()
