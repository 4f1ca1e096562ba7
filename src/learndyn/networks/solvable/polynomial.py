"""Polynomials of the inputs, as functions and as teachers."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.closed_forms import Covariance, GaussianGradients
from learndyn.numerics.wick import Moments
from learndyn.runtime.checks import finite, positive_int, shown
from learndyn.runtime.types import Array, Weights

Factors = tuple[tuple[int, int], ...]  # (coordinate, exponent), by coordinate
ALLOWED = "(coefficient, {coordinate: exponent, …})"


class Polynomial(AbstractNetwork):
    """f(x) = Σ_a c_a Π_i x_i^(m_ai): a function f(x), and a teacher whose weights are the c_a.

    Called with one argument it is the function, of one input (dim,) or of a batch (…, dim).
    Coordinates count from 0.

    Args:
        terms: a list of (coefficient, exponents) with exponents {coordinate: exponent}: {0: 1, 3:
            2} stands for x_0 x_3², and {} for 1. Pairs (coordinate, exponent) are allowed as well.
        dim: the number of inputs.

    Raises:
        ValueError: for terms without a number and exponents, or with a coordinate that the
            dimension does not have.

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
        listed = _listed(terms)
        if not listed:
            raise ValueError(f"terms: got {shown(terms)}; allowed is at least one {ALLOWED}")
        self.terms = tuple(_term(term, self.dim) for term in listed)

    def __call__(self, weights: Weights, x: Array | None = None) -> Array:
        if x is None:
            weights, x = self.coefficients, _floats(weights)
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(f"x: got shape {x.shape}; allowed is (…, {self.dim})")
        # A further coordinate, which is 1, fills up terms of fewer factors (`_index`).
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
        """∂f/∂x_i.

        Args:
            coordinate: i, from 0.

        Returns:
            Terms, as the constructor takes them; none if f does not depend on x_i.
        """
        slope = []
        for c, factors in self.terms:
            powers = dict(factors)
            m = powers.pop(coordinate, 0)
            rest = {coordinate: m - 1} if m > 1 else {}
            slope += [(c * m, powers | rest)] if m else []
        return slope

    @property
    def coordinates(self) -> list[int]:
        """The coordinates on which f depends, ascending."""
        return sorted({i for _, factors in self.terms for i, _ in factors})

    @property
    def gaussian_gradients(self) -> GaussianGradients | None:
        return GaussianGradients(self.dim, self._mean_gradient_product)

    def _mean_gradient_product(self, covariance: Covariance) -> np.ndarray:
        """E[∇f ∇fᵀ] by Wick's theorem, from the covariance of the inputs that f depends on."""
        at = self.coordinates
        moments, slot = Moments(covariance(at)), {i: a for a, i in enumerate(at)}
        value = np.zeros((self.dim, self.dim))
        slopes = {i: self.derivative(i) for i in at}

        def mean(u: dict[int, int], v: dict[int, int]) -> float:
            exponents = [0] * len(at)
            for factors in (u, v):
                for i, m in factors.items():
                    exponents[slot[i]] += m
            return moments(exponents)

        for i in at:
            for j in at[slot[i] :]:  # the matrix is symmetric
                pairs = ((a * b, u, v) for a, u in slopes[i] for b, v in slopes[j])
                value[i, j] = value[j, i] = sum(c * mean(u, v) for c, u, v in pairs)
        return value

    def _index(self) -> np.ndarray:
        """Each term's coordinates, repeated by exponent; `dim` stands for the number 1."""
        index = np.full((len(self.terms), max(1, self.degree)), self.dim)
        for row, (_, factors) in zip(index, self.terms, strict=True):
            named = [i for i, m in factors for _ in range(m)]
            row[: len(named)] = named
        return index

    @property
    def accepts_single_example(self) -> bool:
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
    except Exception:  # not iterable
        return []


def _floats(x: Any) -> Any:
    """Floats in their own precision; integers, whose powers would overflow, as float64."""
    array = x if hasattr(x, "dtype") else np.asarray(x)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else np.asarray(array, np.float64)


def _term(term: Any, dim: int) -> tuple[float, Factors]:
    try:
        coefficient, exponents = term
        factors = exponents.items() if isinstance(exponents, Mapping) else exponents
        pairs = [(i, m) for i, m in factors]
        value = float(coefficient)
    except Exception:  # not a pair, not a number, or no exponents: users may pass anything
        raise ValueError(f"terms: got {shown(term)}; allowed is {ALLOWED}") from None
    finite("terms", np.asarray(value))
    powers: dict[int, int] = {}
    for i, m in pairs:  # pairs may name a coordinate twice: exponents add up
        i = _whole("coordinate", i, f"an integer from 0 to {dim - 1}", dim - 1)
        powers[i] = powers.get(i, 0) + _whole("exponent", m, "a non-negative integer", math.inf)
    return value, tuple(sorted((i, m) for i, m in powers.items() if m))


def _whole(what: str, value: Any, allowed: str, most: float | int) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 0 <= value <= most:
        raise ValueError(f"terms: got the {what} {value!r}; allowed is {allowed}")
    return int(value)
