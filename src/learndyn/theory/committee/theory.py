"""A committee that learns from a committee: the closed theory of the overlaps.

The right-hand sides are in `dynamics.overlaps`.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee, Typical
from learndyn.numerics.rosenbrock import Solve
from learndyn.problems import Gaussian, SquaredLoss, TeacherStudent
from learndyn.runtime.checks import a_kind, one_of, positive
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.precision import compiled_in_float64, full_precision
from learndyn.runtime.types import Array, Number, Weights
from learndyn.system import System
from learndyn.theory.base import (
    AbstractTheory,
    Coverage,
    Given,
    Realise,
    Reference,
    Variable,
    beyond_gradient,
    beyond_sgd,
)
from learndyn.theory.chain import AbstractChain
from learndyn.theory.committee import landmarks
from learndyn.theory.committee.dynamics import (
    classification,
    diffusion,
    inertia,
    linear,
    overlaps,
    realisation,
    stiff,
)
from learndyn.theory.committee.dynamics.chain import CommitteeChain
from learndyn.theory.committee.dynamics.inertia import Moving
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.setting import CommitteeSetting, mean_square
from learndyn.theory.committee.state import (
    PARTS,
    Factors,
    Overlaps,
    checked,
    factors_of,
    from_gram,
)
from learndyn.theory.dynamics import (
    Clock,
    Explicit,
    Flow,
    Implicit,
    Integration,
    Map,
    Noise,
    Refused,
    Stabilised,
    State,
)

VARIABLES = {
    "Q": Variable(("student", "student'"), "student-student overlap", ""),
    "R": Variable(("student", "teacher"), "student-teacher overlap", ""),
    "outputs": Variable(("student",), "output weight", ""),
    "biases": Variable(("student",), "bias", ""),
    "error": Variable((), "generalisation error", ""),
    "classification_error": Variable((), "probability of a wrong sign", ""),
}


class CommitteeTheory(AbstractTheory):
    """Order parameters of a committee under one-pass SGD, exact as N → ∞.

    Args:
        system: the system.
        resolution: (name, value) pairs for the averages of `Units`; see `resolved`.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(1, "linear", init=ld.Orthonormal(1.0))
        >>> system = ld.System(ld.TeacherStudent(ld.Isotropic(50), teacher), teacher, ld.SGD(0.5))
        >>> ld.theory_of(system).landmarks()
        {'critical_learning_rate': 2.0}
    """

    unwritten: ClassVar[dict[str, Any]] = {"resolution": ()}

    system: System
    resolution: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())

    name: ClassVar[str] = "committee"
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("bocchi2026escape", "Eqs. 6, 33, 34 (the η² bracket of 34 corrected)"),
        Reference("worschech2024scaling", "Eqs. 18, 19 (prefactors corrected), by level"),
        Reference("saad1995online", "the averages I2, I3, I4 of erf"),
        Reference("goldt2019dynamics", "trained output weights"),
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
        if problem.moves_teacher:
            return Coverage("none", "the teacher moves, which the online theory covers")
        if not isinstance(problem.loss, SquaredLoss):
            return Coverage("none", f"the loss is {type(problem.loss).__name__}, not SquaredLoss")
        if (beyond := beyond_gradient(rule, decay=True, schedule=True, momentum=True)) is not None:
            return Coverage("none", beyond)
        if rule.step_law is None:
            return Coverage("none", beyond_sgd(rule))
        return _coverage(CommitteeSetting.of(system))

    @property
    def _setting(self) -> CommitteeSetting:
        return CommitteeSetting.of(self.system, **dict(self.resolution))

    def resolved(
        self, states: Sequence[State], accuracy: Number | None = None
    ) -> "CommitteeTheory":
        """With averages that are accurate for the pre-activations of these states."""
        setting = self._setting
        aim = {} if accuracy is None else {"accuracy": float(positive("accuracy", accuracy))}
        # Closed forms need no resolution: all states share a compiled program.
        if setting.units.method(setting.biased) == "closed form":
            return self
        units = dataclasses.replace(setting.units, **aim)
        with full_precision():
            sigmas = [np.asarray(overlaps.covariance(setting, state)) for state in states]
        units = units.resolved(np.stack(sigmas))
        resolution = (("accuracy", units.accuracy), ("spread", units.spread))
        return dataclasses.replace(self, resolution=resolution)

    def attributes(self, state: Overlaps) -> dict[str, Any]:
        """How averages are computed, and how much a finer computation changes them here."""
        setting = self._setting
        method = setting.units.method(setting.biased)
        if method == "closed form":
            return {"averages": method, "averages_error": 0.0}
        with full_precision():
            sigma, c = overlaps.covariance(setting, state), setting.c(state)
            error = setting.units.error(sigma, c, setting.biases(state))
        return {"averages": method, "averages_error": error}

    @property
    def orders(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Momentum has velocities, of which "finite" knows nothing, and "inertial" all if η is one.

        "full" and "flow" have momentum in the limit N → ∞, SGD at η/(1 − momentum).
        """
        law = self._setting.rule
        if law.inertia is None:
            return ("full", "flow", "finite")
        return ("full", "flow") if law.scheduled else ("full", "flow", "inertial")

    @property
    def variables(self) -> dict[str, Variable]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Q, R and the error; outputs and biases of the student if they are drawn or learn.

        Also the classification error, if the teacher's units are signs.
        """
        signs = ("classification_error",) if classification.classifies(self._setting) else ()
        return {name: VARIABLES[name] for name in ("Q", "R", *self._own_parts, "error", *signs)}

    @property
    def _own_parts(self) -> tuple[str, ...]:
        return tuple(name for name in ("outputs", "biases") if self._setting.student.carries(name))

    @classmethod
    def natural_clock(cls, system: System) -> Clock | None:
        """Steps / N for every committee, covered or not."""
        return _clock(system.dim) if isinstance(system.network, Committee) else None

    def sample(self, key: int) -> tuple[Overlaps, Realise]:
        """At a cost independent of N for built-in initialisations; otherwise from weights."""
        _, student, teacher, _, spectrum, _ = self._setting
        inits = student.init, teacher.init
        # The exact type: a subclass may draw from another distribution.
        if all(type(init) in realisation.LAWS for init in inits):
            state = realisation.draw(spectrum, *inits, student.units, teacher.units, key)
            if not (student.is_array and teacher.is_array):
                state = dataclasses.replace(state, **self._drawn_parts(key))
            return state, functools.partial(self.realise, state, key)
        rng = np.random.default_rng(key)
        rows, weights = self._sampled(teacher, rng), self._sampled(student, rng)
        return self.project(weights, rows), Given(weights, rows)

    def _drawn_parts(self, key: int) -> dict[str, np.ndarray | None]:
        # Their own random numbers: those of the overlaps do not depend on what else is drawn.
        rng = np.random.default_rng((key, 1))
        teacher = self._setting.teacher.sample_parts(rng)
        return dict(zip(PARTS, (*self._setting.student.sample_parts(rng), *teacher), strict=True))

    def _sampled(self, network: Committee, rng: np.random.Generator) -> np.ndarray:
        problem, spectrum = self._setting.problem, self._setting.spectrum
        if type(network.init) is not Typical:
            return network.sample(rng, problem.input_shape)
        rows = realisation.typical_rows(spectrum, network.units, rng)
        rows = np.asarray(problem.inputs.from_eigenbasis(rows))
        return network.joined(rows, *network.sample_parts(rng))

    def as_state(self, state: Any) -> Overlaps:
        _, student, teacher, _, spectrum, _ = self._setting
        state = checked(state, spectrum.levels, student.units, teacher.units)
        state = realisation.with_parts(state, student, teacher)
        if not self._setting.rule.scheduled:
            return state
        return dataclasses.replace(state, time=Elapsed(np.zeros(())))

    def project(self, weights: Weights, teacher: Weights) -> Overlaps:
        networks = (self._setting.student, weights), (self._setting.teacher, teacher)
        (rows, *own), (labels, *others) = (
            (w, None, None) if network.is_array else w for network, w in networks
        )
        xp = np if isinstance(rows, np.ndarray) else jnp
        both = xp.concatenate([rows, labels]).astype(np.float64)
        both = self._setting.problem.inputs.in_eigenbasis(both)
        wide = (None if part is None else part.astype(np.float64) for part in (*own, *others))
        parts = dict(zip(PARTS, wide, strict=True))
        return from_gram(realisation.project(self._setting.spectrum, both), len(rows), **parts)

    def realise(self, state: Overlaps, key: int) -> tuple[Weights, Weights]:
        rows = realisation.weights_of(state, self._setting.spectrum, key)
        rows = self._setting.problem.inputs.from_eigenbasis(rows)
        student, teacher = self._setting.student, self._setting.teacher
        weights = student.joined(rows[: student.units], state.outputs, state.biases)
        labels = state.teacher_outputs, state.teacher_biases
        return weights, teacher.joined(rows[student.units :], *labels)

    def dynamics(self, order: str) -> Flow | Map | Refused:
        one_of("order", order, self.orders)
        kinds = {"finite": MeanStep, "inertial": InertialFlow}
        kind = kinds.get(order)
        return OverlapFlow(self._setting, order) if kind is None else kind(self._setting)

    def noise(self, order: str) -> Noise | Refused:
        if order == "finite":
            return Refused("order='finite' is a map, whose noise is not known")
        if order == "inertial":
            return Refused("the noise of velocities is not known")
        if classification.classifies(self._setting):
            return Refused("the classification error has no derivative")
        return OverlapNoise(self._setting, order)

    def chain(self) -> AbstractChain | Refused:
        if not self.system.rule.samples:
            return Refused(f"the rule is {type(self.system.rule).__name__}, which does not sample")
        return CommitteeChain(self._setting)

    def vector(self, state: Overlaps) -> Array:
        return diffusion.flatten(state)

    def with_vector(self, state: Overlaps, vector: Array) -> Overlaps:
        return diffusion.unflatten(state, vector)

    @compiled_in_float64
    def observe(self, state: Overlaps | Factors | Moving) -> dict[str, Any]:
        state = state.overlaps if isinstance(state, Moving) else state
        K, sigma = self._setting.student.units, overlaps.covariance(self._setting, state)
        error = overlaps.error(self._setting, state, sigma)
        parts = {name: getattr(state, name) for name in self._own_parts}
        values = {"Q": sigma[:K, :K], "R": sigma[:K, K:], **parts, "error": error}
        if classification.classifies(self._setting):
            values["classification_error"] = classification.error(self._setting, state, sigma)
        return values

    def invariants(self, state: Overlaps) -> dict[str, np.ndarray]:
        """S̄ = ρ (ρᵀρ)^(-1/2) (Eq. 22), if it is conserved from this state on."""
        _, student, teacher, _, spectrum, _ = self._setting
        covered = (
            not self._setting.special and student.activation == "quadratic" and spectrum.levels == 1
        )
        if not covered or student.units < teacher.units:
            return {}
        Q, R, T = (np.asarray(a[0]) for a in (state.Q, state.R, state.T))
        return {"S": solutions.polar_factor(R)} if solutions.is_conserved(Q, R, T) else {}

    def landmarks(self) -> dict[str, float]:
        """Landmarks for typical, orthogonal teachers: T^(l) = (1/N) tr Σ^l times a variance.

        They need one activation, equal and fixed output weights, no biases and no decay.

        Rates are per t = η α, times are in t. Each holds at one of two learning rates:

        - In the limit η → 0 (order "flow"), independent of the rule's rate. For erf these are
          `plateau_error`, `plateau_R`, `plateau_Q`, `plateau_growth_rate`,
          `escape_time_constant`, `slow_rate` and `fast_rate`; for the quadratic activation
          `plateau_error`, `norm_fixed_point`, `growth_rate` and `decay_rate`. The units that
          `landmark_units()` returns mark them.
        - At the rule's own η (order "full"): all that end in `_full`, and for the quadratic
          activation `plateau_norm`, `plateau_growth_rate` and `tail_error`. They are left out if
          there is no plateau at that rate because the norms grow without bound.

        `plateau_error_full` for erf is the error at which students with small and equal initial
        weights come to rest. Other students come close to it before they escape.

        Returns:
            The landmarks; empty if none is known, as for teachers from your own distribution.
        """
        return landmarks.of(self._setting)

    def landmark_units(self) -> dict[str, str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return landmarks.units_of(self._setting, self.landmarks())


def _clock(N: int) -> Clock:
    return Clock("steps / N", float(N), 1.0)


class OverlapFlow(Flow):
    """The drift of the overlaps: order "full", or "flow", its limit for a small learning rate."""

    setting: CommitteeSetting
    order: str = eqx.field(static=True)

    @property
    def clock(self) -> Clock:
        return _clock(self.setting.problem.dim)

    @compiled_in_float64
    def drift(self, state: Overlaps | Factors) -> Overlaps | Factors:
        if isinstance(state, Factors):
            return overlaps.drift_of_factors(self.setting.at(state.time), state)
        return overlaps.drift(self.setting.at(state.time), state, self.order)

    def closed_form(self, state: Overlaps, times: np.ndarray) -> dict[str, np.ndarray] | None:
        if self.setting.student.activation != "linear" or self.setting.special:
            return None
        return linear.curve(self.setting, state, times, self.order)

    def integration(self, state: Overlaps, end: float) -> Integration:
        """How to integrate the overlaps; order "flow" in factors if levels are low-dimensional."""
        with full_precision():
            scheme = stiff.scheme(self.setting, state, end)
        if scheme == "implicit":
            return Implicit(state, self.linearise)
        # With fewer dimensions than units the Gram matrices are singular: rounding would make them
        # indefinite, which factors cannot become.
        rank = int(np.max(self.setting.spectrum.counts))
        scarce = self.order == "flow" and rank < state.gram.shape[1]
        begin = factors_of(state, rank) if scarce else state
        return Explicit(begin) if scheme == "explicit" else Stabilised(begin, self.radius)

    def state(self, y: Overlaps | Factors) -> Overlaps:
        return y.overlaps if isinstance(y, Factors) else y

    def linearise(self, state: Overlaps, w: Array) -> Solve:
        """The solver of (w − Jacobian of the drift) x = b."""
        solve = stiff.linearise(self.setting.at(state.time), state, self.order, w)
        return solve if state.time is None else stiff.with_time(solve, self.drift, state, w)

    def stops(self, end: float) -> np.ndarray:
        return self.setting.stops(end)

    def radius(self, state: Overlaps | Factors) -> Array:
        """A bound on the spectral radius of the Jacobian."""
        return stiff.radius(self.setting.at(state.time), state)


class InertialFlow(Flow):
    """Overlaps and velocities: the limit N → ∞ at fixed γ = N (1 − momentum)."""

    setting: CommitteeSetting

    @property
    def clock(self) -> Clock:
        return _clock(self.setting.problem.dim)

    @compiled_in_float64
    def drift(self, state: Moving) -> Moving:
        return inertia.drift(self.setting, state)

    def integration(self, state: Overlaps, end: float) -> Integration:
        begin = inertia.at_rest(state)
        with full_precision():
            radius = float(eqx.filter_jit(self.radius)(begin))
        return Explicit(begin) if stiff.is_easy(radius, end) else Stabilised(begin, self.radius)

    def state(self, y: Moving) -> Overlaps:
        return y.overlaps

    def radius(self, state: Moving) -> Array:
        """A bound on the spectral radius of the Jacobian."""
        return inertia.radius(self.setting, state)


class MeanStep(Map):
    """The exact mean of the next overlaps given the current ones, iterated."""

    setting: CommitteeSetting

    @property
    def clock(self) -> Clock:
        return _clock(self.setting.problem.dim)

    @compiled_in_float64
    def advance(self, y: Overlaps) -> Overlaps:
        return overlaps.mean_step(self.setting.at(y.time), y)


class OverlapNoise(Noise):
    """The covariance of the change of the overlaps in one step."""

    setting: CommitteeSetting
    order: str = eqx.field(static=True)

    @compiled_in_float64
    def diffusion(self, state: Overlaps) -> Array:
        return diffusion.diffusion(self.setting.at(state.time), state, self.order)

    def error(self, state: Overlaps) -> float:
        return float(diffusion.diffusion_error(self.setting.at(state.time), state))


# The limit N → ∞ counts as exact if one step changes at most this share of a level's weights.
RENEWED = 0.1
LATEST = 1e4  # time until which a learning rate that changes is looked at for that


def _coverage(setting: CommitteeSetting) -> Coverage:
    """How well the limit N → ∞ describes a system of the theory's kind."""
    student, spectrum = setting.student, setting.spectrum
    if student.trainable is not None:
        if setting.problem.inputs.frame is not None:
            return Coverage("none", "trainable directions need inputs whose frame is not rotated")
        if student.trainable not in np.cumsum(spectrum.counts):
            return Coverage("none", f"{student.trainable} trainable directions cut a level in two")
    # The first level has the largest eigenvalue, and so the largest step.
    strength = (
        setting.at_most(LATEST).h * student.scale**2 * student.units * mean_square(student.outputs)
    )
    share = float(strength * spectrum.values[0] / spectrum.dim)
    if setting.rule.noise and share > RENEWED:
        reason = f"a step renews {share:.2g} of the first level, which N → ∞ neglects"
        return Coverage("approximate", f"{reason}; order='finite' has the mean step exactly")
    limit = "as N → ∞ with λ_l / N → 0 in every level"
    if setting.rule.inertia is not None:
        limit += ", at fixed momentum; order='inertial' is at fixed N (1 − momentum)"
    if setting.units.approximate(setting.biased):
        return Coverage("approximate", f"{limit}, with averages by {setting.units.method()}")
    return Coverage("exact", limit)
