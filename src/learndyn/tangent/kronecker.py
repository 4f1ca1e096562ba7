"""Kronecker factors of the blocks of H = mean JᵀJ, J = ∂outputs/∂weights, layer by layer.

The row of a dense layer is Σ_t ã_t δ_tᵀ over its positions t (one in a plain network, the pixels of
a convolution). ã are the inputs, with a constant appended if the layer has a bias, and δ the
derivatives of an output by the layer's nodes. The block is approximated by A ⊗ G with A = mean ã ãᵀ
over examples and positions, G = mean over examples of Σ δ δᵀ over outputs and positions (Martens &
Grosse 2015; for convolutions Grosse & Martens 2016, who treat derivatives at different positions as
uncorrelated).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.types import Array, Weights
from learndyn.tangent.gauss_newton import summed
from learndyn.tangent.grouping import Bias, Linear, layers_of
from learndyn.tangent.jacobian import Convolved, Dense, node_rows, rows_of
from learndyn.tangent.kernel import block_of
from learndyn.tangent.sites import Site, affine_sites, of_one_example


class Layer(NamedTuple):
    """A dense layer or a convolution.

    Attributes:
        weight: index of its array among the leaves of the weights.
        bias: index of its bias; None for a layer without a bias.
        constant: the number that is appended to the inputs for the bias.
        operand: array → operand of the product, divided by the constant factor between them.
        shape: of the operand.
        order: the operand's axes, those of the inputs first.
        inputs: their number, without the constant.
    """

    weight: int
    bias: int | None
    constant: float
    operand: Linear
    shape: tuple[int, ...]
    order: tuple[int, ...]
    inputs: int

    def matrix(self, leaves: list[Array]) -> Array:
        """The layer's arrays as a matrix (inputs, nodes), the bias as the last row."""
        matrix = self.operand(leaves[self.weight]).transpose(self.order).reshape(self.inputs, -1)
        if self.bias is None:
            return matrix
        return jnp.concatenate([matrix, leaves[self.bias].reshape(1, -1)])

    def arrays(self, matrix: Array, leaves: list[Array]) -> dict[int, Array]:
        """The inverse of `matrix`: the layer's arrays, by their indices."""
        whole = matrix[: self.inputs].reshape([self.shape[axis] for axis in self.order])
        # The operand has the same entries in another order: the transpose is the inverse.
        _, pull = jax.vjp(self.operand, leaves[self.weight])
        changes = {self.weight: pull(whole.transpose(np.argsort(self.order)))[0]}
        if self.bias is not None:
            changes[self.bias] = matrix[self.inputs].reshape(leaves[self.bias].shape)
        return changes

    def moments(self, rows: Dense | Convolved) -> tuple[Array, Array]:
        """A and G, summed over the examples of some rows."""
        rows = rows.unfolded() if isinstance(rows, Convolved) else rows
        a, at_nodes = rows.inputs, rows.at_nodes
        if self.bias is not None:
            constant = jnp.full((*a.shape[:2], 1), self.constant, a.dtype)
            a = jnp.concatenate([a, constant], axis=2)
        A = jnp.tensordot(a, a, ((0, 1), (0, 1))) / a.shape[1]
        return A, jnp.tensordot(at_nodes, at_nodes, ((0, 1, 2), (0, 1, 2)))


class Factors(NamedTuple):
    """The approximation of H.

    Attributes:
        layers: dense layers and convolutions.
        rest: indices of the other arrays, by layer.
        moments: (A, G) of each of `layers`, and H itself of each of `rest`.
    """

    layers: list[Layer]
    rest: list[list[int]]
    moments: tuple[list[tuple[Array, Array]], list[Array]]


