"""Rows of the Jacobian ∂output/∂weights, factored where the layer is affine, and their products.

For a dense layer h = W a with node gradients δ = ∂output/∂h, the row of W is Σ_t δ_t a_tᵀ over the
positions t at which the layer is applied (one in a plain network). The product of two rows is
Σ_ts (δ_t·δ'_s)(a_t·a'_s): for one position no row is ever formed. A convolution is a sum over the
pixels of its window of such layers, each on a shifted input.
"""

import abc
import itertools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.jaxprs import bind, evaluate
from learndyn.runtime.types import Array, Weights
from learndyn.tangent.sites import Site, affine_sites, of_one_example


class AbstractRows(eqx.Module):
    """The rows of all examples and outputs, restricted to one array of weights."""

    @abc.abstractmethod
    def gram(self, other: "AbstractRows") -> Array:
        """Products of all rows with all of another set, (n, k, n', k')."""

    @abc.abstractmethod
    def formed(self) -> int:
        """How many numbers `gram` forms at most per example, besides the stored ones."""


class Plain(AbstractRows):
    """The rows themselves, (examples, outputs, entries)."""

    rows: Array

    def gram(self, other: "AbstractRows") -> Array:
        assert isinstance(other, Plain)
        return jnp.tensordot(self.rows, other.rows, (2, 2))

    def formed(self) -> int:
        return 0


class Dense(AbstractRows):
    """A dense layer.

    Attributes:
        inputs: a, (examples, positions, inputs).
        at_nodes: δ, (examples, outputs of the network, positions, outputs of the layer).
    """

    inputs: Array
    at_nodes: Array

    def gram(self, other: "AbstractRows") -> Array:
        assert isinstance(other, Dense)
        if self._in_pairs(len(other.inputs)):
            inputs = jnp.tensordot(self.inputs, other.inputs, (2, 2))
            at_nodes = jnp.tensordot(self.at_nodes, other.at_nodes, (3, 3))
            if inputs.shape[1] == 1:  # one position: a product of entries, not a contraction
                return inputs[:, :, :, 0][:, :, :, None] * at_nodes[:, :, 0, :, :, 0]
            return jnp.einsum("itjs,iatjbs->iajb", inputs, at_nodes)
        return jnp.tensordot(self._rows(), other._rows(), ((2, 3), (2, 3)))

    def formed(self) -> int:
        _, k, _, m = self.at_nodes.shape
        return 0 if self._in_pairs(len(self.inputs)) else k * m * self.inputs.shape[2]

    def _rows(self) -> Array:
        return jnp.einsum("ntd,nktm->nkdm", self.inputs, self.at_nodes)

    def _in_pairs(self, others: int) -> bool:
        return pairs_are_cheaper(self.at_nodes.shape, self.inputs.shape[2], others)


def pairs_are_cheaper(at_nodes: tuple[int, ...], inputs: int, others: int) -> bool:
    """Whether products of pairs of positions need fewer operations than rows that are formed.

    Args:
        at_nodes: the shape (examples, outputs of the network, positions, outputs of the layer).
        inputs: the number of inputs of the layer.
        others: the number of examples whose rows these are multiplied with.
    """
    (n, k, t, m), d = at_nodes, inputs
    pairs = n * others * t**2 * (d + k**2 * m)
    return pairs <= k * m * d * (t * (n + others) + n * others * k)


class Looked(AbstractRows):
    """A table whose rows are looked up, as by an embedding.

    Attributes:
        tokens: numbers of the rows, (examples, positions).
        at_nodes: δ, (examples, outputs of the network, positions, entries of a row).
        rows: how many rows the table has.
    """

    tokens: Array
    at_nodes: Array
    rows: int = eqx.field(static=True)

    def gram(self, other: "AbstractRows") -> Array:
        assert isinstance(other, Looked)
        if not self._in_pairs():
            return jnp.tensordot(self._formed(), other._formed(), ((2, 3), (2, 3)))

        def one(mine: Any) -> Array:  # one example after the other: pairs of positions are many
            tokens, delta = mine
            same = (tokens[:, None, None] == other.tokens).astype(delta.dtype)
            pairs = jnp.tensordot(delta, other.at_nodes, (2, 3))
            return jnp.einsum("tjs,atjbs->ajb", same, pairs)

        return jax.lax.map(one, (self.tokens, self.at_nodes))

    def formed(self) -> int:
        _, k, t, d = self.at_nodes.shape
        return (k * t) ** 2 if self._in_pairs() else k * self.rows * d

    def _formed(self) -> Array:
        n, k, _, d = self.at_nodes.shape
        rows = jnp.zeros((n, self.rows, k, d), self.at_nodes.dtype)
        add = lambda rows, tokens, delta: rows.at[tokens].add(delta.swapaxes(0, 1))
        return jax.vmap(add)(rows, self.tokens, self.at_nodes).swapaxes(1, 2)

    def _in_pairs(self) -> bool:
        return self.tokens.shape[1] ** 2 <= self.rows


