"""Inspecting traced programs, and keeping them as values."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from learndyn.runtime.types import Array

# (equation, arguments) → outputs; literal arguments are numbers
Run = Callable[[Any, list[Any]], list[Any]]
_CALLS = {"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"}


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, including those of the jaxprs that it calls."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation
        for inner in called(equation):
            yield from equations(inner)


def called(equation: Any) -> Iterator[Any]:
    """The jaxprs that an equation calls."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, core.Jaxpr | core.ClosedJaxpr):
                yield each


def is_call(equation: Any) -> bool:
    """Whether an equation can be replaced by the jaxpr it calls; a loop or a branch cannot."""
    return equation.primitive.name in _CALLS


def evaluate(jaxpr: Any, arguments: Any, run: Run) -> list[Any]:
    """The outputs of a jaxpr for given arguments, equation by equation.

    Args:
        jaxpr: a closed jaxpr, or one without constants.
        arguments: its inputs.
        run: evaluates one equation: `bind`, or your own function for some equations.

    Returns:
        The outputs.
    """
    consts, jaxpr = getattr(jaxpr, "consts", ()), getattr(jaxpr, "jaxpr", jaxpr)
    values = dict(zip(jaxpr.constvars, consts, strict=True))
    values |= dict(zip(jaxpr.invars, arguments, strict=True))
    read = lambda v: v.val if isinstance(v, core.Literal) else values[v]
    for equation in jaxpr.eqns:
        outputs = run(equation, [read(v) for v in equation.invars])
        values |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def bind(equation: Any, arguments: list[Any]) -> list[Any]:
    """The outputs of an equation, evaluated as it stands."""
    params = equation.primitive.get_bind_params(equation.params)
    outputs = equation.primitive.bind(*arguments, **params)
    return outputs if equation.primitive.multiple_results else [outputs]


def inlined(function: Callable[..., Any], *like: Any) -> Any:
    """The closed jaxpr of a function of arrays, with calls replaced by their contents.

    Args:
        function: maps arrays to an array.
        like: its arguments, as arrays or shapes.

    Returns:
        The jaxpr. Loops, branches and functions with custom derivatives remain.
    """

    def run(equation: Any, arguments: list[Any]) -> list[Any]:
        if not is_call(equation):
            return bind(equation, arguments)
        (inner,) = called(equation)
        return evaluate(inner, arguments, run)

    closed = jax.make_jaxpr(function)(*like)
    return jax.make_jaxpr(lambda *arguments: evaluate(closed, arguments, run))(*like)


class _Program:
    """A jaxpr that equals any other with the same text, so that values holding one compile once."""

    def __init__(self, jaxpr: core.Jaxpr, outputs: Any):
        self.jaxpr, self.outputs = jaxpr, outputs
        self._identity = (str(jaxpr), tuple(_array_bytes(jaxpr)), outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def _array_bytes(jaxpr: Any) -> Iterator[bytes]:
    """The contents of the arrays inside a jaxpr, which its text does not show."""
    for equation in jaxpr.eqns:
        literals = (v.val for v in equation.invars if isinstance(v, core.Literal))
        yield from (np.asarray(value).tobytes() for value in literals if np.ndim(value))
        for inner in called(equation):
            yield from (np.asarray(value).tobytes() for value in getattr(inner, "consts", ()))
            yield from _array_bytes(getattr(inner, "jaxpr", inner))


class Traced(eqx.Module):
    """A function as the program that JAX traced, with the arrays that it closes over.

    Unlike the function itself, it can safely be an argument of a compiled function. A function is
    compared by identity, and whatever global state it looked up would be compiled in. A program is
    traced anew each time, and compiled anew only if it differs.

    Args:
        function: maps pytrees of arrays to a pytree of arrays.
        like: its arguments, as arrays or shapes.
    """

    constants: list[Array]
    program: _Program = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], *like: Any):
        arrays = lambda *arguments: jax.tree.map(jnp.asarray, function(*arguments))
        closed, shapes = jax.make_jaxpr(arrays, return_shape=True)(*like)
        # While tracing, JAX wraps NumPy constants in a type of its own.
        self.constants = [c if isinstance(c, jax.Array) else np.asarray(c) for c in closed.consts]
        self.program = _Program(closed.jaxpr, jax.tree.structure(shapes))

    def __call__(self, *arguments: Any) -> Any:
        closed = core.ClosedJaxpr(self.program.jaxpr, self.constants)
        outputs = core.jaxpr_as_fun(closed)(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(self.program.outputs, outputs)
