"""A finite data set."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.checks import finite, positive
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array, Number
from learndyn.problems.base import AbstractProblem, MapStatistics, Sampler


class Dataset(AbstractProblem):
    """Examples (x, y), given; loss = loss_scale · |y − output|², averaged over examples.

    Rules without sampling see all of it, `SGD` draws `batch` examples a step with
    replacement. There is no teacher.

    Args:
        x: inputs (examples, dim).
        y: targets (examples, outputs), or (examples,) for a network with a scalar output.
        loss_scale: factor of the squared error.
    """

    x: np.ndarray
    y: np.ndarray
    loss_scale: np.ndarray

    def __init__(
        self, x: Sequence | np.ndarray, y: Sequence | np.ndarray, *, loss_scale: Number = 0.5
    ):
        self.x = finite("x", np.asarray(x, dtype=np.float64))
        self.y = finite("y", np.asarray(y, dtype=np.float64))
        self.loss_scale = positive("loss_scale", loss_scale)
        if self.x.ndim != 2 or self.y.ndim not in (1, 2) or len(self.x) != len(self.y):
            shapes = f"x {self.x.shape} and y {self.y.shape}"
            raise ValueError(f"Dataset: got {shapes}; allowed is one row of each an example")

    @property
    def dim(self) -> int:
        return self.x.shape[1]

    @property
    def outputs(self) -> int | None:
        return self.y.shape[1] if self.y.ndim == 2 else None

    @property
    def fixed_teacher(self) -> Weights | None:
        return ()

    def draw_teacher(self, rng: np.random.Generator) -> Weights:
        return ()

    def sampler(self, teacher: Weights, dtype) -> Sampler:
        x, y = jnp.asarray(self.x, dtype), jnp.asarray(self.y, dtype)

        def sample(source: Source, shape: tuple[int, ...]) -> tuple[Array, Array]:
            index = source.integers(shape, len(x))
            return x[index], y[index]

        return sample

    def noiseless(self) -> "Dataset":
        return self

    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        """The least-squares map, of least norm, and X/√P as a root of the correlations."""
        if self.outputs is None:
            return None
        x = jnp.asarray(self.x)
        return MapStatistics((jnp.linalg.pinv(x) @ self.y).T, x.T / np.sqrt(len(self.x)))
