"""Committees that learn online with other losses, by classical rules, or from a moving teacher."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.numerics.gaussian.sign import Sign
from learndyn.problems import CrossEntropy, Gaussian, SquaredLoss, TeacherStudent
from learndyn.problems.drift import partners
from learndyn.problems.margins import HebbianLoss
from learndyn.runtime.checks import a_kind, one_of, shown
from learndyn.runtime.precision import compiled_in_float64, full_precision
from learndyn.runtime.types import Array, Weights
from learndyn.system import System
from learndyn.theory.base import (
    AbstractTheory,
    Coverage,
    Realise,
    Reference,
    Variable,
    beyond_gradient,
    beyond_sgd,
)
from learndyn.theory.chain import AbstractChain
from learndyn.theory.committee.dynamics import stiff
from learndyn.theory.committee.dynamics.overlaps import covariance, error
from learndyn.theory.committee.dynamics.terms import LevelRates
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps, checked
from learndyn.theory.committee.theory import VARIABLES, CommitteeTheory
from learndyn.theory.dynamics import (
    Clock,
    Explicit,
    Flow,
    Integration,
    Map,
    Noise,
    Refused,
    Stabilised,
)
from learndyn.theory.online import averages, landmarks
from learndyn.theory.online.chain import MovingChain, OnlineChain
from learndyn.theory.online.drift import averages_of, drift, labelling, student_of, unit_of
from learndyn.theory.online.pull import criterion_of, law_of
from learndyn.theory.online.setting import OnlineSetting


class OnlineTheory(CommitteeTheory):
    """Overlaps of a committee in online learning, exact as N → ∞, where `CommitteeTheory` ends.

    - Losses of margins, `Logistic`, `Hinge` and `CrossEntropy`, and the rules `Hebb`, `Perceptron`
      and `AdaTron`: students of up to three units, a teacher of one "sign" unit. Averages are by
      quadrature.
    - Teachers that move, `TeacherStudent(drift=…)`, with these losses or a squared one.

    Args:
        system: the system.
        resolution: as of `CommitteeTheory`.

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "sign"))
        >>> system = ld.System(problem, ld.Committee(1, "linear"), ld.AdaTron(1.0))
        >>> ld.theory_of(system).landmarks()
        {'error_exponent': -1.0, 'error_prefactor': 1.5}
    """

    name: ClassVar[str] = "online"
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("biehl1994perceptron", "perceptron and AdaTron rules, asymptotic errors"),
        Reference("biehl1993drifting", "drifting teachers"),
        Reference("saad1995online", "overlaps of students and teachers"),
    )
    units: ClassVar[dict[str, str]] = landmarks.UNITS

    @classmethod
    def covers(cls, system: System) -> Coverage:
        problem, network, rule = system.problem, system.network, system.rule
        if not isinstance(network, Committee):
            return Coverage("none", f"the network is {a_kind(network)}, not a Committee")
        if not (isinstance(problem, TeacherStudent) and isinstance(problem.teacher, Committee)):
            return Coverage("none", "the target is not a Committee teacher")
        if not isinstance(problem.inputs, Gaussian):
            return Coverage("none", f"the inputs are {a_kind(problem.inputs)}, not Gaussian")
        if network.columns or problem.teacher.columns:
            return Coverage("none", "the network has a matrix of output weights")
        if law_of(rule) is None:
            return Coverage("none", beyond_sgd(rule))
        moves = problem.moves_teacher
        beyond = beyond_gradient(rule, decay=True, schedule=True, momentum=not moves)
        if beyond is not None:
            return Coverage("none", beyond)
        criterion = criterion_of(problem, rule)
        if criterion is None:
            if not isinstance(problem.loss, SquaredLoss):
                return Coverage("none", f"the loss is {shown(problem.loss)}, not one of margins")
            if not moves:
                return Coverage("none", "the loss is squared and the teacher at rest")
        elif (reason := _beyond_quadrature(problem, network)) is not None:
            return Coverage("none", reason)
        return _coverage(OnlineSetting.of(system))

    @property
    def _own(self) -> OnlineSetting:
        return OnlineSetting.of(self.system, **dict(self.resolution))

    @property
    def _setting(self) -> CommitteeSetting:
        return self._own.committee

    def resolved(self, states, accuracy=None) -> "OnlineTheory":
        if self._own.criterion is not None:  # quadrature has one resolution
            return AbstractTheory.resolved(self, states, accuracy)  # pyright: ignore
        M = self._setting.teacher.units
        labels = [dataclasses.replace(s, R=s.R[:, :, :M], T=s.T[:, :M, :M]) for s in states]
        return super().resolved(labels, accuracy)  # pyright: ignore

    def attributes(self, state: Overlaps) -> dict[str, Any]:
        setting = self._own
        if setting.criterion is None:
            return super().attributes(labelling(setting, state))
        student = setting.committee.student
        exact = averages.resolved(setting.criterion, student.units, student.g)
        return {"averages": "quadrature" if exact else "quasi-random points"}

    @property
    def orders(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return ("full", "flow")

    @property
    def variables(self) -> dict[str, Variable]:  # pyright: ignore[reportIncompatibleVariableOverride]
        signs = ("classification_error",) if self._classifies else ()
        return {name: VARIABLES[name] for name in ("Q", "R", *self._own_parts, "error", *signs)}

    @property
    def _classifies(self) -> bool:
        return self._own.criterion is not None

    @property
    def _rotates(self) -> bool:
        drift = self._setting.problem.drift
        return drift is not None and drift.rotation is not None

    def sample(self, key: int) -> tuple[Overlaps, Realise]:
        if self._rotates:  # the partners follow from the teacher's weights
            return AbstractTheory.sample(self, key)
        return super().sample(key)

    def as_state(self, state: Any) -> Overlaps:
        if not self._rotates:
            return super().as_state(state)
        own = self._setting
        both = checked(state, own.spectrum.levels, own.student.units, 2 * own.teacher.units)
        labels = super().as_state(labelling(self._own, both))
        return dataclasses.replace(labels, R=both.R, T=both.T)

    def project(self, weights: Weights, teacher: Weights) -> Overlaps:
        if not self._rotates:
            return super().project(weights, teacher)
        rows = teacher if self._setting.teacher.is_array else teacher.inputs
        xp = np if isinstance(rows, np.ndarray) else jnp
        inputs = self._setting.problem.inputs
        assert isinstance(inputs, Gaussian)
        turned = partners(rows.astype(np.float64), inputs)
        both = xp.concatenate([rows.astype(np.float64), turned])
        if self._setting.teacher.is_array:
            return super().project(weights, both)
        return super().project(weights, teacher._replace(inputs=both))

    def realise(self, state: Overlaps, key: int) -> tuple[Weights, Weights] | Refused:  # pyright: ignore
        if self._rotates:
            return Refused("the partners of a teacher that rotates follow from its weights")
        return super().realise(state, key)

    def bound(self, state: Any) -> Array:
        # Under Hebb's rule norms grow with the number of steps, and the error falls.
        grows = isinstance(self._own.criterion, HebbianLoss)
        return jnp.asarray(jnp.inf) if grows else super().bound(state)

    def dynamics(self, order: str) -> Flow | Map | Refused:
        return OnlineFlow(self._own, one_of("order", order, self.orders))

    def noise(self, order: str) -> Noise | Refused:
        return Refused("the noise of its overlaps is not known")

    def chain(self) -> AbstractChain | Refused:
        if not self.system.rule.samples:
            return Refused(f"the rule is {type(self.system.rule).__name__}, which does not sample")
        setting = self._own
        if not setting.committee.problem.moves_teacher:
            return OnlineChain(setting)
        own = setting.committee
        rows = own.student.units + own.teacher.units * (2 if self._rotates else 1)
        vectors = (own.rule.batch or 0) + (0 if self._rotates else own.teacher.units)
        if np.min(own.spectrum.counts) < rows + vectors:
            return Refused(f"a level has fewer than {rows + vectors} dimensions")
        return MovingChain(setting)

    @compiled_in_float64
    def observe(self, state: Any) -> dict[str, Any]:
        setting = self._own
        own, K = setting.committee, setting.committee.student.units
        labels = labelling(setting, state)
        sigma = covariance(own, labels)
        parts = {name: getattr(state, name) for name in self._own_parts}
        values = {"Q": sigma[:K, :K], "R": sigma[:K, K:], **parts}
        if setting.criterion is None:
            return {**values, "error": error(own, labels, sigma)}
        about = setting.criterion, student_of(setting, labels), unit_of(setting, labels)
        size = jnp.abs(own.c(labels)[-1])
        loss = lambda output, label: setting.loss.each(output, size * label, 0)
        values["error"] = averages.mean_of(loss, *about, sigma)
        return {**values, "classification_error": averages.misclassified(*about, sigma)}

    def invariants(self, state: Overlaps) -> dict[str, np.ndarray]:
        return {}

    def landmarks(self) -> dict[str, float]:
        """Asymptotic errors of the classical rules, or the tracking error of a linear unit.

        For one linear unit without biases, and isotropic inputs of variance 1. `error_exponent`
        and `error_prefactor` give the classification error c · α^exponent at long times, without
        label noise, at a constant rate and for batches of one example. With a teacher that moves,
        a squared loss and a linear teacher: the stationary error at the rule's rate, and the best
        constant rate with its error.

        Returns:
            The landmarks; empty elsewhere.
        """
        return landmarks.of(self._own)

    def landmark_units(self) -> dict[str, str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {name: self.units[name] for name in self.landmarks()}


class OnlineFlow(Flow):
    """The drift of the overlaps: order "full", or "flow", its limit for a small learning rate."""

    setting: OnlineSetting
    order: str = eqx.field(static=True)

    @property
    def clock(self) -> Clock:
        return Clock("steps / N", float(self.setting.committee.problem.dim), 1.0)

    @compiled_in_float64
    def drift(self, state: Overlaps) -> Overlaps:
        return drift(self.setting, state, self.order)

    def integration(self, state: Overlaps, end: float) -> Integration:
        with full_precision():
            radius = float(eqx.filter_jit(self.radius)(state))
        return Explicit(state) if stiff.is_easy(radius, end) else Stabilised(state, self.radius)

    def stops(self, end: float) -> np.ndarray:
        return self.setting.committee.stops(end)

    def radius(self, state: Overlaps) -> Array:
        """A bound on the spectral radius of the Jacobian, as that of committees."""
        setting = self.setting.at(state.time)
        own, labels = setting.committee, labelling(setting, state)
        D = averages_of(setting, labels, covariance(own, labels)).D
        bound = 2 * jnp.max(LevelRates.of(own).first) * jnp.sqrt(jnp.sum(D**2))
        bound += 0.0 if own.rule.decay is None else 2 * jnp.asarray(own.rule.decay)
        for part, rate in zip(("outputs", "biases"), own.part_rates, strict=True):
            bound += rate * own.student.scale * (part in own.student.train)
        moves = own.problem.drift
        if moves is None:
            return bound
        return bound + 2 * sum(jnp.asarray(rate) for rate in jax.tree.leaves(moves))


def _beyond_quadrature(problem: TeacherStudent, student: Committee) -> str | None:
    """Why averages with a loss of margins are not known; None if they are."""
    teacher = problem.teacher
    assert isinstance(teacher, Committee)
    if student.units > averages.MOST_UNITS:
        return f"the student has {student.units} units, and quadrature at most three"
    if teacher.units != 1 or not isinstance(teacher.g, Sign):
        return "the teacher of a loss of margins is not one 'sign' unit"
    if not isinstance(problem.loss, CrossEntropy):
        return None
    v = np.ones(1) if teacher.outputs is None else teacher.outputs
    one = isinstance(v, np.ndarray) and np.all(teacher.scale * abs(v) == 1)
    if one and problem.label_noise == 0:
        return None
    return "labels are not ±1, as CrossEntropy needs; Logistic() takes their signs"


# The limit N → ∞ counts as exact if one step changes at most this share of a level's weights.
RENEWED = 0.1
LATEST = 1e4  # time until which a learning rate that changes is looked at for that


def _coverage(setting: OnlineSetting) -> Coverage:
    """How well the limit N → ∞ describes a system of the theory's kind."""
    own = setting.committee
    if own.student.trainable is not None:
        return Coverage("none", "some directions are not trained")
    largest = own.at_most(LATEST)
    share = float(largest.h * own.student.scale * own.spectrum.values[0] / own.spectrum.dim)
    if own.rule.noise and share > RENEWED:
        return Coverage("approximate", f"a step renews {share:.2g} of the first level")
    limit = "as N → ∞ with λ_l / N → 0 in every level"
    if setting.criterion is None:
        approximate = own.units.approximate(own.biased)
    else:
        g, K = own.student.g, own.student.units
        approximate = not averages.resolved(setting.criterion, K, g)
    if approximate:
        return Coverage("approximate", f"{limit}, with averages over quasi-random points")
    return Coverage("exact", limit)
