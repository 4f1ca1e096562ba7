"""When the rule of a compiled simulation becomes unstable, with its preconditioner held fixed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from learndyn.models import Model
from learndyn.probes.optimisers import optax
from learndyn.rules import Optax
from learndyn.rules.curvature import AbstractCurvatureRule
from learndyn.rules.perceptron import AbstractPerceptronRule
from learndyn.rules.watching import Step
from learndyn.runtime.types import Array

OTHERS = (AbstractCurvatureRule, AbstractPerceptronRule)  # rules that do not follow the gradient
SAME = 1e-4  # relative, of rates and scales that are learned in single precision


class Threshold(NamedTuple):
    """η_crit = numerator/(λ_max(R H R) + shift).

    Attributes:
        rate: η of the next step; 1 if weights have different rates, whose common factor is then
            η_crit; NaN if the rule has no rate, or one that cannot be read.
        numerator: 2 for gradient descent.
        shift: from decay.
        root: R, one number per weight, in the structure of the weights; None for 1.
    """

    rate: Array
    numerator: Any = 2.0
    shift: Any = 0.0
    root: Any = None


def threshold_of(model: Model, step: Step) -> Threshold:
    """The threshold of the rule of a step; the formulas are those of `response.py`."""
    if isinstance(step.rule, Optax):
        return _of_optax(model, step.rule, step.memory[1])
    if isinstance(getattr(step.rule, "rule", step.rule), OTHERS):
        return Threshold(jnp.asarray(step.rate), jnp.nan)
    law, inertia = step.rule.step_law, step.rule.inertia
    beta = 0.0 if inertia is None else inertia.momentum
    scale = 1 / (1 + beta) if inertia is not None else 1.0
    if inertia is not None and inertia.nesterov:
        scale = scale * (1 + 2 * beta)
    decays = law is not None and law.decay is not None
    decay = law.decay / model.network.rate_dim(model.weights) if decays else 0.0  # pyright: ignore
    # Decay is a share of the weights per step, whatever the rate: η S λ + S decay = 2.
    return Threshold(jnp.asarray(step.rate), (2 - scale * decay) / scale)


def _of_optax(model: Model, rule: Optax, state: Any) -> Threshold:
    nothing = Threshold(jnp.asarray(jnp.nan), jnp.nan)
    if rule.estimator is not None or optax.unreadable(state):
        return nothing
    given = rule.transformation, state, model.weights
    found, rates = optax.learned(*given), optax.rates(*given)
    low, high = jnp.min(jnp.where(rates == 0, jnp.inf, rates)), jnp.max(rates)
    rate = jnp.where(high - low <= SAME * jnp.abs(high), high, 1.0)
    rate = jnp.where(found.coupled, jnp.nan, rate)  # it is not what multiplies the gradient
    scale, shift = found.coefficients.scale_and_shift()
    bad = found.several | found.coupled | jnp.any(scale < 0) | optax.without_step(state)
    numerator = jnp.where(bad, jnp.nan, 2 * rate)
    if optax.has_second_moments(state):
        unravel = ravel_pytree(model.weights)[1]
        root = jnp.sqrt(jnp.maximum(scale, 0)).astype(model.dtype)
        # Decay that differs between weights: at least the smallest.
        return Threshold(rate, numerator, jnp.min(shift), unravel(root))
    # Without a preconditioner all weights have one scale, or else this is not known.
    least, most = jnp.min(scale), jnp.max(scale)
    numerator = jnp.where(most - least <= SAME * most, numerator / most, jnp.nan)
    return Threshold(rate, numerator, jnp.min(shift) / most)


def moved_by(model: Model, root: Any) -> Any:
    """(change, x) → outputs at the weights + R change."""

    def apply(change: Any, x: Array) -> Array:
        add = lambda w, r, c: jnp.asarray(w) + r * c
        return model.network(jax.tree.map(add, model.weights, root, change), x)

    return apply
