"""What differs between the versions of JAX that this package works with."""

from typing import Any


def set_globally(context: Any, value: Any) -> None:
    """Sets the value of `jax.make_user_context` in all threads.

    JAX 0.10.0 has no public method for it.
    """
    (context if hasattr(context, "set_global") else context._obj).set_global(value)
