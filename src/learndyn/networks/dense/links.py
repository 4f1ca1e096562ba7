"""Layers in which only some links exist."""

import jax.numpy as jnp
import numpy as np

from learndyn.networks.parts import affine
from learndyn.networks.parts.affine import Affine
from learndyn.runtime.types import Array

Links = np.ndarray  # (neurons, sources) of bools: which links exist


def dropped_links(rng: np.random.Generator, links: Links, dropped: Array) -> Links:
    """The links that are left after each is dropped, independently, with a probability.

    A neuron that lost all its links is drawn again, so that every neuron keeps at least one. (The
    published App. A.1 of zhu2024linearity is wrong: its Bernoulli numbers would keep a link with
    the probability that is meant for dropping it.)

    Args:
        rng: source of random numbers.
        links: (neurons, sources), with at least one link in every row.
        dropped: the probability.

    Returns:
        As `links`.
    """
    kept, rows = np.zeros_like(links), np.arange(len(links))
    while len(rows):
        # The precision is part of what a seed means: in float64 other links would be dropped.
        drawn = rng.random((len(rows), links.shape[1]), dtype=np.float32)
        kept[rows] = links[rows] & (drawn >= dropped)
        rows = rows[~kept[rows].any(axis=1)]
    return kept


def layer(
    name: str, weights: Affine, x: Array, links: Array | None, parameterisation: str
) -> Array:
    """The pre-activation of a layer with some links, Eq. 2.2 of zhu2024linearity.

    In the parameterisation "ntk" each neuron has its own factor 1/√in(v), with in(v) the number of
    its links. Entries of the weight without a link have no effect and no gradient. If `links` is
    None, all links exist and the layer is dense.
    """
    if links is None:
        return affine.dense(name, weights, x, parameterisation)
    # Masked in the product, and not only when drawn: an update may change entries without a link.
    h = x @ jnp.where(links, weights.weight, 0).T
    if parameterisation == "ntk":
        h = h / jnp.sqrt(jnp.sum(links, axis=1)).astype(h.dtype)
    return affine.node(name, h, weights.bias)


def draw(
    rng: np.random.Generator, shape: tuple[int, int], links: Links | None,
    parameterisation: str, gain: Array, bias: bool,
) -> Affine:  # fmt: skip
    """A layer from its initialisation, as in `affine.draw`; zero where there is no link."""
    there = np.ones(shape, bool) if links is None else links
    degrees, outputs = there.sum(axis=1, keepdims=True), shape[0] if bias else None
    drawn = affine.draw(rng, shape, degrees, parameterisation, gain, outputs)
    return drawn._replace(weight=there * drawn.weight)
