"""Natural gradient on a network of equinox, through optax, beside gradient descent.

    python examples/natural_gradient_optax.py

`NaturalGradient(…).transformation(apply)` is an optax transformation: chain it, schedule it, or
take it in a loop of your own, as here. It asks for the inputs and for ∂loss/∂output beside.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import learndyn as ld
from learndyn.plotting import panels, style

STEPS = 40


@style()
def main():
    """Trains the same network twice and returns the figure and the losses."""
    x = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, (40, 1)), jnp.float32)
    y = jnp.sin(3 * x)
    module = eqx.nn.MLP(1, 1, 32, 2, jnp.tanh, key=jax.random.key(0))
    first, rest = eqx.partition(module, eqx.is_array)
    apply = lambda weights, x: eqx.combine(weights, rest)(x)
    rule = ld.NaturalGradient(0.5, damping=1e-3, damping_form="levenberg", clip=2.0)
    natural, plain = rule.transformation(apply), optax.sgd(0.1)

    @jax.jit
    def step(weights, state, natural_one):
        output, pull = jax.vjp(lambda w: jax.vmap(apply, (None, 0))(w, x), weights)
        residual = output - y  # of the loss ½ mean (y − output)²
        gradient = pull(residual / len(x))[0]
        extra = {"inputs": x, "output_gradient": residual}
        change = jax.lax.cond(
            natural_one,
            lambda: natural.update(gradient, optax.EmptyState(), weights, **extra)[0],
            lambda: plain.update(gradient, plain.init(weights))[0],
        )
        return optax.apply_updates(weights, change), state, 0.5 * jnp.mean(residual**2)

    losses = {}
    for name, natural_one in (("natural gradient", True), ("gradient descent", False)):
        weights, state, found = first, (), []
        for _ in range(STEPS):
            weights, state, loss = step(weights, state, natural_one)
            found.append(float(loss))
        losses[name] = found
        print(f"{name}: loss {found[-1]:.2e} after {STEPS} steps")
    figure, (axis,) = panels(1)
    for dashes, (name, found) in zip(("-", "--"), losses.items(), strict=True):
        axis.plot(found, dashes, label=name)
    axis.set(xlabel="step", ylabel="loss", yscale="log")
    axis.legend()
    return figure, losses


if __name__ == "__main__":
    main()[0].savefig("natural_gradient_optax.png")
