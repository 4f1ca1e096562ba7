"""Nodes: places in a network whose values can be read, and to which something can be added.

`tap(name, h)` marks a pre-activation. It is a JAX primitive that is the identity when compiled and
under every transformation, so that it costs nothing, but it stays visible in the network's jaxpr,
which `forward` interprets. (If nodes were collected in a Python context instead, functions that are
compiled already would silently have none.)
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from learndyn.runtime.checks import a_kind, flag, function, instance, mapping, numbers
from learndyn.runtime.jaxprs import bind, called, equations, evaluate, is_call
from learndyn.runtime.types import Array

_tap = core.Primitive("tap")
_tap.def_impl(lambda h, *, name: h)
_tap.def_abstract_eval(lambda h, *, name: h)
mlir.register_lowering(_tap, lambda ctx, h, *, name: [h])
# Only values are nodes: the tangent of a node is not one.
ad.primitive_jvps[_tap] = lambda h, dh, *, name: (_tap.bind(h[0], name=name), dh[0])
# The batch axis comes first in a node, wherever `vmap` has it.
batching.primitive_batchers[_tap] = lambda h, axis, *, name: (
    _tap.bind(jnp.moveaxis(h[0], axis[0], 0), name=name),
    0,
)

Visit = Callable[[str, Array], Array]


def tap(name: str, h: Array) -> Array:
    """Marks h as the node `name` of a network; the value is h itself.

    Args:
        name: unique within the network.
        h: the node's value, by convention the pre-activation.

    Returns:
        h.

    Raises:
        ValueError: for a name that is not a string, and for anything but an array of real numbers.

    Example:
        >>> import jax.numpy as jnp
        >>> import learndyn as ld
        >>> apply = lambda w, x: jnp.tanh(ld.tap("hidden", x @ w))
        >>> out, nodes = ld.forward(apply, jnp.ones((3, 2)), jnp.ones((4, 3)))
        >>> nodes["hidden"].shape
        (4, 2)
    """
    instance("name", name, str, "a text")
    instance("h", h, (jax.Array, np.ndarray, np.generic), "an array")
    if h.dtype.kind in "cOSUMm":  # a list of what is refused, since bfloat16 has the kind "V"
        raise ValueError(f"h: got {h.dtype}; allowed is an array of real numbers")
    return _tap.bind(jnp.asarray(h), name=name)


def forward(
    apply: Callable[[Any, Array], Array],
    weights: Any,
    x: Array,
    taps: Mapping[str, Array] | None = None,
    *,
    local: bool = False,
) -> tuple[Array, dict[str, Array]]:
    """Outputs and nodes of a network, optionally with arrays added at its nodes.

    Nodes may be inside `jit`, `vmap` (where the batch axis comes first) and `checkpoint`, which is
    removed.

    Args:
        apply: (weights, x) → outputs, with calls of `tap`.
        weights: any pytree; leaves that are not arrays are passed on unchanged.
        x: a batch of inputs.
        taps: node → the array that is added to it, of the same shape; other nodes are unchanged.
        local: whether derivatives stop at nodes. Then a node has derivatives only by the weights
            between it and the nodes before it, and the outputs only by those after the last nodes.

    Returns:
        The outputs, and every node's value after the addition.

    Raises:
        ValueError: for a node that does not exist, is inside a loop, a branch or a function with a
            custom derivative, or has the name of another node.

    Example:
        >>> import jax.numpy as jnp
        >>> import learndyn as ld
        >>> apply = lambda w, x: 2 * ld.tap("node", x @ w)
        >>> outputs, nodes = ld.forward(apply, jnp.ones(3), jnp.ones((1, 3)), {"node": jnp.ones(1)})
        >>> outputs.tolist(), nodes["node"].tolist()
        ([8.0], [4.0])
    """
    function("apply", apply)
    flag("local", local)
    real = isinstance(x, jax.Array) or (isinstance(x, np.ndarray) and x.dtype.kind in "biuf")
    x = x if real else numbers("x", x)
    if np.ndim(x) == 0:
        raise ValueError("x: got one number; allowed is a batch of inputs")
    taps = {} if taps is None else dict(mapping("taps", taps, "a dict node → array, or None"))
    nodes: dict[str, Array] = {}

    def visit(name: str, h: Array) -> Array:
        if name in nodes:
            raise ValueError(f"tap: got {name!r} twice; allowed is one node of each name")
        nodes[name] = h + _fitting(name, taps[name], h) if name in taps else h
        return jax.lax.stop_gradient(nodes[name]) if local else nodes[name]

    try:
        outputs = revisit(apply, visit)(weights, x)
    except (TypeError, AttributeError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(
            f"weights: got {a_kind(weights)}, for which apply fails with x of shape {np.shape(x)} "
            f"({why}); allowed are weights and inputs of the network"
        ) from error
    unknown = [name for name in taps if name not in nodes]
    if unknown:
        have = ", ".join(map(repr, nodes)) or "none: the network has no taps"
        raise ValueError(f"taps: got {unknown[0]!r}; allowed are {have}")
    return outputs, nodes


def revisit(apply: Callable[..., Any], visit: Visit) -> Callable[..., Any]:
    """`apply` with every node replaced by visit(name, h)."""

    def visited(weights: Any, x: Array) -> Any:
        leaves, structure = jax.tree.flatten((weights, x))
        held = [isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves]

        # Only arrays are traced: functions and sizes among the weights are put back in between.
        def flat(*arrays: Array) -> Any:
            remaining = iter(arrays)
            pairs = zip(leaves, held, strict=True)
            return apply(
                *jax.tree.unflatten(structure, [next(remaining) if h else l for l, h in pairs])
            )

        arrays = [leaf for leaf, is_array in zip(leaves, held, strict=True) if is_array]
        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*arrays)
        outputs = evaluate(closed, arrays, lambda e, values: _run(e, values, visit))
        return jax.tree.unflatten(jax.tree.structure(shape), outputs)

    return visited


def _run(equation: Any, arguments: list[Any], visit: Visit) -> list[Any]:
    if equation.primitive is _tap:
        return [visit(equation.params["name"], arguments[0])]
    name = next(filter(None, map(_first_tap, called(equation))), None)
    if name is None:  # calls without nodes stay whole, so that they are compiled as they were
        return bind(equation, arguments)
    if not is_call(equation):
        raise ValueError(
            f"tap: got {name!r} inside {equation.primitive.name}; allowed is a node outside of "
            "loops, branches and functions with custom derivatives"
        )
    (inner,) = called(equation)
    return evaluate(inner, arguments, lambda e, values: _run(e, values, visit))


def _first_tap(jaxpr: Any) -> str | None:
    taps = (e.params["name"] for e in equations(jaxpr) if e.primitive is _tap)
    return next(taps, None)


def _fitting(name: str, added: Array, h: Array) -> Array:
    if np.shape(added) != h.shape:
        raise ValueError(f"taps: got shape {np.shape(added)} at {name!r}; allowed is {h.shape}")
    return jnp.asarray(added).astype(h.dtype)
