"""Training on digits against the loop that one would write with optax: `make bench`.

A fully connected and a convolutional network of ours and one of equinox, cross-entropy, Adam,
shuffled passes of batches of 32 over scikit-learn's digits. Both roads train from the same
weights for as many epochs and are measured once, at the end. Printed are test accuracies over
five keys and the ratio of wall times, compilation left out and included.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import learndyn as ld
from learndyn.problems.readers.files import digits

EPOCHS, BATCH, RATE, TRAINED, KEYS = 30, 32, 1e-3, 1437, 5
OPTIONS: dict[str, Any] = {"parameterisation": "standard", "bias": True, "gain": 2**0.5}


class Convolutional(eqx.Module):
    """Two convolutions and a dense layer, as an equinox user would write them."""

    layers: list

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        first = eqx.nn.Conv2d(1, 16, 3, padding=1, key=keys[0])
        second = eqx.nn.Conv2d(16, 32, 3, padding=1, key=keys[1])
        self.layers = [first, second, eqx.nn.Linear(2048, 10, key=keys[2])]

    def __call__(self, x):
        first, second, last = self.layers
        h = jax.nn.relu(second(jax.nn.relu(first(x.transpose(2, 0, 1)))))
        return last(h.reshape(-1))


def dense(key):
    return eqx.nn.MLP(64, 10, 128, 1, key=key)


def mapped(module, x):
    return jax.vmap(module)(x)


def networks() -> dict[str, tuple[ld.Dataset, Any]]:
    found = digits()
    images = np.moveaxis(found.pixels, 1, -1) / 16
    data = lambda x: ld.Dataset(
        x[:TRAINED], found.labels[:TRAINED], loss=ld.CrossEntropy(),
        test=(x[TRAINED:], found.labels[TRAINED:]),
    )  # fmt: skip
    flat, square = data(images.reshape(-1, 64).astype(np.float32)), data(images.astype(np.float32))
    return {
        "MLP": (flat, ld.MLP([64, 128, 10], "relu", **OPTIONS)),
        "CNN": (square, ld.CNN([16, 32], 3, 10, "relu", **OPTIONS)),
        "eqx.nn.MLP": (flat, ld.Network(dense, mapped)),
        "eqx.nn.Conv2d": (square, ld.Network(Convolutional, mapped)),
    }


def plain_loop(problem: ld.Dataset, network: Any) -> Callable[[Any, int], float]:
    """What one would write: a compiled step, shuffled in NumPy. Returns the test accuracy."""
    optimiser = optax.adam(RATE)
    x, y = problem.x, problem.y
    assert problem.test is not None
    test_x, test_y = problem.test

    def loss(weights, x, y):
        outputs = network(weights, x)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs, y))

    @jax.jit
    def step(weights, state, x, y):
        updates, state = optimiser.update(jax.grad(loss)(weights, x, y), state, weights)
        return optax.apply_updates(weights, updates), state

    @jax.jit
    def right(weights):
        return jnp.mean(jnp.argmax(network(weights, test_x), axis=1) == test_y)

    def train(weights, key: int) -> float:
        weights = jax.tree.map(lambda w: jnp.asarray(w, jnp.float32), weights)
        state, rng = optimiser.init(weights), np.random.default_rng(key)
        for _ in range(EPOCHS):
            order = rng.permutation(len(x))
            for i in range(len(x) // BATCH):
                batch = order[i * BATCH : (i + 1) * BATCH]
                weights, state = step(weights, state, x[batch], y[batch])
        return float(right(weights))

    return train


def ours(problem: ld.Dataset, network: Any) -> Callable[[Any, int], float]:
    system = ld.System(problem, network, ld.Optax(optax.adam(RATE), batch=BATCH, sampling="epochs"))
    steps = EPOCHS * (len(problem.x) // BATCH)

    def train(weights, key: int) -> float:
        start = ld.start(system, weights=weights)
        return float(ld.simulate(system, [steps], start=start, key=key)["test_accuracy"][0, 0])

    return train


def timed(train: Callable[[Any, int], float], weights: Any, key: int) -> tuple[float, float]:
    begin = time.perf_counter()
    accuracy = train(weights, key)
    return accuracy, time.perf_counter() - begin


def compare(name: str, problem: ld.Dataset, network: Any) -> None:
    roads = {"learndyn": ours(problem, network), "optax loop": plain_loop(problem, network)}
    shape = problem.input_shape
    starts = [network.sample(np.random.default_rng(key), shape) for key in range(KEYS)]
    first = {road: timed(train, starts[0], 0)[1] for road, train in roads.items()}
    # In turns, so that what else the machine does falls on both.
    found = [
        {road: timed(train, w, k) for road, train in roads.items()} for k, w in enumerate(starts)
    ]
    took = {road: min(each[road][1] for each in found) for road in roads}
    said = {road: np.array([each[road][0] for each in found]) for road in roads}
    for road, values in said.items():
        print(f"{name}, {road}: test accuracy {values.mean():.3f} ± {values.std(ddof=1):.3f}")
    ratio, cold = (t["learndyn"] / t["optax loop"] for t in (took, first))
    print(f"{name}: {ratio:.2f} of the optax loop's time, {cold:.2f} with compilation")


def every_step(steps: int = 10_000) -> None:
    """What recording every step costs a small network, over recording the last alone."""
    x = np.random.default_rng(0).normal(size=(64, 10))
    system = ld.System(
        ld.Dataset(x, x[:, :1]), ld.MLP([10, 64, 1], "relu"), ld.GradientDescent(0.01)
    )
    asked = {"last": np.array([steps]), "every": np.arange(steps + 1)}
    took = {name: [] for name in asked}
    for _ in range(4):  # in turns; the first call of each compiles
        for name, times in asked.items():
            clock = time.perf_counter()
            ld.simulate(system, times)
            took[name].append(time.perf_counter() - clock)
    ratio = min(took["every"][1:]) / min(took["last"][1:])
    print(f"MLP 10-64-1: every one of {steps} steps recorded takes {ratio:.2f} of the last alone")


if __name__ == "__main__":
    every_step()
    for name, (problem, network) in networks().items():
        compare(name, problem, network)
