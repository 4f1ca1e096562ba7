"""`Value`: the immutable, printable base of problems, networks and rules."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.core
import numpy as np


class Value(eqx.Module):
    """An immutable value that prints as the call that makes it.

    Numbers are kept as NumPy float64, never as Python floats: a compiled engine then
    traces them, and a sweep over learning rates compiles once. A field with `init=False`
    follows from the others: it is neither printed nor written as JSON.
    """

    def __hash__(self) -> int:
        return hash((type(self), *(_hashed(leaf) for leaf in jax.tree.leaves(self))))

    def __repr__(self) -> str:
        given = [f.name for f in dataclasses.fields(self) if f.init]
        parts = (f"{name}={_shown(getattr(self, name))}" for name in given)
        return f"{type(self).__name__}({', '.join(parts)})"


def _hashed(leaf: Any) -> Any:
    """What equal leaves have in common: an array's numbers, −0 as 0."""
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError("a value is unhashable while its numbers are traced")
    array = np.asarray(leaf)
    return array.shape, (array + 0).tobytes() if array.dtype.kind in "fiub" else ()


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray | np.generic):
        return repr(value)
    if value.size > 8:
        return f"<{value.dtype} array of shape {value.shape}>"
    return str(value.tolist())
