"""Distributions from which the rows of a weight matrix are drawn."""

import abc

import numpy as np

from learndyn.numerics.linalg import orthonormal_rows
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.checks import positive
from learndyn.runtime.types import Array, Number
from learndyn.runtime.values import Value


class AbstractInitialisation(Value):
    """A distribution for the rows of a weight matrix.

    Theories know the overlaps of `Normal`, `Orthonormal` and `Typical` in closed form. From any
    other distribution, such as your own subclass, they sample weights and take the overlaps of
    these.
    """

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """The mean square of an entry: the expected overlap of a row with itself, per dimension."""

    @property
    def root_mean_square(self) -> Array:
        """√variance, which ours also state while their numbers are traced."""
        return np.asarray(self.variance**0.5)

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, units: int, dim: int) -> np.ndarray:
        """Weights (units, dim) from the distribution, in float64."""


@bounded(std=POSITIVE)
class Normal(AbstractInitialisation):
    """Independent entries of mean 0 and standard deviation `std`.

    Args:
        std: standard deviation of an entry.

    Raises:
        ValueError: if `std` is not positive.

    Example:
        >>> import learndyn as ld
        >>> ld.Normal(0.5).variance
        0.25
    """

    std: np.ndarray

    def __init__(self, std: Number):
        self.std = positive("std", std)

    @property
    def variance(self) -> float:
        return float(self.std**2)

    @property
    def root_mean_square(self) -> Array:
        return self.std

    def sample(self, rng: np.random.Generator, units: int, dim: int) -> np.ndarray:
        return self.std * rng.standard_normal((units, dim))


@bounded(norm=POSITIVE)
class Orthonormal(AbstractInitialisation):
    """Orthogonal rows with |w|² = norm² N, uniform over all such sets.

    Args:
        norm: length of a row in units of √N.

    Raises:
        ValueError: if `norm` is not positive.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> rows = ld.Orthonormal(1.0).sample(np.random.default_rng(0), 2, 100)
        >>> bool(np.allclose(rows @ rows.T / 100, np.eye(2)))
        True
    """

    norm: np.ndarray

    def __init__(self, norm: Number = 1.0):
        self.norm = positive("norm", norm)

    @property
    def variance(self) -> float:
        return float(self.norm**2)

    @property
    def root_mean_square(self) -> Array:
        return self.norm

    def sample(self, rng: np.random.Generator, units: int, dim: int) -> np.ndarray:
        return self.norm * np.sqrt(dim) * orthonormal_rows(rng.standard_normal((units, dim)))


class Typical(AbstractInitialisation):
    """Weights whose overlaps equal their expectation under `Normal(1)`: nothing is drawn.

    The rows are orthogonal in every covariance level, with |P_l w|² = N_l, and orthogonal to those
    of the other network if it is `Typical` too. If the other network's weights are sampled, the
    directions of the rows are random.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(2, "erf", init=ld.Typical())
        >>> problem = ld.TeacherStudent(ld.PowerLaw(100, 2, 1.0), teacher)
        >>> system = ld.System(problem, ld.Committee(2, "erf", init=ld.Typical()), ld.SGD(0.1))
        >>> ld.start(system).state.T.round(6).tolist()  # half of the inputs in each level
        [[[0.5, 0.0], [0.0, 0.5]], [[0.5, 0.0], [0.0, 0.5]]]
    """

    @property
    def variance(self) -> float:
        return 1.0

    def sample(self, rng: np.random.Generator, units: int, dim: int) -> np.ndarray:
        raise ValueError("init: got Typical() without a theory; allowed is Normal or Orthonormal")
