"""Hermite coefficients of functions with kinks, by Gauss-Legendre rules between the kinks."""

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian.hermite import Coefficients, Function, Rule
from learndyn.numerics.gaussian.pieces import inverse
from learndyn.numerics.gaussian.steps import lowered, rows
from learndyn.runtime.types import Array


def panel_coefficients(
    f: Function, kinks: tuple[float, ...], mean: Array, std: Array, rule: Rule
) -> Coefficients:
    """Coefficients of f with kinks, (terms, units) each.

    Those of f' and f'' follow from those of f, which includes jumps and kinks. They are 0 for a
    variable that is constant.
    """
    terms = rule.terms + 2
    x, w = np.polynomial.legendre.leggauss(max(40, terms))
    # In units of y: kinks outside the reach make panels of length 0.
    reach = jnp.full((1, *std.shape), rule.reach)
    inner = (np.array(kinks)[:, None] - mean) * inverse(std)
    edges = jnp.concatenate([-reach, jnp.clip(inner, -rule.reach, rule.reach), reach])
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    y = (middle + half * x[:, None, None]).reshape(-1, len(std))
    weights = (half * w[:, None, None]).reshape(y.shape) * jnp.exp(-(y**2) / 2) / (2 * np.pi) ** 0.5
    values = jnp.einsum("pyk,yk->pk", rows(y, terms), weights * f(mean + std * y))
    slopes = lowered(values, std)
    return Coefficients(
        values[: rule.terms], slopes[: rule.terms], lowered(slopes, std)[: rule.terms]
    )
