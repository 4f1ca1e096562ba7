"""What some networks state in closed form about themselves, for Gaussian inputs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from learndyn.numerics.gaussian import AbstractClosedForm
from learndyn.runtime.types import Array, Weights

Covariance = Callable[[list[int]], np.ndarray]  # indices of inputs → the covariance of these inputs


class UnitSum(NamedTuple):
    """A network of the form output = Σ_k c_k g(w_k · x/√N).

    Attributes:
        coefficients: c, (units,).
        activation: g, with its Gaussian averages.
        rows: weights → the w_k, (units, N), with a gradient only in the directions that learn.
    """

    coefficients: Array
    activation: AbstractClosedForm
    rows: Callable[[Weights], Array]


class GaussianGradients(NamedTuple):
    """Averages of a function's gradients ∇ = ∂/∂input over centred Gaussian inputs.

    Attributes:
        dim: the number of inputs.
        mean_product: covariance of the inputs → E[∇f ∇fᵀ], (dim, dim).
    """

    dim: int
    mean_product: Callable[[Covariance], np.ndarray]
