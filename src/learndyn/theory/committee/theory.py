"""Committee learning from a committee: the closed equations of the overlaps.

With z = (student, teacher) pre-activations of covariance Σ = Σ_l λ_l C_l, output weights c
(student −a, teacher +b) and Δ = Σ_k c_k g(z_k) = target − output, the same K × (K + M)
matrix D acts on every level, scaled by λ_l:

    D_ij = c_j E[g'(z_i) g'(z_j)] + δ_ij E[g''(z_i) Δ]
    dR_l/dα = h λ_l (D C_l)_teacher
    dQ_l/dα = h λ_l (D C_l + (D C_l)ᵀ)_student + h² λ_l φ_l Ω / batch
    Ω_ij    = E[g'(z_i) g'(z_j) Δ²] + label_noise² E[g'(z_i) g'(z_j)]

where α = steps / N, h = 2 · loss_scale · η · a and φ_l = N_l / N.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.networks.base import Weights
from learndyn.numerics.checks import one_of
from learndyn.numerics.gaussian import tabulate
from learndyn.numerics.precision import in_float64
from learndyn.numerics.types import Array
from learndyn.problems import TeacherStudent
from learndyn.rules import SGD, GradientDescent
from learndyn.system import System
from learndyn.theory.base import AbstractTheory, Coverage, Realise, Reference, Variable
from learndyn.theory.committee import landmarks, realisation, solutions
from learndyn.theory.committee.parts import Parts
from learndyn.theory.committee.state import Overlaps, checked, from_gram


class CommitteeTheory(AbstractTheory):
    """Order parameters of a committee under one-pass SGD, exact as N → ∞."""

    name: ClassVar[str] = "committee"
    orders: ClassVar[tuple[str, ...]] = ("full", "flow")
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("bocchi2026escape", "Eqs. 6, 33, 34 (the η² bracket of 34 corrected)"),
        Reference("worschech2024scaling", "Eqs. 18, 19 (prefactors corrected), by level"),
        Reference("saad1995online", "the averages I2, I3, I4 of erf"),
    )
    variables: ClassVar[dict[str, Variable]] = {
        "Q": Variable(("student", "student'"), "student-student overlap", ""),
        "R": Variable(("student", "teacher"), "student-teacher overlap", ""),
        "error": Variable((), "generalisation error", ""),
    }

    @classmethod
    def covers(cls, system: System) -> Coverage:
        problem, network, rule = system.problem, system.network, system.rule
        if not isinstance(network, Committee):
            return Coverage("none", f"the network is a {type(network).__name__}, not a Committee")
        if not (isinstance(problem, TeacherStudent) and isinstance(problem.teacher, Committee)):
            return Coverage("none", "the target is not a Committee teacher")
        if network.activation != problem.teacher.activation:
            pair = f"{network.activation!r} and {problem.teacher.activation!r}"
            return Coverage("none", f"student and teacher have different activations, {pair}")
        if not isinstance(rule, SGD | GradientDescent):
            return Coverage("none", f"the rule is {type(rule).__name__}, not SGD")
        return Coverage("exact", "as N → ∞ with λ_l / N → 0 in every level")

    @property
    def _parts(self) -> Parts:
        return Parts.of(self.system)

    def draw(self, key: int) -> tuple[Overlaps, Realise]:
        _, student, teacher, _, spectrum = self._parts
        state = realisation.draw(
            spectrum, student.init, teacher.init, student.units, teacher.units, key
        )
        return state, lambda: self.realise(state, key)

    def check(self, state: Any) -> Overlaps:
        _, student, teacher, _, spectrum = self._parts
        return checked(state, spectrum.levels, student.units, teacher.units)

    def project(self, weights: Weights, teacher: Weights) -> Overlaps:
        xp = np if isinstance(weights, np.ndarray) else jnp
        rows = xp.concatenate([weights, teacher]).astype(np.float64)
        return from_gram(realisation.project(self._parts.spectrum, rows), len(weights))

    def realise(self, state: Overlaps, key: int) -> tuple[Weights, Weights]:
        rows = realisation.weights_of(state, self._parts.spectrum, key)
        units = self._parts.student.units
        return rows[:units], rows[units:]

    @in_float64
    def drift(self, state: Overlaps, order: str = "full") -> Overlaps:
        one_of("order", order, self.orders)
        problem, student, _, rule, spectrum = self._parts
        K = student.units
        lam = jnp.asarray(spectrum.values)[:, None, None]
        phi = (spectrum.counts / jnp.sum(spectrum.counts))[:, None, None]
        C = jnp.asarray(state.gram)
        sigma, c = jnp.sum(lam * C, axis=0), problem.output_weights(student)
        h = 2 * problem.loss_scale * rule.learning_rate * student.scale
        pull = h * lam * (self._pull(sigma, c) @ C)
        dQ = pull[:, :, :K] + pull[:, :, :K].swapaxes(1, 2)
        if order == "full" and isinstance(rule, SGD):
            dQ += h**2 * lam * phi * self._noise(sigma, c) / rule.batch
        return Overlaps(dQ, pull[:, :, K:], jnp.zeros_like(state.T))

    def _pull(self, sigma: Array, c: Array) -> Array:
        """D of the module's docstring, (K, K + M)."""
        K, g = self._parts.student.units, self._parts.student.g
        student, every = range(K), range(len(c))
        D = c * tabulate(g.slopes, sigma, student, every)
        return D.at[:, :K].add(jnp.diag(tabulate(g.bend, sigma, student, every) @ c))

    def _noise(self, sigma: Array, c: Array) -> Array:
        """Ω of the module's docstring, (K, K)."""
        K, g = self._parts.student.units, self._parts.student.g
        slopes = tabulate(g.slopes, sigma, range(K), range(K))
        return g.weighted_noise(sigma, c, K) + self._parts.problem.label_noise**2 * slopes

    @in_float64
    def observe(self, state: Overlaps) -> dict[str, Any]:
        problem, student, _, _, spectrum = self._parts
        K = student.units
        lam = jnp.asarray(spectrum.values)[:, None, None]
        sigma = jnp.sum(lam * jnp.asarray(state.gram), axis=0)
        error = problem.population_loss(student, sigma)
        return {"Q": sigma[:K, :K], "R": sigma[:K, K:], "error": error}

    def invariants(self, state: Overlaps) -> dict[str, np.ndarray]:
        """S̄ = ρ (ρᵀρ)^(-1/2) (Eq. 22), where the state conserves it."""
        _, student, teacher, _, spectrum = self._parts
        covered = student.activation == "quadratic" and spectrum.levels == 1
        if not covered or student.units < teacher.units:
            return {}
        Q, R, T = (np.asarray(a[0]) for a in (state.Q, state.R, state.T))
        return {"S": solutions.polar_factor(R)} if solutions.is_conserved(Q, R, T) else {}

    def landmarks(self) -> dict[str, float]:
        return landmarks.of(self._parts)
