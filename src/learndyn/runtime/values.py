"""`Value`: the immutable, printable base of problems, networks and rules."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.core
import numpy as np


class Value(eqx.Module):
    """An immutable value that prints as the call that creates it.

    Numbers are stored as NumPy float64, never as Python floats: a compiled engine then traces
    them, so that a sweep over learning rates compiles once. A field with `init=False` follows from
    the others, and is neither printed nor written as JSON.

    Attributes:
        unwritten: fields that are left out of the text while they have these values, so that what
            was written before a field existed and what is written now are the same.
    """

    unwritten: ClassVar[dict[str, Any]] = {}

    def __hash__(self) -> int:
        return hash((type(self), *(_hashed(leaf) for leaf in jax.tree.leaves(self))))

    def __repr__(self) -> str:
        parts = (f"{name}={_shown(value)}" for name, value in written(self).items())
        return f"{type(self).__name__}({', '.join(parts)})"


def written(value: Any) -> dict[str, Any]:
    """The fields of a data class that its text contains, with their values."""
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    unwritten = getattr(type(value), "unwritten", {})
    # Only None, tuples and flags are compared: arrays may be traced.
    simple = lambda content: content is None or isinstance(content, tuple | bool)
    usual = lambda name, content: (
        simple(content) and name in unwritten and content == unwritten[name]
    )
    return {name: content for name, content in fields.items() if not usual(name, content)}


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only array: the array itself if nothing can write to its memory, otherwise a copy."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            array = array.copy()
            array.flags.writeable = False
            break
        base = base.base
    return array


def _hashed(leaf: Any) -> Any:
    """A hashable that equal leaves share: the numbers of an array, with −0 counted as 0."""
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
