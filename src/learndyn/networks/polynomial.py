"""Polynomials of the inputs, as functions and as teachers."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape, Weights
from learndyn.numerics.checks import finite, positive_int, shown
from learndyn.numerics.types import Array

Factors = tuple[tuple[int, int], ...]  # (coordinate, exponent), by coordinate
ALLOWED = "(coefficient, {coordinate: exponent, …})"


class Polynomial(AbstractNetwork):
    """f(x) = Σ_a c_a Π_i x_i^(m_ai): a function f(x), and a teacher whose weights are the c_a.

    Called with one argument it is the function, of one input (dim,) or of a batch (…, dim).
    Coordinates count from 0.

    Args:
        terms: (coefficient, exponents), where exponents name coordinates: {0: 1, 3: 2} is
            x_0 x_3². Pairs (coordinate, exponent) do as well; {} is the constant.
        dim: the number of inputs.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> f = ld.Polynomial([(2.0, {0: 1, 1: 1}), (-1.0, {2: 2})], dim=4)
        >>> float(f(np.array([1.0, 2.0, 3.0, 4.0])))
        -5.0
    """

    terms: tuple[tuple[float, Factors], ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, terms: Any, dim: int):
        self.dim = positive_int("dim", dim)
        given = _listed(terms)
        if not given:
            raise ValueError(f"terms: got {shown(terms)}; allowed is at least one {ALLOWED}")
        self.terms = tuple(_term(term, self.dim) for term in given)

    def __call__(self, weights: Weights, x: Array | None = None) -> Array:
        if x is None:
            weights, x = self.coefficients, _floats(weights)
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(f"x: got shape {x.shape}; allowed is (…, {self.dim})")
        one = jnp.ones((*x.shape[:-1], 1), x.dtype)
        monomials = jnp.prod(jnp.concatenate([x, one], axis=-1)[..., self._index()], axis=-1)
        return monomials @ jnp.asarray(weights).astype(monomials.dtype)

    @property
    def coefficients(self) -> np.ndarray:
        """The c_a, (terms,)."""
        return np.array([c for c, _ in self.terms])

    @property
    def degree(self) -> int:
        """The largest sum of a term's exponents."""
        return max(sum(m for _, m in factors) for _, factors in self.terms)

    def derivative(self, coordinate: int) -> list[tuple[float, dict[int, int]]]:
        """∂f/∂x_i as terms; none where f does not depend on x_i."""
        found = []
        for c, factors in self.terms:
            powers = dict(factors)
            m = powers.pop(coordinate, 0)
            rest = {coordinate: m - 1} if m > 1 else {}
            found += [(c * m, powers | rest)] if m else []
        return found

    @property
    def coordinates(self) -> list[int]:
        """Those that f depends on, ascending."""
        return sorted({i for _, factors in self.terms for i, _ in factors})

    def _index(self) -> np.ndarray:
        """Each term's coordinates, repeated by exponent; `dim` stands for the number 1."""
        index = np.full((len(self.terms), max(1, self.degree)), self.dim)
        for row, (_, factors) in zip(index, self.terms, strict=True):
            named = [i for i, m in factors for _ in range(m)]
            row[: len(named)] = named
        return index

    @property
    def takes_one(self) -> bool:
        return True

    @property
    def input_shape(self) -> Shape | None:
        return (self.dim,)

    @property
    def fixed_weights(self) -> Weights | None:
        return self.coefficients

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return ()

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        return self.coefficients


def _listed(terms: Any) -> list[Any]:
    try:
        return list(terms)
    except Exception:  # what cannot be gone through
        return []


def _floats(x: Any) -> Any:
    given = x if hasattr(x, "dtype") else np.asarray(x)
    return given if jnp.issubdtype(given.dtype, jnp.floating) else np.asarray(given, np.float64)


def _term(term: Any, dim: int) -> tuple[float, Factors]:
    try:
        coefficient, exponents = term
        given = exponents.items() if isinstance(exponents, Mapping) else exponents
        pairs = [(i, m) for i, m in given]
        value = float(coefficient)
    except Exception:  # no pair, no number, no exponents
        raise ValueError(f"terms: got {shown(term)}; allowed is {ALLOWED}") from None
    finite("terms", np.asarray(value))
    powers: dict[int, int] = {}
    for i, m in pairs:
        i = _whole("coordinate", i, f"an integer from 0 to {dim - 1}", dim - 1)
        powers[i] = powers.get(i, 0) + _whole("exponent", m, "a non-negative integer", math.inf)
    return value, tuple(sorted((i, m) for i, m in powers.items() if m))


def _whole(what: str, value: Any, allowed: str, most: float | int) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 0 <= value <= most:
        raise ValueError(f"terms: got the {what} {value!r}; allowed is {allowed}")
    return int(value)
