"""Looking into traced programs, and keeping them."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from learndyn.numerics.types import Array

Run = Callable[[Any, list[Any]], list[Any]]  # literals are numbers
_CALLS = {"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"}


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, those of the jaxprs that they call included."""
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
    """Whether an equation may be replaced by what it calls; a loop or a branch may not."""
    return equation.primitive.name in _CALLS


def evaluate(jaxpr: Any, arguments: Any, run: Run) -> list[Any]:
    """The outputs of a jaxpr for given arguments, equation by equation.

    Args:
        jaxpr: closed, or without constants.
        arguments: its inputs.
        run: what an equation gives for its arguments: `bind`, but for some.

    Returns:
        The outputs.
    """
    consts, jaxpr = getattr(jaxpr, "consts", ()), getattr(jaxpr, "jaxpr", jaxpr)
    values = dict(zip(jaxpr.constvars, consts, strict=True))
    values |= dict(zip(jaxpr.invars, arguments, strict=True))
    read = lambda v: v.val if isinstance(v, core.Literal) else values[v]
    for equation in jaxpr.eqns:
        found = run(equation, [read(v) for v in equation.invars])
        values |= dict(zip(equation.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def bind(equation: Any, arguments: list[Any]) -> list[Any]:
    """What an equation gives by itself."""
    bound = equation.primitive.get_bind_params(equation.params)
    # Versions of JAX differ in whether functions are among the parameters.
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    found = equation.primitive.bind(*functions, *arguments, **params)
    return found if equation.primitive.multiple_results else [found]


def inlined(function: Callable[..., Any], *like: Any) -> Any:
    """The closed jaxpr of a function of arrays, calls replaced by what they call.

    Args:
        function: of arrays, to an array.
        like: arrays or shapes.

    Returns:
        The jaxpr. Loops, branches and functions with derivatives of their own remain.
    """

    def run(equation: Any, arguments: list[Any]) -> list[Any]:
        if not is_call(equation):
            return bind(equation, arguments)
        (inner,) = called(equation)
        return evaluate(inner, arguments, run)

    closed = jax.make_jaxpr(function)(*like)
    return jax.make_jaxpr(lambda *given: evaluate(closed, given, run))(*like)


class _Program:
    """A jaxpr that equals another of the same text: what holds either is compiled once."""

    def __init__(self, jaxpr: core.Jaxpr, outputs: Any):
        self.jaxpr, self.outputs = jaxpr, outputs
        self._said = (str(jaxpr), tuple(_unsaid(jaxpr)), outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)


def _unsaid(jaxpr: Any) -> Iterator[bytes]:
    """The arrays that a jaxpr holds inside: its text does not show what is in them."""
    for equation in jaxpr.eqns:
        literals = (v.val for v in equation.invars if isinstance(v, core.Literal))
        yield from (np.asarray(value).tobytes() for value in literals if np.ndim(value))
        for inner in called(equation):
            yield from (np.asarray(value).tobytes() for value in getattr(inner, "consts", ()))
            yield from _unsaid(getattr(inner, "jaxpr", inner))


class Traced(eqx.Module):
    """A function as the program that JAX traced it to, with the arrays that it closed over.

    Unlike the function itself it may be part of what is compiled without a risk: what the
    function looked up is traced anew for each of these, and compiled anew only if that differs.

    Args:
        function: of pytrees of arrays, to a pytree of arrays.
        like: such pytrees, as arrays or shapes.
    """

    constants: list[Array]
    program: _Program = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], *like: Any):
        arrays = lambda *given: jax.tree.map(jnp.asarray, function(*given))
        closed, shapes = jax.make_jaxpr(arrays, return_shape=True)(*like)
        self.constants = [np.asarray(c) if _is_plain(c) else c for c in closed.consts]
        self.program = _Program(closed.jaxpr, jax.tree.structure(shapes))

    def __call__(self, *given: Any) -> Any:
        closed = core.ClosedJaxpr(self.program.jaxpr, self.constants)
        found = core.jaxpr_as_fun(closed)(*jax.tree.leaves(given))
        return jax.tree.unflatten(self.program.outputs, found)


def _is_plain(constant: Any) -> bool:
    """Whether it is an array of NumPy's, for which JAX has a type of its own when tracing."""
    return not isinstance(constant, jax.Array)
