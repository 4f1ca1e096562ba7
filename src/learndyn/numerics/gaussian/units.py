"""Gaussian averages over the hidden units of a student and a teacher.

z = (student, teacher) pre-activations are jointly Gaussian and centred, with covariance Σ; unit k
computes f_k(z_k + b_k), where f_k = g for the K students, f for the M teachers.
"""

import equinox as eqx

from learndyn.numerics.gaussian.base import AbstractActivation, tabulate
from learndyn.runtime.types import Array


class Units(eqx.Module):
    """K units with activation g, then M units with activation f, with their Gaussian averages.

    Arguments of the methods are traced: `sigma` the covariance (n, n) of z, n = K + M, `biases`
    (n,) or None. None is known when a program is compiled, so that units without biases keep their
    closed forms.

    Args:
        student: g.
        teacher: f.
        K: number of students.
        M: number of teachers.
        accuracy: the error that averages without a closed form aim at, relative to the largest.
    """

    student: AbstractActivation
    teacher: AbstractActivation
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    accuracy: float = eqx.field(static=True, default=1e-6)

    def values(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[f_k f_l], (n, n)."""
        self._check(biases)
        return tabulate(self.student.I2, sigma, self._every, self._every)

    def slopes(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[g'_i f'_k], (K, n)."""
        self._check(biases)
        return tabulate(self.student.slopes, sigma, self._students, self._every)

    def curvatures(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[g''_i f_k], (K, n)."""
        self._check(biases)
        average = self.student.curvature_times_value
        return tabulate(average, sigma, self._students, self._every)

    def slope_values(self, sigma: Array, biases: Array | None = None) -> Array:
        """E[g'_i f_k], (K, n): the drift of the biases."""
        raise NotImplementedError

    def noise(self, sigma: Array, c: Array, biases: Array | None = None) -> Array:
        """E[g'_i g'_j Δ²], (K, K), where Δ = Σ_k c_k f_k for weights c (n,)."""
        self._check(biases)
        return self.student.weighted_noise(sigma, c, self.K)

    def resolved(self, sigma: Array, biases: Array | None = None) -> "Units":
        """The same units, with the numerical resolution that a given covariance needs.

        It is chosen before anything is compiled, so `sigma` and `biases` are numbers here.
        """
        return self

    def method(self, biased: bool = False) -> str:
        """How the averages are computed: "closed form", or the names of the approximations."""
        return "closed form"

    def approximate(self, biased: bool = False) -> bool:
        """Whether some average has an error of order 1 % (quasi-random points)."""
        return False

    def error(self, sigma: Array, c: Array, biases: Array | None = None) -> float:
        """The relative change of the averages under refinement; 0.0 for closed forms."""
        return 0.0

    @property
    def _students(self) -> range:
        return range(self.K)

    @property
    def _every(self) -> range:
        return range(self.K + self.M)

    def _check(self, biases: Array | None) -> None:
        if biases is not None or self.student != self.teacher:
            raise NotImplementedError
