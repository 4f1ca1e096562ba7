"""A user's probe: its errors and its results are checked, and messages name the probe."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from learndyn.models import Model
from learndyn.runtime.checks import shown
from learndyn.runtime.types import Array

REAL = (jnp.floating, jnp.integer, jnp.bool_)


class NamedProbe:
    """A function of a model under the name that the record gives it.

    Args:
        name: as in `simulate(probes={name: …})`.
        probe: the function.
    """

    def __init__(self, name: str, probe: Callable[[Model], Any]):
        self._argument, self._probe = f"probes[{name!r}]", probe
        self._shape: tuple[int, ...] | None = None

    def traced(self, model: Model) -> Array:
        """The result for traced weights; a probe that cannot be traced may raise any error."""
        return _real(jnp.asarray(self._probe(model)))

    def __call__(self, model: Model) -> np.ndarray:
        """The result for NumPy arrays.

        Args:
            model: the network.

        Returns:
            The numbers.

        Raises:
            ValueError: if the probe raises an error, if it does not return real numbers, or if
                their shape has changed.
        """
        try:
            value = self._probe(model)
        except Exception as error:
            why = f"{type(error).__name__} ({str(error).partition(chr(10))[0]})"
            allowed = "a function that works on every model of the runs"
            raise ValueError(f"{self._argument}: got {why}; allowed is {allowed}") from error
        try:
            array = _real(np.asarray(value))
        except Exception:  # None, text, a dict, ragged rows
            came = f"{self._argument}: got {shown(value)}"
            raise ValueError(f"{came} returned; allowed are real numbers") from None
        if self._shape is None:
            self._shape = array.shape
        if self._shape != array.shape:
            came = f"{self._argument}: got shape {array.shape} after {self._shape}"
            raise ValueError(f"{came}; allowed is one shape at all times")
        return array


def _real(array: Any) -> Any:
    if not any(jnp.issubdtype(array.dtype, kind) for kind in REAL):
        raise TypeError(f"{array.dtype} is not a type of real numbers")
    return array
