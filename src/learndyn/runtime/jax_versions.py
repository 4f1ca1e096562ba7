"""What differs between the versions of JAX that this package works with, 0.10.0 to 0.12.0.

Whatever has no public name in some of them is here too.
"""

from collections.abc import Sequence
from typing import Any

import jax

# Where functions of `jax.nn` and elementwise ones of `jax.numpy` are defined: their `__module__`.
COMPUTING = ("jax._src.nn.", "jax._src.numpy.ufuncs", "jax._src.lax.lax", "jax.nn")


def set_globally(context: Any, value: Any) -> None:
    """Sets the value of `jax.make_user_context` in all threads.

    JAX 0.10.0 has no public method for it.
    """
    (context if hasattr(context, "set_global") else context._obj).set_global(value)


def has_started() -> bool:
    """Whether JAX has set up a device in this process, and so has threads; no device is set up."""
    from jax._src import xla_bridge  # no public name in any version up to 0.12

    return bool(xla_bridge.backends_are_initialized())


def struct(shape: Sequence[int], dtype: Any) -> jax.ShapeDtypeStruct:
    """A shape with the type that an array has here: float32 for float64 where x64 is off.

    From JAX 0.12 on, tracing warns where they differ.
    """
    return jax.ShapeDtypeStruct(tuple(shape), jax.dtypes.canonicalize_dtype(dtype))
