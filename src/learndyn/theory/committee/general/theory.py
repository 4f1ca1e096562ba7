"""Committees on mixtures of Gaussians, and with several outputs: the closed theory of overlaps."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.numerics.semidefinite import gram_factor
from learndyn.problems import Gaussian, LabelledMixture, Mixture, SquaredLoss, TeacherStudent
from learndyn.runtime.checks import a_kind, one_of, positive
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.precision import compiled_in_float64, full_precision
from learndyn.runtime.types import Array, Number, Weights
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
from learndyn.theory.committee.dynamics import realisation, stiff
from learndyn.theory.committee.general import classification, terms
from learndyn.theory.committee.general.chain import GeneralChain
from learndyn.theory.committee.general.setting import GeneralSetting
from learndyn.theory.committee.setting import mean_square
from learndyn.theory.committee.state import PARTS, Overlaps, checked
from learndyn.theory.committee.theory import LATEST, RENEWED, VARIABLES, CommitteeTheory
from learndyn.theory.dynamics import Clock, Explicit, Flow, Integration, Refused, Stabilised, State

UNITS = {"bayes_error": "probability", "bayes_loss": "loss"}


class GeneralCommitteeTheory(CommitteeTheory):
    """A committee under one-pass SGD on a mixture, or with several outputs, exact as N → ∞.

    The state is an `Overlaps`. On a mixture √N times the means of the clusters follow the teacher's
    rows in R and T.

    Args:
        system: the system.
        resolution: (name, value) pairs for the averages of `Units`; see `resolved`.

    Example:
        >>> import learndyn as ld
        >>> corners = [[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]]
        >>> xor = ld.LabelledMixture(ld.Mixture(corners, ld.Isotropic(500)), [1, 1, -1, -1])
        >>> system = ld.System(xor, ld.Committee(4, "erf"), ld.SGD(0.1))
        >>> round(ld.theory_of(system).landmarks()["bayes_error"], 2)
        0.03
    """

    name: ClassVar[str] = "general committee"
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("refinetti2021classifying", "mixtures with a constant target per cluster"),
        Reference("goldt2019dynamics", "trained output weights"),
    )
    units: ClassVar[dict[str, str]] = UNITS

    @classmethod
    def covers(cls, system: System) -> Coverage:
        problem, network, rule = system.problem, system.network, system.rule
        if not isinstance(network, Committee):
            return Coverage("none", f"the network is {a_kind(network)}, not a Committee")
        if isinstance(problem, TeacherStudent) and not isinstance(problem.teacher, Committee):
            return Coverage("none", "the target is not a Committee teacher")
        if not isinstance(problem, TeacherStudent | LabelledMixture):
            reason = "neither a Committee teacher nor a constant per cluster"
            return Coverage("none", f"the target is {reason}")
        if problem.moves_teacher:
            return Coverage("none", "the teacher moves, which the online theory covers")
        if isinstance(problem.inputs, Gaussian):
            teacher = problem.teacher if isinstance(problem, TeacherStudent) else None
            labels = isinstance(teacher, Committee) and teacher.columns
            if not (network.columns or labels):
                return Coverage("none", "inputs are Gaussian, and there is one output")
        elif not problem.inputs.commute:
            return Coverage("none", "the covariances of the clusters do not commute")
        if not isinstance(problem.loss, SquaredLoss):
            return Coverage("none", f"the loss is {type(problem.loss).__name__}, not SquaredLoss")
        if (beyond := beyond_gradient(rule, decay=True, schedule=True)) is not None:
            return Coverage("none", beyond)
        if rule.step_law is None:
            return Coverage("none", beyond_sgd(rule))
        return _coverage(GeneralSetting.of(system))

    @property
    def _setting(self) -> GeneralSetting:
        return GeneralSetting.of(self.system, **dict(self.resolution))

    def resolved(
        self, states: Sequence[State], accuracy: Number | None = None
    ) -> "GeneralCommitteeTheory":
        """With averages that are accurate for the pre-activations of these states."""
        setting = self._setting
        aim = {} if accuracy is None else {"accuracy": float(positive("accuracy", accuracy))}
        if setting.units.method(setting.biased) == "closed form":
            return self
        units = dataclasses.replace(setting.units, **aim)
        with full_precision():
            sigmas = [np.asarray(setting.covariances(state)) for state in states]
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
            means = setting.means(state)
            c = setting.c(state)
            every = [
                setting.units.error(sigma, column, None if means is None else means[i])
                for i, sigma in enumerate(setting.covariances(state))
                for column in c.T
            ]
        return {"averages": method, "averages_error": max(every)}

    @property
    def orders(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All terms in the learning rate, and its limit η → 0."""
        return ("full", "flow")

    @property
    def variables(self) -> dict[str, Variable]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Q, R, means and errors; outputs and biases of the student if they are drawn or learn."""
        setting = self._setting
        found = {name: VARIABLES[name] for name in ("Q", "R") if name == "Q" or setting.teachers}
        if setting.clusters.means:
            found["means"] = Variable(("cluster", "student"), "mean of the pre-activation", "")
        found |= {name: VARIABLES[name] for name in self._own_parts}
        if "outputs" in found and setting.student.columns:
            found["outputs"] = Variable(("student", "output"), "output weight", "")
        names = ("error", "classification_error") if setting.targets is not None else ("error",)
        return found | {name: VARIABLES[name] for name in names}

    def sample(self, key: int) -> tuple[Overlaps, Realise]:
        if isinstance(self._setting.problem.inputs, Gaussian):
            return super().sample(key)
        return AbstractTheory.sample(self, key)

    def as_state(self, state: Any) -> Overlaps:
        setting = self._setting
        levels, student, clusters = setting.clusters.levels, setting.student, setting.clusters
        state = checked(state, levels, student.units, setting.fixed)
        for name in ("outputs", "biases"):
            _check_part(f"teacher_{name}", getattr(state, f"teacher_{name}"), setting.teachers)
        state = realisation.with_parts(state, student, setting.teacher)
        if clusters.means:
            own, given = self._mean_gram(), np.asarray(state.T)[:, setting.teachers :]
            if not np.allclose(given[:, :, setting.teachers :], own, rtol=1e-6, atol=1e-9):
                raise ValueError(
                    "state: got T whose last rows are not the means of the mixture; allowed are "
                    f"the products of the means as its last {clusters.means} rows and columns"
                )
        if not setting.rule.scheduled:
            return state
        return dataclasses.replace(state, time=Elapsed(np.zeros(())))

    def _mean_gram(self) -> np.ndarray:
        """μ_c · P_l μ_c' of every level, (levels, clusters, clusters)."""
        setting = self._setting
        inputs, dim = cast(Mixture, setting.problem.inputs), setting.clusters.dim
        means = inputs.in_eigenbasis(inputs.full_means)
        return np.asarray(realisation.grams(setting.clusters.counts, np.sqrt(dim) * means))

    def project(self, weights: Weights, teacher: Weights) -> Overlaps:
        setting = self._setting
        inputs: Any = setting.problem.inputs
        split = lambda network, w: (w, None, None) if network.is_array else w
        rows, *own = split(setting.student, weights)
        xp = np if isinstance(rows, np.ndarray) else jnp
        parts, every = [*own, None, None], [rows]
        if setting.teachers:
            labels, *parts[2:] = split(setting.teacher, teacher)
            every.append(labels)
        both = inputs.in_eigenbasis(xp.concatenate(every).astype(np.float64))
        if setting.clusters.means:
            means = inputs.in_eigenbasis(inputs.full_means)
            both = xp.concatenate([both, np.sqrt(inputs.dim) * means])
        wide = (None if part is None else part.astype(np.float64) for part in parts)
        gram = realisation.grams(setting.clusters.counts, both)
        K = len(rows)
        return Overlaps(
            gram[:, :K, :K], gram[:, :K, K:], gram[:, K:, K:], **dict(zip(PARTS, wide, strict=True))
        )

    def realise(self, state: Overlaps, key: int) -> tuple[Weights, Weights]:
        setting = self._setting
        inputs: Any = setting.problem.inputs
        student, n, means = setting.student, setting.teachers, None
        if setting.clusters.means:
            means = np.asarray(inputs.in_eigenbasis(inputs.full_means))
        rows = np.asarray(inputs.from_eigenbasis(_rows(state, setting, means, key)))
        weights = student.joined(rows[: student.units], state.outputs, state.biases)
        if not n:
            return weights, ()
        labels = state.teacher_outputs, state.teacher_biases
        return weights, setting.teacher.joined(rows[student.units :], *labels)

    def dynamics(self, order: str) -> Flow | Refused:
        one_of("order", order, self.orders)
        return GeneralFlow(self._setting, order)

    def noise(self, order: str) -> Refused:
        return Refused("the noise of mixtures and of several outputs is not known")

    def chain(self) -> AbstractChain | Refused:
        if not self.system.rule.samples:
            return Refused(f"the rule is {type(self.system.rule).__name__}, which does not sample")
        return GeneralChain(self._setting)

    def vector(self, state: Overlaps) -> Array:
        return AbstractTheory.vector(self, state)

    def with_vector(self, state: Overlaps, vector: Array) -> Overlaps:
        return AbstractTheory.with_vector(self, state, vector)

    @compiled_in_float64
    def observe(self, state: Any) -> dict[str, Any]:
        setting, K = self._setting, self._setting.units.K
        values = jnp.asarray(setting.clusters.values)
        # On a mixture Q and R are averages over its clusters.
        sigma = jnp.tensordot(jnp.asarray(setting.clusters.probabilities), values, 1)
        sigma = jnp.tensordot(sigma, jnp.asarray(state.gram), 1)
        found = {"Q": sigma[:K, :K], "R": sigma[:K, K : K + setting.teachers]}
        found["means"] = jnp.sum(jnp.asarray(state.R), axis=0)[:, setting.teachers :].T
        found |= {name: getattr(state, name) for name in self._own_parts}
        found["error"] = jnp.asarray(setting.clusters.probabilities) @ terms.errors(setting, state)
        if setting.targets is not None:
            found["classification_error"] = classification.error(setting, state)
        return {name: found[name] for name in self.variables}

    def invariants(self, state: Overlaps) -> dict[str, np.ndarray]:
        return {}

    def landmarks(self) -> dict[str, float]:
        """For constant targets the limits that no function of an input can beat.

        `bayes_error` is the smallest classification error, and `bayes_loss` the smallest loss
        without label noise, at the size N of the system. Both are averages over quasi-random
        inputs, with an error of about 1e-3.
        """
        setting, clusters = self._setting, self._setting.clusters
        if setting.targets is None:
            return {}
        limits = classification.bayes(
            np.asarray(clusters.probabilities),
            np.asarray(clusters.values),
            np.asarray(clusters.counts),
            self._mean_gram(),
            np.asarray(setting.targets),
        )
        scale = float(setting.problem.loss_scale)
        return {"bayes_error": limits.error, "bayes_loss": scale * limits.loss}

    def landmark_units(self, **arguments: Any) -> dict[str, str]:
        return {name: UNITS[name] for name in self.landmarks()}


