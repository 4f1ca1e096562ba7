"""Watches a training loop of equinox and optax: `ld.Recorder` in your own loop.

    python examples/recorder_equinox.py

A network learns a product of two of ten inputs. While it does, its critical learning rate, its
sharpness and how well its gradients point along the two inputs are recorded.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import learndyn as ld

EXAMPLES, DIM, STEPS, RATE = 200, 10, 200, 0.02


def main(path: str | None = None):
    """Trains, prints what the probes saw, and returns the record."""
    target = ld.Polynomial([(1.0, {0: 1, 1: 1})], DIM)
    truth = ld.probes.egop(target)  # exact: the inputs are Gaussian
    x = jnp.asarray(np.random.default_rng(0).normal(size=(EXAMPLES, DIM)), jnp.float32)
    y = target(x)
    module = eqx.nn.MLP(DIM, "scalar", 64, 2, key=jax.random.key(0))
    optimiser = optax.adam(RATE)
    state = optimiser.init(eqx.filter(module, eqx.is_array))

    @eqx.filter_jit
    def step(module, state):
        mean = lambda module: jnp.mean((jax.vmap(module)(x) - y) ** 2)
        loss, gradient = eqx.filter_value_and_grad(mean)(module)
        change, state = optimiser.update(gradient, state)
        return eqx.apply_updates(module, change), state, loss

    few, loss_of = x[:50], ld.SquaredLoss(1.0)
    probes = {
        "critical_rate": lambda m: ld.probes.critical_learning_rate(m, few, loss=loss_of),
        "sharpness": lambda m: ld.probes.hessian_top(
            m, few, y[:50], loss=loss_of, tolerance=1e-3
        ).values[0],
        "alignment": lambda m: ld.probes.alignment(ld.probes.agop(m, x), truth),
    }
    with ld.Recorder(probes, every=50, path=path) as recorder:
        for i in range(STEPS + 1):
            trained, state, loss = step(module, state)
            recorder(i, module, loss=loss)
            module = trained
    record = recorder.record()
    for name in ("loss", *probes):
        values = record[name].isel(time=slice(None, None, 50)).values[0]
        print(f"{name}: {', '.join(f'{v:.3g}' for v in values)}")
    print(f"probes took {record.attrs['probe_share']:.0%} of the time")
    return record


if __name__ == "__main__":
    main()
