"""Single steps and their size: the largest stable learning rate, and K-FAC beside NGD-d."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import learndyn as ld
from learndyn.runtime.precision import in_float64
from learndyn.studies.curvature2020linear._model import RULES
from learndyn.tangent.kronecker import kronecker_factors

RATES = 1e-10, 1e2  # tried from the largest down, in the units given
APART = 10.0  # factor between rates that are tried
BISECTIONS = 11  # of the logarithm of the rate, between the first stable and the one before
UNSTABLE = 2.0  # times the loss of the start, above which a run counts as unstable
ROUNDED = 1e-30  # fraction of the loss of the start, below which it is rounding


@in_float64
def largest_rates(
    system: ld.System, target: np.ndarray, starts: list[Any], steps: int, units: np.ndarray
) -> Any:
    """The largest stable rate of each start, and the fraction of the loss left at half of it.

    Args:
        system: network, rule and problem.
        target: the map to be learned.
        starts: weights of the networks.
        steps: that must not raise the loss above `UNSTABLE` times the first.
        units: of the rates that are tried, one per start.

    Returns:
        Rates and fractions, one per start.
    """
    rule: Any = system.rule
    velocity = rule.velocity(system.problem, system.network, target)
    loss = system.problem.population_loss(system.network, target)
    assert loss is not None

    def trained(rate, begin):
        def step(_, now):
            weights, worst = now
            moved = jax.tree.map(lambda w, v: w + rate * v, weights, velocity(weights))
            worst = jnp.maximum(worst, loss(moved))
            # What has become unstable stays where it is: no eigenvalues of infinite matrices.
            return jax.tree.map(lambda m, w: jnp.where(worst <= most, m, w), moved, weights), worst

        first = loss(begin)
        most = UNSTABLE * first
        weights, worst = jax.lax.fori_loop(0, steps, step, (begin, first))
        return worst <= most, jnp.maximum(loss(weights) / first, ROUNDED)

    def one(begin, unit):
        stable = lambda log: trained(jnp.exp(log), begin)[0]

        def halve(_, ends):
            middle = ends.mean()
            return jnp.where(stable(middle), ends.at[0].set(middle), ends.at[1].set(middle))

        last, first = jnp.log(jnp.asarray(RATES) * unit)
        down = jnp.log(APART)
        on = lambda log: (log >= last) & ~stable(log)
        low = jax.lax.while_loop(on, lambda log: log - down, first)
        ends = jnp.stack([low, jnp.minimum(low + down, first)])
        low = jax.lax.fori_loop(0, BISECTIONS, halve, ends)[0]
        return jnp.exp(low), trained(jnp.exp(low) / 2, begin)[1]

    stacked = tuple(jnp.stack(layers) for layers in zip(*starts, strict=True))
    return jax.jit(jax.vmap(one))(stacked, jnp.asarray(units))


@in_float64
def kfac_step(
    widths: tuple[int, ...], examples: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Steps of K-FAC and of NGD-d at equal rates on random data.

    Args:
        widths: of the network, from the input on.
        examples: of the data.
        rng: of data and weights.

    Returns:
        Both steps, and by how much rounding may make them differ, relative to their norm.
    """
    x = rng.standard_normal((examples, widths[0]))
    data = ld.Dataset(x, rng.standard_normal((examples, widths[-1])))
    system = ld.System(data, ld.DeepLinear(widths), RULES["NGD-d"](1.0))
    weights = system.network.sample(rng, widths[:1])
    moved = ld.update(system, weights)
    restricted = [after - before for after, before in zip(moved, weights, strict=True)]
    one = lambda w, x: system.network(w, x[None])[0]
    transform = ld.KFAC(1 / len(weights)).transformation(one)
    errors = system.network(weights, x) - data.y
    kfac, _ = transform.update(
        None, transform.init(weights), weights, inputs=x, output_gradient=errors
    )
    factors, _ = kronecker_factors(system.network, weights, x).moments
    conditions = np.array([[_condition(np.asarray(side)) for side in pair] for pair in factors])
    flat = lambda layers: np.concatenate([np.ravel(layer) for layer in layers])
    rounding = float(conditions.max(0).prod()) * max(widths) * np.finfo(float).eps
    return flat(kfac), flat(restricted), rounding


def _condition(factor: np.ndarray) -> float:
    """The condition number of the part that NumPy's pseudo-inverse does not count as null."""
    values = np.linalg.eigvalsh(factor)
    return float(values[-1] / values[values > 1e-15 * len(values) * values[-1]][0])
