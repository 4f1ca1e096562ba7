"""What some networks state in closed form about themselves, for Gaussian inputs."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import AbstractActivation
from learndyn.runtime.types import Array, Weights

Covariance = Callable[[list[int]], np.ndarray]  # indices of inputs → the covariance of these inputs


class UnitSum(NamedTuple):
    """A network of the form output = Σ_k c_k g(w_k · x/√N + b_k).

    The functions of the weights have a gradient only in what learns.

    Attributes:
        units: the number of terms.
        activation: g, with its Gaussian averages.
        rows: weights → the w_k, (units, N).
        coefficients: weights → c, (units,).
        biases: weights → b, (units,), or None for zeros.
    """

    units: int
    activation: AbstractActivation
    rows: Callable[[Weights], Array]
    coefficients: Callable[[Weights], Array]
    biases: Callable[[Weights], Array | None]


def joined(student: Array | None, teacher: Array | None, sizes: tuple[int, int]) -> Array | None:
    """Biases of student and teacher as one vector; None if neither has any."""
    if student is None and teacher is None:
        return None
    whole = (
        jnp.zeros(n) if b is None else b for b, n in zip((student, teacher), sizes, strict=True)
    )
    return jnp.concatenate([jnp.asarray(b) for b in whole])


class GaussianGradients(NamedTuple):
    """Averages of a function's gradients ∇ = ∂/∂input over centred Gaussian inputs.

    Attributes:
        dim: the number of inputs.
        mean_product: covariance of the inputs → E[∇f ∇fᵀ], (dim, dim).
    """

    dim: int
    mean_product: Callable[[Covariance], np.ndarray]