class Convolved(AbstractRows):
    """A convolution.

    Attributes:
        inputs: padded, (examples, batch, channels, *sides).
        at_nodes: (examples, outputs of the network, batch, channels, *sides).
        window: sides of the kernel.
        strides: of the window.
        dilation: of the window.
    """

    inputs: Array
    at_nodes: Array
    window: tuple[int, ...] = eqx.field(static=True)
    strides: tuple[int, ...] = eqx.field(static=True)
    dilation: tuple[int, ...] = eqx.field(static=True)

    def gram(self, other: "AbstractRows") -> Array:
        assert isinstance(other, Convolved)
        product = lambda pixel: self._layer(pixel).gram(other._layer(pixel))
        pixels = jnp.stack(jnp.meshgrid(*map(jnp.arange, self.window), indexing="ij"), -1)
        pixels = pixels.reshape(-1, len(self.window))
        zero = jnp.zeros_like(jax.eval_shape(product, pixels[0]))
        # One pixel after the other, since each needs a shifted copy of the inputs.
        return jax.lax.scan(lambda sum, pixel: (sum + product(pixel), None), zero, pixels)[0]

    def formed(self) -> int:
        first = jnp.zeros(len(self.window), int)
        layer = jax.eval_shape(lambda rows: rows._layer(first), self)
        return layer.formed() + layer.inputs.size // len(layer.inputs)

    def unfolded(self) -> Dense:
        """The dense layer whose inputs are the windows, (*window, channels) flattened."""
        layers = [self._layer(jnp.asarray(pixel)) for pixel in np.ndindex(self.window)]
        inputs = jnp.concatenate([layer.inputs for layer in layers], axis=2)
        return Dense(inputs, layers[0].at_nodes)

    def _layer(self, pixel: Array) -> Dense:
        """The dense layer of one pixel of the window."""
        n, k, _, channels = self.at_nodes.shape[:4]
        inputs = jnp.moveaxis(self._shifted(pixel), 2, -1)
        at_nodes = jnp.moveaxis(self.at_nodes, 3, -1)
        inputs = inputs.reshape(n, -1, inputs.shape[-1])
        return Dense(inputs, at_nodes.reshape(n, k, -1, channels))

    def _shifted(self, pixel: Array) -> Array:
        # The pixel is traced, so that a dynamic slice of fixed length is cut first, then strided.
        sides, kept = self.at_nodes.shape[4:], self.inputs.shape[:3]
        lengths = [(n - 1) * s + 1 for n, s in zip(sides, self.strides, strict=True)]
        starts = [jnp.zeros((), pixel.dtype)] * 3 + list(pixel * jnp.asarray(self.dilation))
        cut = jax.lax.dynamic_slice(self.inputs, starts, (*kept, *lengths))
        return cut[(slice(None),) * 3 + tuple(slice(None, None, s) for s in self.strides)]


def rows_of(
    apply: Callable[[Weights, Array], Array],
    weights: Weights,
    x: Array,
    *,
    lookups: bool = False,
) -> list[Any]:
    """The Jacobian's rows for a batch x, by one backward pass per output.

    Args:
        apply: (weights, x) → outputs of a batch, of which each depends on its own input alone.
        weights: a pytree of arrays of floats.
        x: inputs, (examples, …).
        lookups: whether tables whose rows are looked up count as affine.

    Returns:
        One `AbstractRows` per array of weights: first those that are not affine, then the affine
        ones, each in the order of the weights.
    """
    leaves = jax.tree.leaves(weights)
    jaxpr = of_one_example(apply, weights, x)
    sites = affine_sites(jaxpr, len(leaves), lookups=lookups)
    return jax.vmap(lambda x: _of_example(jaxpr, sites, leaves, x))(x)


