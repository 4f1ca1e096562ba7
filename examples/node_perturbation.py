"""Networks of your own learn by node perturbation: `ld.tap` marks where the noise goes.

    python examples/node_perturbation.py

`tap(name, h)` gives back h. It marks the pre-activation as a node, in plain JAX functions and in
modules of equinox, under `vmap` and `jit`. All weights have to stand before some node. Here a fully
connected and a convolutional module learn scikit-learn's digits (`pip install "learndyn[data]"`),
with Adam on the estimate of the gradient.
"""

import equinox as eqx
import jax
import numpy as np
import optax

import learndyn as ld
from learndyn.problems.readers.files import digits

STEPS = 300


class Dense(eqx.Module):
    """64-32-10, relu."""

    hidden: eqx.nn.Linear
    output: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key)
        self.hidden = eqx.nn.Linear(64, 32, key=keys[0])
        self.output = eqx.nn.Linear(32, 10, key=keys[1])

    def __call__(self, x):
        h = ld.tap("hidden", self.hidden(x.reshape(-1)))
        return ld.tap("output", self.output(jax.nn.relu(h)))


class Convolutional(eqx.Module):
    """Eight 3 × 3 filters with stride 2 on 8 × 8 pixels, then a dense layer."""

    filters: eqx.nn.Conv2d
    output: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key)
        self.filters = eqx.nn.Conv2d(1, 8, 3, stride=2, padding=1, key=keys[0])
        self.output = eqx.nn.Linear(128, 10, key=keys[1])

    def __call__(self, x):
        h = ld.tap("filters", self.filters(x.transpose(2, 0, 1)))
        return ld.tap("output", self.output(jax.nn.relu(h).reshape(-1)))


def mapped(module, x):
    return jax.vmap(module)(x)


def main() -> dict[str, float]:
    """Trains both, and prints and returns their accuracies on the test set."""
    images = digits()
    x, y = np.moveaxis(images.pixels, 1, -1).astype("float32") / 16, images.labels
    data = ld.Dataset(x[:1500], y[:1500], loss=ld.CrossEntropy(), test=(x[1500:], y[1500:]))
    noisy = ld.NodePerturbation(1.0, batch=50)  # Adam's learning rate takes the place of its own
    rule = ld.Optax(optax.adam(1e-2), sampling="epochs", estimator=noisy)
    systems = {
        "dense": ld.System(data, ld.Network(Dense, mapped), rule),
        "convolutional": ld.System(data, ld.Network(Convolutional, mapped), rule),
    }
    found = {}
    for name, system in systems.items():
        record = ld.simulate(system, [0, STEPS], key=1)
        found[name] = float(record["test_accuracy"][0, -1])
        print(f"{name}: {found[name]:.2f} of the test set after {STEPS} steps")
    return found


if __name__ == "__main__":
    main()
