"""Layers of which only some links exist, and the dropping of links."""

import jax.numpy as jnp
import numpy as np

from learndyn.networks import affine
from learndyn.networks.affine import Affine
from learndyn.numerics.types import Array

Links = np.ndarray  # (neurons, sources) of bools: which links exist


def dropped_links(rng: np.random.Generator, links: Links, dropped: Array) -> Links:
    """The links that are left where each is dropped, by itself, with a probability.

    A neuron that would lose all its links is drawn anew: every neuron keeps one at least.
    (App. A.1 of zhu2024linearity prints Bernoulli numbers, which would keep a link with the
    probability that is meant for dropping it.)

    Args:
        rng: source of random numbers.
        links: (neurons, sources), with a link in every row.
        dropped: the probability.

    Returns:
        As `links`.
    """
    kept, rows = np.zeros_like(links), np.arange(len(links))
    while len(rows):
        drawn = rng.random((len(rows), links.shape[1]), dtype=np.float32)
        kept[rows] = links[rows] & (drawn >= dropped)
        rows = rows[~kept[rows].any(axis=1)]
    return kept


def layer(
    name: str, weights: Affine, x: Array, links: Array | None, parameterisation: str
) -> Array:
    """The pre-activation of a layer with some links, Eq. 2.2 of zhu2024linearity.

    In the parameterisation "ntk" each neuron has its own factor 1/√in(v), of the links that it
    has. Entries of the weight without a link play no part, and have no gradient. Without `links`
    all of them exist, and the layer is a dense one.
    """
    if links is None:
        return affine.dense(name, weights, x, parameterisation)
    h = x @ jnp.where(links, weights.weight, 0).T
    if parameterisation == "ntk":
        h = h / jnp.sqrt(jnp.sum(links, axis=1)).astype(h.dtype)
    return affine.node(name, h, weights.bias)


def draw(
    rng: np.random.Generator, shape: tuple[int, int], links: Links | None,
    parameterisation: str, gain: Array, bias: bool,
) -> Affine:  # fmt: skip
    """Such a layer from its initialisation, as `affine.draw`; zero where there is no link."""
    there = np.ones(shape, bool) if links is None else links
    degrees, outputs = there.sum(axis=1, keepdims=True), shape[0] if bias else None
    drawn = affine.draw(rng, shape, degrees, parameterisation, gain, outputs)
    return drawn._replace(weight=there * drawn.weight)
