"""Which arrays of weights make up a layer, read off the traced network.

A layer is an array that multiplies data (as a matrix, a convolution kernel or entry by entry),
together with its biases, the arrays that are added to this product. Between the product and a bias
there may be factors, moves of entries and sums with other data, but nothing else. Layers that share
an array are one layer. An array that is used in any other way (an embedding, weights inside a loop)
is a layer by itself. How the weights are nested does not matter: (w1, w2) and
{"w1", "b1", "w2", "b2"} are two layers each.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from learndyn.runtime.jaxprs import bind
from learndyn.runtime.types import Array, Weights
from learndyn.tangent.sites import MOVES, of_one_example

# Primitives by what they do with an array; derivatives of LINEAR ones do not depend on its value.
PRODUCTS = {"dot_general", "conv_general_dilated", "mul"}
SUMS = {"add", "add_any", "sub"}
SCALES = {"mul", "div"}
LINEAR = MOVES | SUMS | SCALES | {"convert_element_type", "neg", "tap"}
Linear = Callable[[Array], Array]


class Bias(NamedTuple):
    """An array that is added to one product, and used nowhere else.

    Attributes:
        product: index of the product's equation in the traced network.
        on_product: bias → the array that would have the same effect if added to the product itself.
    """

    product: int
    on_product: Linear


class Layers(NamedTuple):
    """The arrays of a network, by their index among the leaves of the weights.

    Attributes:
        groups: the arrays of each layer.
        operands: array that multiplies data → derivative of the product's operand by this array.
        biases: array → the product that it is added to.
    """

    groups: list[list[int]]
    operands: dict[int, Linear]
    biases: dict[int, Bias]


class _Value(NamedTuple):
    """What a variable of the traced network is.

    Attributes:
        kind: "constant"; "array", a function of one array of weights; "product" of an array and
            data, perhaps scaled, moved and summed with something else; or "data".
        leaf: index of the array.
        slope: derivative of this value by the array, or by the product; None if the derivative is
            not constant. For a constant it is a function that returns the constant.
        product: index of the product's equation.
        alone: whether the product enters the network through this value alone.
    """

    kind: str
    leaf: int = -1
    slope: Linear | None = None
    product: int = -1
    alone: bool = True


DATA = _Value("data")


def layers_of(apply: Callable[[Weights, Array], Array], weights: Weights, x: Array) -> Layers:
    """The layers of a network.

    Args:
        apply: (weights, x) → outputs of a batch.
        weights: a pytree of arrays.
        x: inputs, (examples, …), of which only the shape matters.

    Returns:
        The layers, in the order of their first arrays.
    """
    return _Reader(of_one_example(apply, weights, x), len(jax.tree.leaves(weights))).layers()


class _Reader:
    """Goes through the equations once, and records what each variable is."""

    def __init__(self, closed: Any, count: int):
        self.equations, jaxpr = closed.jaxpr.eqns, closed.jaxpr
        self.values = {v: _constant(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}
        for leaf, variable in enumerate(jaxpr.invars[:count]):
            self.values[variable] = _Value("array", leaf, lambda array: array)
        used = [v for equation in self.equations for v in equation.invars] + jaxpr.outvars
        self.uses = collections.Counter(v for v in used if not isinstance(v, core.Literal))
        self.layer = list(range(count))  # of each array; biases join the layer of their product
        self.operands: dict[int, Linear] = {}
        # Every use of an array: how it is added to a product, or None for any other use.
        self.added: dict[int, list[Bias | None]] = {leaf: [] for leaf in range(count)}

    def layers(self) -> Layers:
        for index, equation in enumerate(self.equations):
            value = self._value(index, equation)
            if len(equation.outvars) == 1:
                self.values[equation.outvars[0]] = value
        groups: dict[int, list[int]] = {}
        for leaf, layer in enumerate(self.layer):
            groups.setdefault(layer, []).append(leaf)
        # An array that is used twice is no bias of a single product.
        once = {leaf: uses[0] for leaf, uses in self.added.items() if len(uses) == 1}
        biases = {leaf: bias for leaf, bias in once.items() if bias is not None}
        return Layers(list(groups.values()), self.operands, biases)

    def _value(self, index: int, equation: Any) -> _Value:
        """What the result of an equation is."""
        name, parts = equation.primitive.name, [self._part(v) for v in equation.invars]
        kinds = sorted(part.kind for part in parts if part.kind != "constant")
        first = {part.kind: i for i, part in reversed(list(enumerate(parts)))}
        arrays = {part.leaf for part in parts if part.kind == "array"}
        if not kinds:
            return _Value("constant", slope=lambda _: _bound(equation, parts, None))
        if set(kinds) == {"array"} and len(arrays) == 1:  # still a function of one array alone
            slope = _slope(equation, parts, first["array"]) if len(kinds) == 1 else None
            return parts[first["array"]]._replace(slope=slope)
        if name in SUMS and kinds == ["array", "product"]:
            return self._sum(equation, parts, first["array"], first["product"])
        for leaf in arrays:  # from here on, no array is used as a bias
            self.added[leaf].append(None)
        if name in PRODUCTS and kinds in (["array", "data"], ["array", "product"]):
            (leaf,), operand = arrays, parts[first["array"]].slope
            self.operands |= {} if operand is None else {leaf: operand}
            return _Value("product", leaf, lambda product: product, index)
        if kinds == ["product"] or (name in SUMS | SCALES and kinds == ["data", "product"]):
            along = first["product"]
            slope = _slope(equation, parts, along)
            return parts[along]._replace(slope=slope) if _is_linear(equation, along) else DATA
        return DATA

    def _part(self, variable: Any) -> _Value:
        if isinstance(variable, core.Literal):
            return _constant(variable.val)
        value = self.values.get(variable, DATA)
        return value._replace(alone=value.alone and self.uses[variable] == 1)

    def _sum(self, equation: Any, parts: list[_Value], array: int, product: int) -> _Value:
        """The sum of a product and a bias, which joins the layer."""
        bias, of = parts[array], parts[product]
        old, new = self.layer[bias.leaf], self.layer[of.leaf]
        self.layer = [new if layer == old else layer for layer in self.layer]
        of_bias, slope = (_slope(equation, parts, along) for along in (array, product))
        like = self.equations[of.product].outvars[0].aval
        as_bias = None
        # If the product also acts elsewhere, or was broadcast, a bias cannot be moved onto it.
        if of_bias and slope and of.alone and equation.outvars[0].aval.size == like.size:
            as_bias = Bias(of.product, _on_product(of_bias, slope, like))
        self.added[bias.leaf].append(as_bias)
        return of._replace(slope=slope)


def _constant(value: Any) -> _Value:
    return _Value("constant", slope=lambda _: value)


def _bound(equation: Any, parts: list[_Value], value: Any) -> Any:
    # Linear equations map derivatives as they map values, so that evaluating them is enough.
    return bind(equation, [part.slope(value) for part in parts])[0]  # pyright: ignore


def _slope(equation: Any, parts: list[_Value], along: int) -> Linear | None:
    """The derivative of an equation's result by the array or product behind one operand."""
    if not _is_linear(equation, along):
        return None
    if equation.primitive.name in SUMS:  # the other term has no part in the derivative
        other = equation.invars[1 - along].aval
        zero = _constant(np.zeros(other.shape, other.dtype))
        parts = [part if i == along else zero for i, part in enumerate(parts)]
    if any(part.slope is None for part in parts):
        return None
    return lambda value: _bound(equation, parts, value)


def _is_linear(equation: Any, along: int) -> bool:
    name = equation.primitive.name
    return name in LINEAR and not (name == "div" and along == 1)  # not linear in a divisor


def _on_product(bias: Linear, product: Linear, like: Any) -> Linear:
    """Bias → the array that has the same effect when it is added to the product.

    Between the product and the bias, entries are moved and multiplied by factors s. The inverse of
    this map is its transpose, divided by s².
    """

    def moved_back(array: Array) -> Array:
        ones, pull = jax.vjp(product, jnp.ones(like.shape, like.dtype))
        # `ones` is s itself, and pulled back it is s²; multiplying by ones broadcasts the bias.
        return pull(bias(array).astype(ones.dtype) * jnp.ones_like(ones))[0] / pull(ones)[0]

    return moved_back
