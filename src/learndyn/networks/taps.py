"""Nodes: places in a network where something can be added, and read.

`tap(name, h)` marks a pre-activation. It is a primitive of JAX that is the identity when
compiled and under every transformation, so that it costs nothing, and it stays visible in the
network's jaxpr. `forward` interprets that jaxpr. (Names kept in a context instead would be
missed silently by whatever is compiled already.)
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from learndyn.numerics.checks import a_kind, flag, function, instance, mapping, numbers
from learndyn.numerics.jaxprs import bind, called, equations, evaluate, is_call
from learndyn.numerics.types import Array

_tap = core.Primitive("tap")
_tap.def_impl(lambda h, *, name: h)
_tap.def_abstract_eval(lambda h, *, name: h)
mlir.register_lowering(_tap, lambda ctx, h, *, name: [h])
# A node is a value: its tangent is no node of its own.
ad.primitive_jvps[_tap] = lambda h, dh, *, name: (_tap.bind(h[0], name=name), dh[0])
batching.primitive_batchers[_tap] = lambda h, axis, *, name: (
    _tap.bind(jnp.moveaxis(h[0], axis[0], 0), name=name),
    0,
)

Visit = Callable[[str, Array], Array]


def tap(name: str, h: Array) -> Array:
    """Marks h as the node `name` of a network; the value is h itself.

    Args:
        name: unique within the network.
        h: the node's value, by custom the pre-activation.

    Returns:
        h.

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
    if h.dtype.kind in "cOSUMm":  # not those of JAX's own, such as bfloat16
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
    """Outputs and nodes of a network, with something added at its nodes.

    It sees through `jit`, `vmap` (the node of a mapped function has the batch axis first) and
    `checkpoint`, which it takes apart.

    Args:
        apply: (weights, x) → outputs, with calls of `tap`.
        weights: any pytree; leaves that are no arrays are passed on as they are.
        x: a batch of inputs.
        taps: node → what is added to it, of its shape; a node that is not named is left alone.
        local: whether derivatives stop at nodes: each then depends on the weights between it and
            the nodes before it alone, and the outputs on those behind the last nodes.

    Returns:
        The outputs, and every node's value after the addition.

    Raises:
        ValueError: for a node that does not exist, stands inside a loop, a branch or a function
            with a derivative of its own, or whose name stands twice.
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
            raise ValueError(f"tap: got {name!r} twice; allowed is one node of a name")
        nodes[name] = h + _fitting(name, taps[name], h) if name in taps else h
        return jax.lax.stop_gradient(nodes[name]) if local else nodes[name]

    try:
        outputs = revisit(apply, visit)(weights, x)
    except (TypeError, AttributeError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(
            f"weights: got {a_kind(weights)} that, with x of shape {np.shape(x)}, is nothing for "
            f"apply ({why}); allowed are weights and inputs of the network"
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

        def flat(*arrays: Array) -> Any:
            given = iter(arrays)
            pairs = zip(leaves, held, strict=True)
            return apply(
                *jax.tree.unflatten(structure, [next(given) if h else l for l, h in pairs])
            )

        arrays = [leaf for leaf, is_array in zip(leaves, held, strict=True) if is_array]
        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*arrays)
        found = evaluate(closed, arrays, lambda e, given: _run(e, given, visit))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return visited


def _run(equation: Any, arguments: list[Any], visit: Visit) -> list[Any]:
    if equation.primitive is _tap:
        return [visit(equation.params["name"], arguments[0])]
    name = next(filter(None, map(_first_tap, called(equation))), None)
    if name is None:
        return bind(equation, arguments)
    if not is_call(equation):
        raise ValueError(
            f"tap: got {name!r} inside {equation.primitive.name}; allowed is a node outside of "
            "loops, branches and functions with derivatives of their own"
        )
    (inner,) = called(equation)
    return evaluate(inner, arguments, lambda e, given: _run(e, given, visit))


def _first_tap(jaxpr: Any) -> str | None:
    taps = (e.params["name"] for e in equations(jaxpr) if e.primitive is _tap)
    return next(taps, None)


def _fitting(name: str, added: Array, h: Array) -> Array:
    if np.shape(added) != h.shape:
        raise ValueError(f"taps: got shape {np.shape(added)} at {name!r}; allowed is {h.shape}")
    return jnp.asarray(added).astype(h.dtype)