def _of_example(jaxpr: Any, sites: dict[int, Site], leaves: list[Array], x: Array) -> list[Any]:
    plain = [leaf for leaf in range(len(leaves)) if leaf not in sites]
    at = {site.equation for site in sites.values()}
    nodes = {i: jaxpr.jaxpr.eqns[i].outvars[0].aval for i in at}
    zeros = {i: jnp.zeros(node.shape, node.dtype) for i, node in nodes.items()}
    # Adding zeros at the nodes gives the derivatives there without those of the weights.
    outputs, pull, inputs = jax.vjp(
        lambda taps, own: _run(jaxpr, leaves, dict(zip(plain, own, strict=True)), x, taps),
        zeros, [leaves[leaf] for leaf in plain], has_aux=True,
    )  # fmt: skip
    at_nodes, rows = jax.vmap(pull)(jnp.eye(outputs.size, dtype=outputs.dtype))
    all_rows: list[Any] = [Plain(row.reshape(len(row), -1)) for row in rows]
    for site in sites.values():
        equation = jaxpr.jaxpr.eqns[site.equation]
        # The product contains factor · weight, so that the weight's row has this factor too.
        scaled = site.factor * at_nodes[site.equation]
        all_rows.append(node_rows(equation, site, site.inputs(inputs[site.equation]), scaled))
    return all_rows


def node_rows(
    equation: Any, site: Site, inputs: Array, at_nodes: Array
) -> Dense | Convolved | Looked:
    """The rows of one example, without its axis, from a layer's inputs and node gradients.

    Args:
        equation: the layer's product, or lookup.
        site: where its weights enter.
        inputs: the operand that is not the weights.
        at_nodes: (outputs of the network, *shape of the product).

    Returns:
        The rows.
    """
    makers = {"dot_general": _dense, "gather": _looked}
    make = makers.get(equation.primitive.name, _convolved)
    return make(equation, site, inputs, at_nodes)


def _run(jaxpr: Any, leaves: list[Array], own: dict[int, Array], x: Array, taps: dict[int, Array]):
    """The outputs with `taps` added at nodes, and the operands of the layers."""
    index, seen = itertools.count(), {}

    def run(equation: Any, arguments: list[Any]) -> list[Any]:
        i, outcome = next(index), bind(equation, arguments)
        if i not in taps:
            return outcome
        seen[i] = arguments
        return [outcome[0] + taps[i]]

    weights = [own.get(leaf, value) for leaf, value in enumerate(leaves)]
    (outputs,) = evaluate(jaxpr, [*weights, x], run)
    return outputs, seen


def _dense(equation: Any, site: Site, inputs: Array, at_nodes: Array) -> Dense:
    contracted = equation.params["dimension_numbers"][0][1 - site.operand]
    free = [axis for axis in range(inputs.ndim) if axis not in contracted]
    inputs = inputs.transpose(*free, *contracted)
    positions, outputs = inputs.shape[: len(free)], len(at_nodes)
    if site.operand == 0:  # W @ a: the layer's outputs come before the positions
        order = range(at_nodes.ndim - len(free), at_nodes.ndim)
        at_nodes = jnp.moveaxis(at_nodes, order, range(1, 1 + len(free)))
    t = math.prod(positions)
    return Dense(inputs.reshape(t, -1), at_nodes.reshape(outputs, t, -1))


def _looked(equation: Any, site: Site, inputs: Array, at_nodes: Array) -> Looked:
    rows, d = equation.invars[site.operand].aval.shape
    # As far as indices beyond the table have a value, it is that of the nearest row.
    tokens = jnp.clip(inputs[..., 0].reshape(-1), 0, rows - 1)
    return Looked(tokens, at_nodes.reshape(len(at_nodes), -1, d), rows)


def _convolved(equation: Any, site: Site, inputs: Array, at_nodes: Array) -> Convolved:
    params, numbers = equation.params, equation.params["dimension_numbers"]
    # Specifications of any layout are brought to (batch, channels, *sides).
    inputs = inputs.transpose(numbers.lhs_spec)
    at_nodes = at_nodes.transpose(0, *(1 + axis for axis in numbers.out_spec))
    around = [(low, high, d - 1) for (low, high), d in
              zip(params["padding"], params["lhs_dilation"], strict=True)]  # fmt: skip
    padded = jax.lax.pad(inputs, jnp.zeros((), inputs.dtype), [(0, 0, 0), (0, 0, 0), *around])
    kernel = equation.invars[site.operand].aval.shape
    window = tuple(kernel[axis] for axis in numbers.rhs_spec[2:])
    return Convolved(padded, at_nodes, window, params["window_strides"], params["rhs_dilation"])