def kronecker_factors(
    apply: Callable[[Weights, Array], Array],
    weights: Weights,
    x: Array,
    *,
    block: int | None = None,
) -> Factors:
    """The Kronecker factors of a network's layers.

    Args:
        apply: (weights, x) → outputs of a batch, of which each depends on its own input alone.
        weights: a pytree of arrays of floats.
        x: inputs, (n, …).
        block: how many numbers the rows of one block of examples may take; None for `block_of` the
            device.

    Returns:
        The factors. Arrays that belong to no dense layer or convolution have the exact block of
        their layer.
    """
    jaxpr, count = of_one_example(apply, weights, x), len(jax.tree.leaves(weights))
    sites, known = affine_sites(jaxpr, count), layers_of(apply, weights, x)
    layers = [_layer(jaxpr, leaf, site, known.operands[leaf], known.biases)
              for leaf, site in sites.items()]  # fmt: skip
    taken = {leaf for layer in layers for leaf in (layer.weight, layer.bias)}
    rest = [[leaf for leaf in group if leaf not in taken] for group in known.groups]
    rest = [group for group in rest if group]
    order = [leaf for leaf in range(count) if leaf not in sites] + list(sites)  # as in `rows_of`

    def moments(part: Array) -> Any:
        rows = dict(zip(order, rows_of(apply, weights, part), strict=True))
        plain = [jnp.concatenate([rows[leaf].rows for leaf in group], axis=2) for group in rest]
        blocks = [jnp.tensordot(J, J, ((0, 1), (0, 1))) for J in plain]
        return [layer.moments(rows[layer.weight]) for layer in layers], blocks

    held = jax.eval_shape(lambda x: rows_of(apply, weights, x), x)
    each = sum(leaf.size for leaf in jax.tree.leaves(held)) // len(x)
    block = block_of(x.dtype.itemsize) if block is None else block
    total = summed(moments, x, max(1, block // max(1, each)))
    return Factors(layers, rest, jax.tree.map(lambda sum: sum / len(x), total))


def _layer(jaxpr: Any, leaf: int, site: Site, operand: Linear, biases: dict[int, Bias]) -> Layer:
    equation = jaxpr.jaxpr.eqns[site.equation]
    shape = equation.invars[site.operand].aval.shape
    if equation.primitive.name == "dot_general":
        inputs = equation.params["dimension_numbers"][0][site.operand]
        order = (*inputs, *(axis for axis in range(len(shape)) if axis not in inputs))
    else:
        spec = equation.params["dimension_numbers"].rhs_spec
        inputs, order = spec[1:], (*spec[2:], *spec[1::-1])
    number = math.prod(shape[axis] for axis in inputs)
    # One bias enters the factors. A second one, or one of another form, gets its exact block.
    own = [i for i, bias in biases.items() if bias.product == site.equation]
    constants = {i: c for i in own if (c := _constant(jaxpr, site, biases[i], i)) is not None}
    bias, constant = next(iter(constants.items()), (None, 0.0))
    moved = lambda array: operand(array) / site.factor
    return Layer(leaf, bias, constant / site.factor, moved, shape, order, number)


def _constant(jaxpr: Any, site: Site, bias: Bias, leaf: int) -> float | None:
    """The c for which a bias b adds c b to the nodes at each position; None if there is none."""
    equation, like = jaxpr.jaxpr.eqns[site.equation], jaxpr.jaxpr.invars[leaf].aval
    inputs = site.inputs(equation.invars).aval
    with jax.ensure_compile_time_eval():
        # Entries that all differ show whether the bias is also permuted or repeated.
        ramp = jnp.arange(1, like.size + 1, dtype=like.dtype)
        on_product = bias.on_product(ramp.reshape(like.shape))
        if isinstance(on_product, jax.core.Tracer):  # a factor between them is itself traced
            return None
        rows = node_rows(equation, site, jnp.zeros(inputs.shape, inputs.dtype), on_product[None])
        rows = jax.tree.map(lambda leaf: leaf[None], rows)
        rows = rows.unfolded() if isinstance(rows, Convolved) else rows
        added = np.asarray(rows.at_nodes)[0, 0]
    constant = float(added[0, 0])
    fits = added.shape[1] == like.size and np.allclose(added, constant * np.asarray(ramp))
    return constant if fits else None