class GeneralFlow(Flow):
    """The drift of the overlaps: order "full", or "flow", its limit for a small learning rate."""

    setting: GeneralSetting
    order: str = eqx.field(static=True)

    @property
    def clock(self) -> Clock:
        return Clock("steps / N", float(self.setting.clusters.dim), 1.0)

    @compiled_in_float64
    def drift(self, state: Overlaps) -> Overlaps:
        return terms.drift(self.setting.at(state.time), state, self.order)

    def integration(self, state: Overlaps, end: float) -> Integration:
        with full_precision():
            radius = float(_radius(self.setting.at_most(end), state))
        return Explicit(state) if stiff.is_easy(radius, end) else Stabilised(state, self.radius)

    def stops(self, end: float) -> np.ndarray:
        return self.setting.stops(end)

    def radius(self, state: Overlaps) -> Array:
        """A bound on the spectral radius of the Jacobian."""
        return _radius(self.setting.at(state.time), state)


def _radius(setting: GeneralSetting, state: Overlaps) -> Array:
    """As `stiff.radius`, with the drift matrix of every cluster, and the lengths of the means."""
    of, clusters, law = terms.averages(setting, state), setting.clusters, setting.rule
    sizes = jnp.sqrt(jnp.sum(of.drift**2, axis=(1, 2)))
    largest = jnp.max(jnp.asarray(clusters.values), axis=1)
    if clusters.means:
        teachers = setting.teachers
        largest += jnp.sum(jnp.einsum("lcc->lc", jnp.asarray(state.T)[:, teachers:, teachers:]), 0)
    h = setting.h * setting.student.scale
    bound = 2 * h * (jnp.asarray(clusters.probabilities) @ (sizes * largest))
    outputs, biases = (rate * setting.student.scale for rate in setting.part_rates)
    bound += 0.0 if law.decay is None else 2 * jnp.asarray(law.decay)
    if "outputs" in setting.student.train:
        K, scale = setting.units.K, setting.student.scale
        values = terms.each(setting, state, setting.units.values)
        bound += outputs * scale * jnp.max(jnp.einsum("cii->c", values[:, :K, :K]))
        bound += 0.0 if law.output_decay is None else jnp.asarray(law.output_decay)
    if "biases" in setting.student.train:
        bound += biases * jnp.max(sizes)
    return bound


