"""What probes cost, in units of what training costs: `make bench`.

A fully connected network 3072-1024×4-1 and a convolutional one, of equinox and in float32, with
n = 128 examples. All ratios are taken in one process, in turns, each the best of several; the
eigenproblems depend on OpenBLAS's threads, which are fixed to one and printed.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import learndyn as ld
from learndyn.probes.arguments import MeanLoss

EXAMPLES, BATCH, TURNS = 128, 32, 7
LOSS = ld.SquaredLoss(0.5)


class Convolutional(eqx.Module):
    """Three convolutions of 32 channels on images of 32 × 32, and a dense layer."""

    layers: list

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        pairs = zip((3, 32, 32), (32, 32, 32), keys, strict=False)
        convolutions = [eqx.nn.Conv2d(a, b, 3, padding=1, key=k) for a, b, k in pairs]
        self.layers = [*convolutions, eqx.nn.Linear(32 * 32 * 32, "scalar", key=keys[3])]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x.reshape(-1))


def best(calls: dict[str, Callable[[], Any]], turns: int = TURNS) -> dict[str, float]:
    """Seconds of each call, in turns, so that what else the machine does falls on all."""
    took = {name: [] for name in calls}
    for turn in range(turns + 1):  # the first compiles
        for name, call in calls.items():
            clock = time.perf_counter()
            jax.block_until_ready(call())
            took[name].append(np.inf if turn == 0 else time.perf_counter() - clock)
    return {name: min(each) for name, each in took.items()}


def inputs(shape: tuple[int, ...], examples: int) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    return draw(examples, *shape), draw(examples)


def gradient(module: Any, x: jax.Array, y: jax.Array) -> Callable[[], Any]:
    """What one would write: the gradient of the mean loss on all examples."""
    mean = lambda module: jnp.mean((jax.vmap(module)(x) - y) ** 2) / 2
    compiled = eqx.filter_jit(eqx.filter_grad(mean))
    return lambda: jax.tree.leaves(eqx.filter(compiled(module), eqx.is_array))


def training_step(module: Any, x: jax.Array, y: jax.Array) -> Callable[[], Any]:
    """A step of gradient descent."""
    mean = lambda module, x, y: jnp.mean((jax.vmap(module)(x) - y) ** 2) / 2

    @eqx.filter_jit
    def step(module, x, y):
        return eqx.apply_updates(
            module, jax.tree.map(lambda g: -1e-3 * g, eqx.filter_grad(mean)(module, x, y))
        )

    return lambda: jax.tree.leaves(eqx.filter(step(module, x, y), eqx.is_array))


def temporaries(module: Any, x: jax.Array) -> float:
    """MB that XLA takes beside inputs and outputs."""
    model = ld.as_model(module)
    arrays, rest = eqx.partition(model, eqx.is_array)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda a, x: eqx.combine(a, rest).kernel(x)).lower(arrays, x).compile()
    found = compiled.memory_analysis()
    assert found is not None
    return found.temp_size_in_bytes / 1e6


def kernels(name: str, module: Any, shape: tuple[int, ...], activations: int, limit: float) -> None:
    """The tangent kernel against the gradient. `activations`: numbers an example."""
    x, y = inputs(shape, EXAMPLES)
    took = best({"kernel": lambda: ld.probes.ntk(module, x), "gradient": gradient(module, x, y)})
    ratio, held = took["kernel"] / took["gradient"], 4e-6 * EXAMPLES * activations
    print(f"{name}: ntk takes {ratio:.2f} of a gradient ({took['gradient']:.3f} s); limit {limit}")
    share = temporaries(module, x) / held
    print(f"{name}: temporaries {share:.2f} of the activations ({held:.1f} MB)")


def rates(module: Any) -> None:
    """Critical learning rates of the dense network."""
    x, y = inputs((3072,), BATCH)
    probe = lambda: float(ld.probes.critical_learning_rate(module, x))
    took = best({"probe": probe, "step": training_step(module, x, y)})
    print(
        f"MLP: η_crit of the kernel takes {took['probe'] / took['step']:.2f} of a step; limit 1.5"
    )
    x, y = inputs((3072,), EXAMPLES)
    model, mean = ld.as_model(module).placed(), MeanLoss(LOSS, y)
    v = jnp.ones(model.size, jnp.float32)
    took = best({
        "exact": lambda: float(ld.probes.critical_learning_rate(module, x, y, exact=True)),
        "product": lambda: model.hessian_product(mean, x, v),
    }, turns=3)  # fmt: skip
    ratio = took["exact"] / took["product"]
    print(f"MLP: the exact η_crit takes {ratio:.1f} Hessian products; limit 15")


def eigenproblem() -> None:
    A = np.random.default_rng(0).normal(size=(EXAMPLES, EXAMPLES))
    took = best({"eigenvalues": lambda: np.linalg.eigvalsh(A + A.T)})["eigenvalues"]
    threads = os.environ["OPENBLAS_NUM_THREADS"]
    print(f"OpenBLAS threads: {threads}; eigenvalues of {EXAMPLES} rows in {1e3 * took:.1f} ms")


if __name__ == "__main__":
    eigenproblem()
    mlp = eqx.nn.MLP(3072, "scalar", 1024, 4, key=jax.random.key(0))
    kernels("MLP", mlp, (3072,), 3072 + 4 * 1024, 1.0)
    rates(mlp)
    kernels("CNN", Convolutional(jax.random.key(0)), (3, 32, 32), 3 * 32**2 + 3 * 32**3, 2.0)
