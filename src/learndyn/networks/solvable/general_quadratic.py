"""Models that are quadratic in their weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.checks import finite, numbers, positive
from learndyn.runtime.types import Array, Number, Weights


@bounded(gamma=POSITIVE, std=POSITIVE)
class GeneralQuadratic(AbstractNetwork):
    """g(w; x) = w · x + ½ γ wᵀ Σ w, Eq. 3.3 of zhu2024quadratic.

    The input x is the feature vector φ itself, as long as the weights; Σ is the same for all
    inputs, as in App. B.14 (which has φ = x/|x| and Σ diagonal with entries ±1). Weights
    are an array (inputs,), drawn from N(0, std²). The output is a scalar.

    Args:
        sigma: Σ, a symmetric matrix, or (inputs,) for a diagonal one.
        gamma: γ, the factor of the quadratic part.
        std: standard deviation of the initial weights.

    Raises:
        ValueError: for a matrix that is not symmetric, and numbers that are not positive.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.GeneralQuadratic([1.0, -1.0], gamma=0.5)
        >>> weights, x = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
        >>> float(network(weights, x))  # 3 + 8 + ½ · 0.5 · (1 − 4)
        10.25
    """

    sigma: np.ndarray
    gamma: np.ndarray
    std: np.ndarray

    def __init__(self, sigma: Any, *, gamma: Number = 1e-3, std: Number = 1.0):
        array = finite("sigma", numbers("sigma", sigma))
        whole = np.diag(array) if array.ndim == 1 else array
        if whole.ndim != 2 or not np.array_equal(whole, whole.T):
            allowed = "a symmetric matrix, or a vector for a diagonal one"
            raise ValueError(f"sigma: got shape {array.shape}; allowed is {allowed}")
        self.sigma = array
        self.gamma, self.std = positive("gamma", gamma), positive("std", std)

    @property
    def input_shape(self) -> Shape | None:
        return self.sigma.shape[:1]

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return ()

    def __call__(self, weights: Weights, x: Array) -> Array:
        sigma, gamma = (jnp.asarray(a).astype(weights.dtype) for a in (self.sigma, self.gamma))
        sigma_w = sigma * weights if sigma.ndim == 1 else sigma @ weights
        return x @ weights + gamma / 2 * jnp.sum(weights * sigma_w)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        return self.std * rng.standard_normal(len(self.sigma))

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return jax.ShapeDtypeStruct((len(self.sigma),), np.float64)
