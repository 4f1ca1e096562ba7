"""The parts of a system in which a committee learns from a committee."""

import functools
from typing import Any, NamedTuple, TypeVar, cast

import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractInitialisation, Committee
from learndyn.networks.closed_forms import joined
from learndyn.numerics.gaussian import Units
from learndyn.problems import Gaussian, Spectrum, TeacherStudent
from learndyn.rules import StepLaw
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.types import Array
from learndyn.system import System

# beartype knows no `Self` in a NamedTuple.
Own = TypeVar("Own", bound="CommitteeSetting")


class CommitteeSetting(NamedTuple):
    """The parts of a covered system, with the types that `covers` has checked.

    Attributes:
        problem: inputs, label noise and loss.
        student: the network that learns.
        teacher: the network that labels.
        rule: the rates; those of one time where they change, by `at`.
        spectrum: the levels of the inputs.
        units: Gaussian averages of the units of both networks.
    """

    problem: TeacherStudent
    student: Committee
    teacher: Committee
    rule: StepLaw
    spectrum: Spectrum
    units: Units

    @staticmethod
    def of(system: System, **resolution: Any) -> "CommitteeSetting":
        """The setting of a system that the theory covers; for `resolution` see `Units`."""
        problem = cast(TeacherStudent, system.problem)
        student, rule = cast(Committee, system.network), system.rule.step_law
        teacher = cast(Committee, problem.teacher)
        assert rule is not None and isinstance(problem.inputs, Gaussian)
        sizes = student.units, teacher.units
        units = units_of(student.g, teacher.g, *sizes, **resolution)
        return CommitteeSetting(problem, student, teacher, rule, problem.inputs.spectrum, units)

    def at(self: Own, time: Elapsed | None) -> Own:
        """The setting with the learning rate of a time; None, as in a start, is 0.

        It has no momentum, but its limit for N → ∞: a larger rate.
        """
        now = self.at_step(0.0 if time is None else time.value * self.spectrum.counts.sum())
        return now._replace(rule=now.rule.settled)

    def at_step(self: Own, step: Any) -> Own:
        """The setting with the learning rate of a step."""
        return self._replace(rule=self.rule.at(step))

    def at_most(self: Own, end: float | int) -> Own:
        """As `at`, with the largest learning rate until a time."""
        return self._replace(rule=self.rule.at_most(end * self.problem.dim).settled)

    def stops(self, end: float) -> np.ndarray:
        """Times until `end` at which an integration has to stop in order to see a schedule."""
        return self.rule.stops(end * self.problem.dim) / self.problem.dim

    @property
    def h(self) -> Array:
        """2 · loss_scale · η: a step of w_i is h · scale · v_i g'_i (target − output) x/√N."""
        return 2 * self.problem.loss_scale * self.rule.learning_rate

    @property
    def part_rates(self) -> tuple[Array, Array]:
        """2 · loss_scale times N times the rates of outputs and biases."""
        _, outputs, biases = self.rule.rates
        factor = 2 * self.problem.loss_scale
        return factor * outputs, factor * biases

    def v(self, state: Any) -> Array | None:
        """The student's output weights without `scale`, (K,); None for ones."""
        return self.student.numbers("outputs", state.outputs)

    def c(self, state: Any) -> Array:
        """The signed output weights c of target − output = Σ_k c_k f_k(z_k + b_k), (K + M,).

        z are the pre-activations of student and teacher.
        """
        teacher = self.teacher.numbers("outputs", state.teacher_outputs)
        readouts = -self.student.readout(self.v(state)), self.teacher.readout(teacher)
        return jnp.concatenate(readouts)

    def biases(self, state: Any) -> Array | None:
        """The b_k of student and teacher, (K + M,); None if neither has any."""
        student = self.student.numbers("biases", state.biases)
        teacher = self.teacher.numbers("biases", state.teacher_biases)
        return joined(student, teacher, (self.units.K, self.units.M))

    @property
    def learning(self) -> Array:
        """1 for every level whose directions are trained, 0 for the others, (levels,)."""
        counts = self.spectrum.counts
        xp = np if isinstance(counts, np.ndarray) else jnp
        if "inputs" not in self.student.train:
            return np.zeros(len(counts))
        if self.student.trainable is None:
            return np.ones(len(counts))
        return (xp.cumsum(counts) <= self.student.trainable).astype(np.float64)

    @property
    def biased(self) -> bool:
        """Whether a unit of the student or the teacher has a bias."""
        has = lambda network: network.carries("biases") or network.biases is not None
        return has(self.student) or has(self.teacher)

    @property
    def special(self) -> str:
        """What closed forms of equal, fixed output weights do not cover; "" if nothing is there."""
        both = (self.student, self.teacher)
        reasons = {
            "output weights of their own": any(n.outputs is not None for n in both),
            "biases": self.biased,
            "trained outputs or biases": self.student.train != ("inputs",),
            "different activations": self.student.activation != self.teacher.activation,
            "decay": self.rule.decay is not None,
            "a learning rate that changes": self.rule.scheduled,
            "momentum": self.rule.inertia is not None,
        }
        return next((reason for reason, there in reasons.items() if there), "")


def units_of(student: Any, teacher: Any, K: int, M: int, **resolution: Any) -> Units:
    """The Gaussian averages of two activations; for `resolution` see `Units`."""
    return _units(student, teacher, K, M, tuple(resolution.items()))


@functools.lru_cache(maxsize=256)  # a setting is asked for several times per call
def _units(student: Any, teacher: Any, K: int, M: int, resolution: tuple[Any, ...]) -> Units:
    return Units(student, teacher, K, M, **dict(resolution))


def mean_square(part: np.ndarray | AbstractInitialisation | None) -> float:
    """The expected square of an output weight before training."""
    if isinstance(part, AbstractInitialisation):
        return part.variance
    return 1.0 if part is None else float(np.mean(np.square(part)))
