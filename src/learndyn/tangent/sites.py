"""Where the weights of a network enter it affinely, found in its jaxpr.

An array of weights belongs to a dense layer or a convolution if it is used only once, in a product
with something else; before that it may be transposed, reshaped or scaled. Its gradient for one
example is then a product of the layer's inputs and the gradient at its node, and need not be
formed. All other arrays (biases, tied weights, weights inside a loop) have no site.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from learndyn.runtime.jax_versions import struct
from learndyn.runtime.jaxprs import inlined
from learndyn.runtime.types import Array, Weights

# Operations that only move the entries of an array.
MOVES = {"transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "rev", "copy"}


class Site(NamedTuple):
    """One use of an array of weights.

    Attributes:
        equation: index of the equation, in the inlined jaxpr.
        operand: which of its operands is the array.
        factor: the number by which the array was multiplied before.
    """

    equation: int
    operand: int
    factor: float

    def inputs(self, arguments: list[Any]) -> Any:
        """The other operand: the layer's inputs, or the tokens that are looked up."""
        return arguments[1 - self.operand]


def of_one_example(apply: Callable[[Weights, Array], Array], weights: Weights, x: Array) -> Any:
    """The jaxpr of the outputs of one example of a batch x, (outputs,), with calls inlined.

    Its inputs are the arrays of weights, and then the example.
    """
    leaves, structure = jax.tree.flatten(weights)

    def single(*arguments: Array) -> Array:
        *arrays, example = arguments
        return apply(jax.tree.unflatten(structure, arrays), example[None])[0].reshape(-1)

    return inlined(single, *leaves, struct(x.shape[1:], x.dtype))


def affine_sites(jaxpr: Any, leaves: int, *, lookups: bool = False) -> dict[int, Site]:
    """The sites of those arrays that have one.

    Args:
        jaxpr: inlined, closed; its first inputs are the arrays of weights.
        leaves: their number.
        lookups: whether tables whose rows are looked up have one, too.

    Returns:
        Index of the array → its only site.
    """
    origin = {v: (i, 1.0) for i, v in enumerate(jaxpr.jaxpr.invars[:leaves])}
    uses: dict[int, list[Site | None]] = {i: [] for i in range(leaves)}
    for index, equation in enumerate(jaxpr.jaxpr.eqns):
        held = [(j, v) for j, v in enumerate(equation.invars) if _known(v, origin)]
        for operand, variable in held:
            leaf, factor = origin[variable]
            change = _moved(equation, operand)
            if change is not None:
                origin[equation.outvars[0]] = leaf, factor * change
            else:
                site = Site(index, operand, factor)
                known = is_product(equation, operand) or (lookups and is_lookup(equation, operand))
                uses[leaf].append(site if known else None)
    for variable in jaxpr.jaxpr.outvars:  # weights that are outputs themselves
        if _known(variable, origin):
            uses[origin[variable][0]].append(None)
    only = {leaf: each[0] for leaf, each in uses.items() if len(each) == 1}
    return {leaf: site for leaf, site in only.items() if site is not None}


def _known(variable: Any, origin: dict[Any, Any]) -> bool:
    return not isinstance(variable, core.Literal) and variable in origin


def _moved(equation: Any, operand: int) -> float | None:
    """The factor by which an equation scales an array that it moves; None for other equations."""
    name = equation.primitive.name
    before, after = equation.invars[operand].aval, equation.outvars[0].aval
    if name in MOVES and len(equation.invars) == 1:
        return 1.0 if before.size == after.size else None  # a broadcast would use entries twice
    if name == "convert_element_type":
        return 1.0 if before.dtype == after.dtype else None
    if name == "neg":
        return -1.0
    if name == "mul" or (name == "div" and operand == 0):
        other = equation.invars[1 - operand]
        if isinstance(other, core.Literal) and np.ndim(other.val) == 0:
            return float(other.val) if name == "mul" else 1 / float(other.val)
    return None


def is_product(equation: Any, operand: int) -> bool:
    """Whether an equation is a dense layer or a convolution with weights at an operand."""
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        return params["dimension_numbers"][1] == ((), ())  # no batch dimensions
    groups = ("feature_group_count", "batch_group_count")
    return name == "conv_general_dilated" and operand == 1 and all(params[g] == 1 for g in groups)


def is_lookup(equation: Any, operand: int) -> bool:
    """Whether an equation takes rows of a table at an operand, as an embedding does."""
    if equation.primitive.name != "gather" or operand != 0:
        return False
    numbers, table = equation.params["dimension_numbers"], equation.invars[0].aval
    whole = table.ndim == 2 and tuple(equation.params["slice_sizes"]) == (1, table.shape[1])
    axes, ndim = numbers.offset_dims, equation.outvars[0].aval.ndim
    last = axes == tuple(range(ndim - len(axes), ndim))  # of which all but the last have length 1
    # A second index can only be 0, since slices are whole rows.
    return whole and last and numbers.start_index_map in ((0,), (0, 1))
