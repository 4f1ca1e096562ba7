"""Looking into traced programs."""

from collections.abc import Iterator
from typing import Any

from jax.extend import core


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
