"""Float64 and full products without touching the caller's JAX configuration."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.core
import numpy as np

from learndyn.numerics.checks import numbers

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def full_precision(asked: str | None = None) -> Iterator[None]:
    """Float64 where it is asked for, and float32 products of float32 on accelerators.

    GPUs multiply float32 matrices with ten bits of mantissa (TF32) unless told otherwise; on CPUs
    it changes nothing. A caller who has set JAX's `default_matmul_precision` has told otherwise,
    and gets that. It holds for the thread that enters it.

    Args:
        asked: the precision of products of float32; None for `products()` of this thread.

    Yields:
        Nothing.
    """
    with jax.enable_x64(True), jax.default_matmul_precision(asked or products()):
        yield


def products() -> str:
    """The precision of products of float32: the caller's, or the highest where none is set."""
    asked: Any = getattr(jax.config, "jax_default_matmul_precision")  # noqa: B009
    return asked or "highest"


def in_float64(function: F) -> F:
    """Makes `function` compute in float64 and return NumPy arrays.

    Called on tracers (inside a compiled engine) it is `function` itself, so one
    definition serves both the engine and the user.

    Args:
        function: any function of pytrees that computes with `jax.numpy`.

    Returns:
        The same function, entered under `jax.enable_x64`.
    """
    return _entered(function, function)


def compiled_in_float64(function: F) -> F:
    """As `in_float64`, compiled as a whole when a user calls it.

    Operation by operation each would be compiled by itself, which takes far longer. For
    functions that an engine traces anyway: what they are given need not be known.
    """
    return _entered(function, eqx.filter_jit(function))


def _entered(traced: F, called: Callable[..., Any]) -> F:
    @functools.wraps(traced)
    def wrapped(*args, **kwargs):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return traced(*args, **kwargs)
        with full_precision():
            return to_numpy(called(*args, **kwargs))

    return wrapped  # pyright: ignore[reportReturnType]


def to_numpy(tree: Any) -> Any:
    """Turns every JAX array of a pytree into a NumPy array."""
    return jax.tree.map(lambda x: np.asarray(x) if isinstance(x, jax.Array) else x, tree)


def float64(name: str) -> Callable[[Any], Any]:
    """As `as_float64`, with a one-line error that names the argument."""
    return lambda value: value if isinstance(value, jax.Array) else numbers(name, value)


def as_float64(value: Any) -> Any:
    """NumPy float64 for what a user gives; JAX arrays pass, since they are already inside."""
    return value if isinstance(value, jax.Array) else np.asarray(value, dtype=np.float64)
