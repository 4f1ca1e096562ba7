"""A training step of a network's Taylor twins against one of the network itself: `make bench`.

Full-batch gradient descent in float32: a deep and a wide fully connected network, a half-dropped
DenseNet and a convolutional one. Steps are those of the direct engine; the three take turns, and
the best of several rounds counts. What is asked: f_quad at most 5×.
"""

from typing import Any

import numpy as np

import learndyn as ld

CASES: dict[str, tuple[Any, tuple[int, ...], int, int]] = {
    "MLP 3072-1024x4-1, n 128": (
        ld.MLP([3072, 1024, 1024, 1024, 1024, 1], "relu"), (3072,), 128, 10,
    ),
    "MLP 784-5000-1, n 128": (ld.MLP([784, 5000, 1], "relu"), (784,), 128, 10),
    "DenseNet 256-512x2-1, half dropped, n 64": (
        ld.DenseNet([256, 512, 512, 1], "relu", dropped=0.5), (256,), 64, 200,
    ),
    "CNN 3 x 32 channels, 16 x 16, n 64": (ld.CNN([32] * 3, 3, 1, "relu"), (16, 16, 3), 64, 4),
}  # fmt: skip
ROUNDS = 5


def times(network: Any, shape: tuple[int, ...], examples: int, steps: int) -> dict[str, float]:
    """Seconds a step by model."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((examples, *shape)).astype(np.float32)
    data = ld.Dataset(x, rng.standard_normal(examples).astype(np.float32))
    model = ld.Model(network, network.sample(np.random.default_rng(1), shape))
    models = {"f": network, "f_lin": ld.linearise(model), "f_quad": ld.quadratic(model)}
    systems = {n: ld.System(data, m, ld.GradientDescent(1e-6)) for n, m in models.items()}
    starts = {n: ld.start(s, weights=model.weights) for n, s in systems.items()}
    found = dict.fromkeys(systems, np.inf)
    for _ in range(ROUNDS):
        for name, system in systems.items():
            record = ld.simulate(system, [steps], start=starts[name])
            found[name] = min(found[name], 1 / record.attrs["steps_per_second"])
    return found


def main() -> None:
    for name, case in CASES.items():
        found = times(*case)
        ratios = ", ".join(f"{n} {found[n] / found['f']:.2f}×" for n in ("f_lin", "f_quad"))
        print(f"{name}: f {found['f'] * 1e3:.2f} ms a step; {ratios}")


if __name__ == "__main__":
    main()
