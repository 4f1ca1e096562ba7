"""The parts of a system whose inputs are a mixture, or whose networks have several outputs."""

from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.numerics.gaussian import Units
from learndyn.numerics.gaussian import activation as activation_of
from learndyn.problems import Gaussian, LabelledMixture, Mixture, TeacherStudent
from learndyn.runtime.types import Array
from learndyn.system import System
from learndyn.theory.committee.setting import CommitteeSetting

Problem = TeacherStudent | LabelledMixture
NOBODY = Committee(1, "linear")  # stands for the teacher of a problem without one


class Clusters(eqx.Module):
    """What a theory needs of the inputs: in every level each cluster has one variance.

    Attributes:
        probabilities: of the clusters, (clusters,).
        values: the variances, (clusters, levels).
        counts: the dimensions N_l of the levels, (levels,).
        means: how many clusters have a mean: all of a mixture, none of Gaussian inputs.
    """

    probabilities: Array
    values: Array
    counts: Array
    means: int = eqx.field(static=True)

    @staticmethod
    def of(inputs: Gaussian | Mixture) -> "Clusters":
        """The clusters of inputs; Gaussian inputs are one."""
        if isinstance(inputs, Gaussian):
            return Clusters(np.ones(1), inputs.spectrum.values[None], inputs.spectrum.counts, 0)
        return Clusters(inputs.probabilities, *inputs.levels, inputs.clusters)

    @property
    def dim(self) -> int:
        """The dimension N."""
        return int(self.counts.sum())

    @property
    def levels(self) -> int:
        """The number of levels."""
        return len(self.counts)


class GeneralSetting(CommitteeSetting):
    """A `CommitteeSetting` whose field `spectrum` is the `Clusters` of a mixture.

    The state's rows are those of the students, of the teachers, and √N times the means: teachers
    without an output. Without a teacher, constants per cluster are units too: linear ones of
    variance 0, whose mean is the target. `teacher` is then `NOBODY`.
    """

    @staticmethod
    def of(system: System, **resolution: Any) -> "GeneralSetting":
        problem, student = cast(Problem, system.problem), cast(Committee, system.network)
        rule = system.rule.step_law
        assert rule is not None
        given: Any = problem.inputs
        inputs: Any = given.spectrum if isinstance(given, Gaussian) else Clusters.of(given)
        if isinstance(problem, LabelledMixture):
            teacher, labels = NOBODY, activation_of("activation", "linear")
            count = problem.targets[0].size
        else:
            teacher = cast(Committee, problem.teacher)
            labels, count = teacher.g, teacher.units
        units = Units(student.g, labels, student.units, count, **resolution)
        whole: Any = problem
        return GeneralSetting(whole, student, teacher, rule, inputs, units)

    @property
    def clusters(self) -> Clusters:
        """The clusters of the inputs."""
        return Clusters.of(self.problem.inputs)

    @property
    def targets(self) -> Array | None:
        """The constant targets, (clusters, outputs); None if a teacher labels."""
        problem: Any = self.problem
        if not isinstance(problem, LabelledMixture):
            return None
        xp = np if isinstance(problem.targets, np.ndarray) else jnp
        return xp.reshape(problem.targets, (len(problem.targets), -1))

    @property
    def teachers(self) -> int:
        """The number of the teacher's rows in the state."""
        return 0 if isinstance(cast(Any, self.problem), LabelledMixture) else self.teacher.units

    @property
    def fixed(self) -> int:
        """The number of all rows in the state that never change: teachers and means."""
        return self.teachers + self.clusters.means

    def v(self, state: Any) -> Array:
        """The student's output weights without `scale`, (K, outputs)."""
        return columns(self.student.numbers("outputs", state.outputs), self.student.units)

    def c(self, state: Any) -> Array:
        """The signed output weights of target − output = Σ_k c_k f_k(z_k + b_k), (n, outputs)."""
        own = -jnp.asarray(self.student.scale) * self.v(state)
        if self.targets is not None:
            return jnp.concatenate([own, jnp.eye(own.shape[1])])
        weights = self.teacher.numbers("outputs", state.teacher_outputs)
        labels = jnp.asarray(self.teacher.scale) * columns(weights, self.teacher.units)
        return jnp.concatenate([own, labels])

    def covariances(self, state: Any) -> Array:
        """The covariance of all units in every cluster, (clusters, n, n)."""
        rows = self.units.K + self.teachers
        gram = jnp.asarray(state.gram)[:, :rows, :rows]
        sigma = jnp.einsum("cl,lij->cij", jnp.asarray(self.clusters.values), gram)
        still = self.units.K + self.units.M - rows  # units without a row
        return jnp.pad(sigma, ((0, 0), (0, still), (0, still)))

    def means(self, state: Any) -> Array | None:
        """The mean of every pre-activation in every cluster, (clusters, n); None if all are 0."""
        K, n = self.units.K, self.units.K + self.units.M
        own = self.student.numbers("biases", state.biases)
        others = None
        if self.targets is None:
            others = self.teacher.numbers("biases", state.teacher_biases)
        if not self.clusters.means and own is None and others is None:
            return None
        mean = jnp.zeros((len(self.clusters.probabilities), n))
        if self.clusters.means:
            along = jnp.sum(jnp.asarray(state.gram), axis=0)[
                : K + self.teachers, -self.clusters.means :
            ]
            mean = mean.at[:, : len(along)].add(along.T)
        mean = mean if own is None else mean.at[:, :K].add(own)
        mean = mean if others is None else mean.at[:, K:].add(others)
        return mean if self.targets is None else mean.at[:, K:].add(self.targets)

    @property
    def biased(self) -> bool:
        """Whether a unit has a bias or a mean."""
        has = lambda network: network.carries("biases") or network.biases is not None
        return bool(self.clusters.means) or has(self.student) or has(self.teacher)


def columns(weights: Array | None, units: int) -> Array:
    """Output weights as a matrix (units, outputs); None is a single output with ones."""
    if weights is None:
        return jnp.ones((units, 1))
    return jnp.asarray(weights).reshape(units, -1)
