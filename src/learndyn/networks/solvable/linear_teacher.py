"""A linear map as a teacher."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.runtime.bounds import COUNT, bounded
from learndyn.runtime.checks import finite, numbers, positive_int
from learndyn.runtime.types import Array, Weights


@bounded(outputs=COUNT)
class LinearTeacher(AbstractNetwork):
    """output = A x, without a factor 1/√N.

    Args:
        outputs: number of outputs.
        matrix: A, (outputs, inputs); None draws normal entries of variance 1/inputs.

    Raises:
        ValueError: for a matrix whose rows are not the outputs.

    Example:
        >>> import learndyn as ld
        >>> ld.LinearTeacher(2, [[3.0, 0.0], [0.0, 1.0]]).matrix.shape
        (2, 2)
    """

    outputs: int = eqx.field(static=True)
    matrix: np.ndarray | None

    def __init__(self, outputs: int, matrix: Sequence | np.ndarray | None = None):
        self.outputs = rows = positive_int("outputs", outputs)
        self.matrix = None if matrix is None else finite("matrix", numbers("matrix", matrix))
        if self.matrix is not None and (self.matrix.ndim != 2 or len(self.matrix) != rows):
            came = self.matrix.shape
            raise ValueError(f"matrix: got shape {came}; allowed is ({rows}, inputs)")

    @property
    def accepts_single_example(self) -> bool:
        return True

    @property
    def is_linear(self) -> bool:
        return True

    def matrix_of(self, weights: Weights) -> Array | None:
        return weights

    @property
    def input_shape(self) -> Shape | None:
        return (None,) if self.matrix is None else self.matrix.shape[1:]

    @property
    def fixed_weights(self) -> Weights | None:
        return self.matrix

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return (self.outputs,)

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        if self.matrix is not None and self.matrix.shape[1:] != input_shape:
            came, allowed = self.matrix.shape, (self.outputs, *input_shape)
            raise ValueError(f"matrix: got shape {came}; allowed is {allowed}")

    def __call__(self, weights: Weights, x: Array) -> Array:
        return x @ weights.T

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        (dim,) = input_shape
        # Drawn in any case, so that later numbers of `rng` are the same with and without a matrix.
        drawn = rng.standard_normal((self.outputs, dim)) / np.sqrt(dim)
        return drawn if self.matrix is None else self.matrix

    def dim_of(self, weights: Weights) -> int:
        return weights.shape[-1]
