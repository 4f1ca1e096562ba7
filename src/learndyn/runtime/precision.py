"""Float64, full matrix products and JAX's default settings, without changing the caller's."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.core
import numpy as np

from learndyn.runtime.checks import numbers
from learndyn.runtime.forks import require_own_threads

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def usual_settings() -> Iterator[None]:
    """JAX's defaults for promotion, NaN checks and compilation, in the current thread.

    The engines mix precisions and ranks on purpose, record a diverged run as NaN, and carry Python
    numbers through compiled loops. With strict promotion, `jax_debug_nans` or `jax_disable_jit`
    JAX would raise an error.

    Yields:
        Nothing.

    Raises:
        ValueError: in a process that was forked after JAX had been used.
    """
    require_own_threads()
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.disable_jit(False),
    ):
        yield


@contextlib.contextmanager
def full_precision(precision: str | None = None) -> Iterator[None]:
    """Enables float64, and full float32 matrix products on accelerators.

    By default GPUs multiply float32 matrices with ten bits of mantissa (TF32); on CPUs this
    changes nothing. JAX's `default_matmul_precision` is respected if the caller has set it. The
    settings apply to the current thread, and include `usual_settings`.

    Args:
        precision: of float32 matrix products; None takes `products()` of this thread.

    Yields:
        Nothing.
    """
    matmul = jax.default_matmul_precision(precision or products())
    with usual_settings(), jax.enable_x64(True), matmul:
        yield


def products() -> str:
    """The precision of float32 matrix products: the caller's setting, or else the highest."""
    setting: Any = getattr(jax.config, "jax_default_matmul_precision")  # noqa: B009
    return setting or "highest"


def in_float64(function: F) -> F:
    """Makes `function` compute in float64 and return NumPy arrays.

    Called on tracers (inside a compiled engine) it is `function` itself, so that one definition
    serves both the engine and the user.

    Args:
        function: any function of pytrees that computes with `jax.numpy`.

    Returns:
        The same function, entered under `jax.enable_x64`.
    """
    return _entered(function, function)


def compiled_in_float64(function: F) -> F:
    """As `in_float64`, but compiled as a whole when a user calls it.

    Otherwise JAX compiles every operation by itself, which takes far longer. Only for functions
    that an engine can trace, which do not depend on the values of their arguments.
    """
    compiled = eqx.filter_jit(function)
    return _entered(function, lambda *args, **kwargs: compiled(*views(args), **views(kwargs)))


def compiled_on_device(function: F) -> F:
    """As `compiled_in_float64`, but results stay on the device if the last argument is there."""
    on_host, on_device = compiled_in_float64(function), eqx.filter_jit(function)

    @functools.wraps(function)
    def wrapped(*args):
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args))
        if traced or not isinstance(args[-1], jax.Array):
            return on_host(*args)
        with full_precision():
            return on_device(*views(args))

    return wrapped  # pyright: ignore[reportReturnType]


def _entered(traced: F, called: Callable[..., Any]) -> F:
    @functools.wraps(traced)
    def wrapped(*args, **kwargs):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return traced(*args, **kwargs)
        with full_precision():
            return to_numpy(called(*args, **kwargs))

    return wrapped  # pyright: ignore[reportReturnType]


def views(tree: Any) -> Any:
    """Views of the NumPy arrays of a pytree, for a compiled call.

    JAX (0.10.2) keeps NumPy arrays that a compiled function of the caller closed over, in 32 bits
    and by identity, and would take such a copy for an argument of 64 bits.
    """
    return jax.tree.map(lambda x: x.view() if isinstance(x, np.ndarray) else x, tree)


def to_numpy(tree: Any) -> Any:
    """Converts every JAX array of a pytree to NumPy."""
    return jax.tree.map(lambda x: np.asarray(x) if isinstance(x, jax.Array) else x, tree)


def float64(name: str) -> Callable[[Any], Any]:
    """As `as_float64`, with an error that names the argument."""
    return lambda value: value if isinstance(value, jax.Array) else numbers(name, value)


def as_float64(value: Any) -> Any:
    """Converts user input to NumPy float64; JAX arrays pass, since an engine made them."""
    return value if isinstance(value, jax.Array) else np.asarray(value, dtype=np.float64)
