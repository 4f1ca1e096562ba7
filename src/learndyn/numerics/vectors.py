"""A few long vectors, held as rows of one array on the device of a first one.

The vectors are NumPy arrays, tensors of PyTorch, or JAX arrays, and stay what they are. Only small
arrays of coefficients come to the host.
"""

import contextlib
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.tensors import full_products

ENOUGH = 0.7  # if less than this share of a vector's length is left, it is made orthogonal again


class Rest(NamedTuple):
    """The part of a vector outside the span of others.

    Attributes:
        vector: this part, on the device.
        along: the coefficients inside the span.
        length: of this part.
        before: the length of the whole vector.
    """

    vector: Any
    along: np.ndarray
    length: float
    before: float


class Vectors:
    """Rows of an array that can be changed in place: NumPy or PyTorch.

    Args:
        like: a vector, which sets the length, the precision and the device.
        most: how many vectors there may be.
    """

    def __init__(self, like: Any, most: int):
        shape = (most, like.shape[0])
        self.rows: Any = np.zeros(shape, like.dtype) if _on_host(like) else like.new_zeros(shape)

    def put(self, i: int, v: Any) -> None:
        """Sets row i."""
        self.rows[i] = v

    def rest(self, w: Any, count: int) -> Rest:
        """The part of w outside the span of the first rows, which are orthonormal.

        If much of w cancels, rounding leaves components along the rows, and a second pass removes
        them ("twice is enough", Kahan).
        """
        rows, before = self.rows[:count], length(w)
        along, left = 0.0, before
        for _ in range(2):
            part = rows @ w
            w = w - part @ rows
            along, last, left = along + as_numpy(part).astype(np.float64), left, length(w)
            if left > ENOUGH * last:
                break
        return Rest(w, np.asarray(along), left, before)

    def combined(self, coefficients: np.ndarray) -> Any:
        """New vectors as rows on the device, from coefficients (rows, new vectors)."""
        return self._like(coefficients).T @ self.rows[: len(coefficients)]

    def replace(self, coefficients: np.ndarray) -> None:
        """Puts combinations of the rows in place of the first ones."""
        self.rows[: coefficients.shape[1]] = self.combined(coefficients)

    def _like(self, array: np.ndarray) -> Any:
        array = array.astype(np.float64)
        if _on_host(self.rows):
            return array.astype(self.rows.dtype)
        return self.rows.new_tensor(array)


class JaxVectors(Vectors):
    """The same for JAX arrays, compiled once for any number of rows."""

    def __init__(self, like: Any, most: int):
        self.rows = jnp.zeros((most, *like.shape), like.dtype)

    def put(self, i: int, v: Any) -> None:
        self.rows = _put(self.rows, i, v)

    def rest(self, w: Any, count: int) -> Rest:
        vector, along, lengths = _rest(self.rows, w, count)
        along, (length, before) = jax.device_get((along, lengths))
        return Rest(vector, along[:count].astype(np.float64), float(length), float(before))

    def combined(self, coefficients: np.ndarray) -> Any:
        return _combined(self.rows, self._whole(coefficients))[: coefficients.shape[1]]

    def replace(self, coefficients: np.ndarray) -> None:
        self.rows = _combined(self.rows, self._whole(coefficients))

    def _whole(self, coefficients: np.ndarray) -> Any:
        most, (rows, new) = len(self.rows), coefficients.shape
        return jnp.asarray(np.pad(coefficients, ((0, most - rows), (0, most - new))))


def vectors_like(v: Any, most: int) -> Vectors:
    """Room for at most so many vectors like v."""
    return (JaxVectors if isinstance(v, jax.Array) else Vectors)(v, most)


def products_of(v: Any) -> Any:
    """A context in which products of vectors like v have full precision, besides JAX's settings."""
    ours = _on_host(v) or isinstance(v, jax.Array)
    return contextlib.nullcontext() if ours else full_products()


def random_like(v: Any, seed: int) -> Any:
    """A normal vector on the device of v, the same on every device."""
    drawn = np.random.default_rng(seed).standard_normal(v.shape[0])
    return vector_like(v, drawn)


def vector_like(v: Any, values: np.ndarray) -> Any:
    """Values in the precision and on the device of v."""
    if isinstance(v, jax.Array):
        return jnp.asarray(values, v.dtype)
    return values.astype(v.dtype) if _on_host(v) else v.new_tensor(values)


def as_numpy(array: Any) -> np.ndarray:
    """Any of these arrays as NumPy's, on the host."""
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)


def precision_of(v: Any) -> float:
    """The distance from 1 to the next number."""
    return float(np.finfo(as_numpy(v[:1]).dtype).eps)


def _on_host(v: Any) -> bool:
    return isinstance(v, np.ndarray)


def length(w: Any) -> float:
    """The Euclidean length."""
    if isinstance(w, jax.Array):
        return float(_length(w))
    return float(np.linalg.norm(w)) if _on_host(w) else float(w.norm())


def _length(w: Any) -> Any:
    return jnp.sqrt(w @ w)


@functools.partial(jax.jit, donate_argnums=0)
def _put(rows: Any, i: Any, v: Any) -> Any:
    return rows.at[i].set(v)


@jax.jit
def _rest(rows: Any, w: Any, count: Any) -> Any:
    filled = jnp.arange(len(rows)) < count

    def without(w: Any) -> Any:
        along = jnp.where(filled, rows @ w, 0)
        return w - along @ rows, along

    before = _length(w)
    once, along = without(w)
    cancelled = ~(_length(once) > ENOUGH * before)
    again, more = jax.lax.cond(cancelled, without, lambda once: (once, jnp.zeros_like(along)), once)
    return again, along + more, (_length(again), before)


@jax.jit
def _combined(rows: Any, coefficients: Any) -> Any:
    return coefficients.T.astype(rows.dtype) @ rows