def _coverage(setting: GeneralSetting) -> Coverage:
    """How well the limit N → ∞ describes a system of the theory's kind."""
    student, clusters = setting.student, setting.clusters
    if student.trainable is not None:
        if setting.problem.inputs.frame is not None:
            return Coverage("none", "trainable directions need inputs whose frame is not rotated")
        if student.trainable not in np.cumsum(clusters.counts):
            return Coverage("none", f"{student.trainable} trainable directions cut a level in two")
    outputs = int(np.prod(student.columns))
    strength = setting.at_most(LATEST).h * student.scale**2 * student.units * outputs
    share = float(strength * mean_square(student.outputs) * np.max(clusters.values) / clusters.dim)
    if setting.rule.noise and share > RENEWED:
        reason = f"a step renews {share:.2g} of the first level, which N → ∞ neglects"
        return Coverage("approximate", reason)
    limit = "as N → ∞ with λ_l / N → 0 in every level"
    if clusters.means:
        limit += ", and means of fixed length"
    if setting.units.approximate(setting.biased):
        return Coverage("approximate", f"{limit}, with averages by {setting.units.method(True)}")
    return Coverage("exact", limit)


def _check_part(name: str, part: Any, teachers: int) -> None:
    if part is not None and len(part) != teachers:
        raise ValueError(f"state: got {name} of length {len(part)}; allowed is {teachers}")


