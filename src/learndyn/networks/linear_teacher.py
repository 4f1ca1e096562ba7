"""A linear map as a teacher."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.numerics.checks import finite, positive_int
from learndyn.numerics.types import Array


class LinearTeacher(AbstractNetwork):
    """output = A x, without a factor 1/√N.

    Args:
        outputs: number of outputs.
        matrix: A, (outputs, inputs); None draws normal entries of variance 1/inputs.
    """

    outputs: int | None = eqx.field(static=True)
    matrix: np.ndarray | None

    def __init__(self, outputs: int, matrix: Sequence | np.ndarray | None = None):
        self.outputs = rows = positive_int("outputs", outputs)
        self.matrix = None if matrix is None else finite("matrix", np.asarray(matrix, np.float64))
        if self.matrix is not None and (self.matrix.ndim != 2 or len(self.matrix) != rows):
            came = self.matrix.shape
            raise ValueError(f"matrix: got shape {came}; allowed is ({rows}, inputs)")

    def check_input(self, dim: int) -> None:
        if self.matrix is not None and self.matrix.shape[1] != dim:
            came, allowed = self.matrix.shape, (self.outputs, dim)
            raise ValueError(f"matrix: got shape {came}; allowed is {allowed}")

    def __call__(self, weights: Weights, x: Array) -> Array:
        return x @ weights.T

    def sample(self, rng: np.random.Generator, dim: int, target: Array | None = None) -> Weights:
        drawn = rng.standard_normal((self.outputs or 1, dim)) / np.sqrt(dim)
        return drawn if self.matrix is None else self.matrix

    def steps_per_time(self, dim: int) -> int:
        return 1

    @property
    def time_unit(self) -> str:
        return "steps"
