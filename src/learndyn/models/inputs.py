"""Inputs of a model that consist of several arrays, and what is taken of several outputs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.runtime.checks import a_kind


class Inputs(eqx.Module):
    """Several arrays, with the examples on the first axis of each, which are sliced together.

    Args:
        arrays: a tuple, a dict, or any other pytree; arrays of NumPy or JAX, or tensors.
        output: what counts of several outputs of the module, see `chosen`.
    """

    arrays: Any
    output: Any = eqx.field(static=True, default=None)

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, index: Any) -> "Inputs":
        return self.map(lambda array: array[index])

    def map(self, function: Callable[[Any], Any]) -> "Inputs":
        """The function of every array."""
        return Inputs(jax.tree.map(function, self.arrays), self.output)

    def split(self, size: int) -> list["Inputs"]:
        """Parts of at most `size` examples."""
        return [self[first : first + size] for first in range(0, len(self), size)]

    def clone(self) -> "Inputs":
        """Copies of tensors."""
        return self.map(lambda tensor: tensor.clone())

    @property
    def device(self) -> Any:
        """The device of tensors."""
        return self._first.device

    @property
    def is_cuda(self) -> bool:
        """Whether tensors are on a GPU."""
        return self._first.is_cuda

    @property
    def _first(self) -> Any:
        return jax.tree.leaves(self.arrays)[0]


def is_array(value: Any) -> bool:
    """Whether it is an array, or becomes one: of NumPy, JAX, PyTorch, pandas or xarray."""
    return hasattr(value, "__array__") or hasattr(value, "detach")


def joined(x: Any) -> Any:
    """A dict of arrays, or a tuple of them, as `Inputs`; everything else as it is."""
    if isinstance(x, Mapping):  # also those of other libraries
        return Inputs(dict(x))
    several = isinstance(x, tuple) and len(x) > 0 and all(is_array(each) for each in x)
    return Inputs(x) if several else x


def apart(x: Any) -> Any:
    """The reverse of `joined`."""
    return x.arrays if isinstance(x, Inputs) else x


def shapes_of(x: Any) -> str:
    """The shape or shapes, in words."""
    if not isinstance(x, Inputs):
        return f"shape {tuple(np.shape(x))}"
    return f"shapes {', '.join(str(tuple(np.shape(leaf))) for leaf in jax.tree.leaves(x))}"


def applied(function: Any, x: Any) -> Any:
    """function(*x) for a tuple and function(**x) for a dict if it takes those, else function(x)."""
    signature = inspect.signature(getattr(function, "forward", function))
    named = isinstance(x, dict)
    if named or isinstance(x, tuple):
        try:
            signature.bind(**x) if named else signature.bind(*x)
        except TypeError:  # it takes the whole as one argument
            return function(x)
        return function(**x) if named else function(*x)
    return function(x)


def chosen(outputs: Any, output: Any) -> Any:
    """What counts as the outputs of a module that returns several.

    Args:
        outputs: what it returns.
        output: a key, the name of an attribute, an index, or a function of what it returns; None
            takes "logits" if there is one, and else the whole.

    Returns:
        The part, or the whole.
    """
    if output is None:
        found = getattr(outputs, "logits", None)
        keyed = isinstance(outputs, Mapping) and "logits" in outputs
        return outputs["logits"] if keyed else outputs if found is None else found
    if callable(output):
        return output(outputs)
    try:
        by_name = isinstance(output, str) and hasattr(outputs, output)
        return getattr(outputs, output) if by_name else outputs[output]
    except (KeyError, IndexError, TypeError):
        keys = f" with {', '.join(map(repr, outputs))}" if isinstance(outputs, Mapping) else ""
        raise ValueError(
            f"output: got {output!r} for {a_kind(outputs)}{keys}; allowed is a key, an attribute "
            "or an index of what the model returns, or a function of it"
        ) from None