def _rows(
    state: Overlaps, setting: GeneralSetting, means: np.ndarray | None, key: int
) -> np.ndarray:
    """Rows of students and teachers with given overlaps, also with means that are where they are.

    In every level the rows are a part in the span of the means, which their overlaps with the means
    determine, and a rest in random directions across it.
    """
    rng, n = np.random.default_rng(key), setting.units.K + setting.teachers
    edges, blocks = np.cumsum(setting.clusters.counts)[:-1], []
    at = np.zeros((0, setting.clusters.dim)) if means is None else means
    for C, mean in zip(np.asarray(state.gram), np.split(at, edges, axis=1), strict=True):
        count = mean.shape[1]
        left, size, axes = np.linalg.svd(mean, full_matrices=False)
        kept = size > 1e-12 * max(size.max(initial=0.0), 1e-300)
        axes, spanned = axes[kept], left[:, kept] * size[kept]
        along = C[:n, n:] @ np.linalg.pinv(spanned).T
        F = gram_factor(C[:n, :n] - along @ along.T)
        if F.shape[1] + len(axes) > count:
            raise ValueError(
                f"state: the overlaps of a level have rank {F.shape[1] + len(axes)}; "
                f"allowed is at most its dimension {count}"
            )
        free = rng.standard_normal((count, F.shape[1]))
        frame, _ = np.linalg.qr(free - axes.T @ (axes @ free))
        blocks.append(np.sqrt(setting.clusters.dim) * (along @ axes + F @ frame.T))
    return np.concatenate(blocks, axis=1)
