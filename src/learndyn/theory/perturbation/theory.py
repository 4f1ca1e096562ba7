"""Two linear layers under node perturbation and under SGD (hiratani2022perturbation).

y = W_2 W_1 x learns y* = A x from white inputs, with label noise. The hidden layer enters only
through the Gram matrix of (W_2ᵀ, W_1), which is the state. The equations close approximately in
four or five of its traces:

    "full"    the recursions of Eq. 68 (node perturbation) and Eqs. 88-94 (SGD)
    "finite"  the same with the +2 that fourth moments add to sizes, and α₂ ≠ α² (Eq. 62, corrected)
    "wide"    the limit of a wide hidden layer as a flow (Eqs. 73-79, 84; Eq. 95 for SGD)

At every size, the Gram matrix itself is an exact Markov chain (`chain`).
"""

import functools
from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import DeepLinear, LinearTeacher, Xavier
from learndyn.problems import Gaussian, SquaredLoss, TeacherStudent
from learndyn.rules import SGD, NodePerturbation
from learndyn.runtime.checks import a_kind, one_of, positive
from learndyn.runtime.precision import compiled_in_float64
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
    sample_weights,
)
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import STEPS, Clock, Explicit, Flow, Integration, Map, Refused
from learndyn.theory.perturbation import landmarks, node_perturbation, one_step, sgd, wide
from learndyn.theory.perturbation.chain import chain_of
from learndyn.theory.perturbation.realisation import Sizes, draw, weights_of
from learndyn.theory.perturbation.setting import (
    PerturbationSetting,
    mean_target,
    sees_one,
    teacher_of,
)
from learndyn.theory.perturbation.state import Gram, Traces, checked, traces_of


class PerturbationTheory(AbstractTheory):
    """Traces and Gram matrix of two linear layers under node perturbation and SGD.

    Args:
        system: a system that it covers.

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(20), ld.LinearTeacher(5))
        >>> system = ld.System(problem, ld.DeepLinear([20, 400, 5]), ld.NodePerturbation(5e-4))
        >>> marks = ld.theory_of(system).landmarks(target=0.01)
        >>> round(marks["critical_learning_rate"], 5)
        0.00117
    """

    name: ClassVar[str] = "perturbation"
    orders: ClassVar[tuple[str, ...]] = ("full", "finite", "wide")
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "hiratani2022perturbation",
            "Eqs. 44-68 (node perturbation; 62 corrected), 69-85 (wide layers; 73b corrected), "
            "86-96 (SGD), 97-100 (factorisation), 101-104 (regression; 102-104 corrected)",
        ),
    )
    variables: ClassVar[dict[str, Variable]] = {
        "alpha": Variable((), "squared norm of the input weights, per input", ""),
        "beta": Variable((), "squared norm of the output weights, per output", ""),
        "epsilon": Variable((), "squared error of the map, per entry", ""),
        "phi": Variable((), "projection of the map on its error, per entry", ""),
        "error": Variable((), "loss above its floor", ""),
    }
    units: ClassVar[dict[str, str]] = landmarks.UNITS

    @classmethod
    def covers(cls, system: System) -> Coverage:
        problem, network, rule = system.problem, system.network, system.rule
        if not isinstance(network, DeepLinear):
            return Coverage("none", f"the network is {a_kind(network)}, not DeepLinear")
        if network.depth != 2:
            return Coverage("none", f"the network has {network.depth} layers of weights, not two")
        if not rule.samples:
            return Coverage("none", f"the rule is {type(rule).__name__}, which does not sample")
        if not isinstance(rule, SGD | NodePerturbation):
            reason = "which need not treat all directions of the hidden layer alike"
            reason += " (normalising the weights of every unit, for example, does not)"
            return Coverage("none", f"the rule is {type(rule).__name__}, {reason}")
        if (beyond := beyond_gradient(rule)) is not None:
            return Coverage("none", beyond)
        if not (isinstance(problem, TeacherStudent) and isinstance(problem.teacher, LinearTeacher)):
            return Coverage("none", "the target is not a LinearTeacher")
        if not isinstance(problem.loss, SquaredLoss):
            return Coverage("none", f"the loss is {type(problem.loss).__name__}, not SquaredLoss")
        if not isinstance(problem.inputs, Gaussian):
            return Coverage("none", f"the inputs are {a_kind(problem.inputs)}, not Gaussian")
        if not np.allclose(problem.inputs.spectrum.values, 1.0, rtol=1e-9, atol=0):
            return Coverage("none", "the inputs are not white with unit variance")
        return Coverage("approximate", _left_out(system))

    @property
    def _setting(self) -> PerturbationSetting:
        return PerturbationSetting.of(self.system)

    @property
    def _sizes(self) -> Sizes:
        return Sizes(*cast(DeepLinear, self.system.network).widths)

    @property
    def _perturbs(self) -> bool:
        return isinstance(self.system.rule, NodePerturbation)

    def sample(self, key: int) -> tuple[Gram, Realise]:
        init = cast(DeepLinear, self.system.network).init
        if not isinstance(init, Xavier):
            weights, teacher = sample_weights(self.system, key)
            return self.project(weights, teacher), Given(weights, teacher)
        rng = np.random.default_rng(key)
        A = cast(np.ndarray, self.system.problem.draw_teacher(rng))
        state = draw(self._sizes, init.scale, A, rng)
        weights_of = functools.partial(self.realise, state, key)
        return state, weights_of  # pyright: ignore[reportReturnType]

    def as_state(self, state: Any) -> Gram | Traces:
        inputs, _, outputs = self._sizes
        return checked(state, inputs, outputs, teacher_of(self.system).matrix)

    @compiled_in_float64
    def project(self, weights: Weights, teacher: Weights) -> Gram:
        W_1, W_2, A = (jnp.asarray(w, jnp.float64) for w in (*weights, teacher))
        return Gram(M=W_2 @ W_2.T, N=W_1.T @ W_1, P=W_2 @ W_1, A=A)

    def realise(self, state: Gram | Traces, key: int) -> tuple[Weights, Weights] | Refused:
        if isinstance(state, Traces):
            return Refused("many networks have the same Traces; weights need a Gram, or no state")
        return weights_of(state, self._sizes.hidden, key), np.asarray(state.A)

    def dynamics(self, order: str) -> Flow | Map | Refused:
        one_of("order", order, self.orders)
        if not sees_one(self.system):
            reason = "the equations are for one example and one perturbation per step"
            return Refused(f"{reason}, and the rule is {self.system.rule!r}")
        parts = self._setting, mean_target(self.system), self._perturbs
        return WideFlow(*parts) if order == "wide" else MeanStep(*parts, order)

    def chain(self) -> AbstractChain | Refused:
        return chain_of(self.system, self._sizes)

    @compiled_in_float64
    def mean_change(self, state: Gram) -> Traces:
        """The exact mean change of the traces in one step, to second order in the learning rate.

        Args:
            state: the Gram matrix; traces alone do not determine it.

        Returns:
            The change of each trace.
        """
        of = self._setting
        if self._perturbs:
            return one_step.node_perturbation(state, of.eta, of.sigma_t2, of.L_h)
        return one_step.sgd(state, of.eta, of.sigma_t2)

    @compiled_in_float64
    def observe(self, state: Gram | Traces) -> dict[str, Any]:
        seen = traces_of(state) if isinstance(state, Gram) else state
        of, scale = self._setting, cast(TeacherStudent, self.system.problem).loss_scale
        return {
            "alpha": jnp.asarray(seen.alpha),
            "beta": jnp.asarray(seen.beta),
            "epsilon": jnp.asarray(seen.epsilon),
            "phi": jnp.asarray(seen.phi),
            "error": scale * of.L_x * of.L_y * jnp.asarray(seen.epsilon),
        }

    def invariants(self, state: Gram | Traces) -> dict[str, Array]:
        """Constants of order "wide": ε + a²/c_o − a³/3 (Eq. 78) without noise; norms for SGD."""
        seen = traces_of(state) if isinstance(state, Gram) else state
        if not self._perturbs:
            return {"alpha": np.asarray(seen.alpha), "beta": np.asarray(seen.beta)}
        if self._setting.sigma_t2 > 0:
            return {"beta": np.asarray(seen.beta)}
        kept = wide.conserved(*wide.reduced(self._setting, seen))
        return {"beta": np.asarray(seen.beta), "epsilon_tot": np.asarray(kept)}

    def landmarks(
        self, *, target: Number = 1e-4, state: Gram | Traces | None = None
    ) -> dict[str, float]:
        """Rates and times of the wide limit, in the rule's own learning rate and in steps.

        Args:
            target: the error to reach, relative to the initial one.
            state: the initial state; None means the mean traces of Xavier weights.

        Returns:
            `critical_learning_rate`, and without label noise `optimal_learning_rate`,
            `minimal_time` and `training_time`, at the rule's own rate. For node perturbation also
            `finite_training_time`, without the limit of wide layers (see `fixed_beta`). Empty if a
            step sees more than one example, or if the initialisation is not Xavier and no state
            is passed.
        """
        aim = float(positive("target", target))
        init = cast(DeepLinear, self.system.network).init
        if not sees_one(self.system) or (state is None and not isinstance(init, Xavier)):
            return {}
        of, scale = self._setting, cast(TeacherStudent, self.system.problem).loss_scale
        if state is None:
            state = wide.xavier(of, cast(Xavier, init).scale, mean_target(self.system))
        seen = traces_of(state) if isinstance(state, Gram) else state
        predict = landmarks.node_perturbation if self._perturbs else landmarks.of_sgd
        return predict(of, seen, aim, float(2 * scale))


class MeanStep(Map):
    """The recursion of the traces, "full" or "finite"."""

    setting: PerturbationSetting
    target: np.ndarray
    perturbs: bool = eqx.field(static=True)
    order: str = eqx.field(static=True)

    @property
    def clock(self) -> Clock:
        return STEPS

    def begin(self, state: Gram | Traces) -> Traces:
        now = _completed(state, self.setting, self.target)
        return now if self.order == "finite" else _without_alpha2(now)

    @compiled_in_float64
    def advance(self, y: Traces) -> Traces:
        rule = node_perturbation if self.perturbs else sgd
        step = rule.advance_finite if self.order == "finite" else rule.advance
        return step(self.setting, y)


class WideFlow(Flow):
    """The limit of a wide hidden layer; time is steps."""

    setting: PerturbationSetting
    target: np.ndarray
    perturbs: bool = eqx.field(static=True)

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def drift(self, state: Gram | Traces) -> Traces:
        """The change of the traces per step; for a Gram matrix, that of its traces."""
        now = _without_alpha2(_completed(state, self.setting, self.target))
        return (wide.change if self.perturbs else wide.change_sgd)(self.setting, now)

    def integration(self, state: Gram | Traces, end: float) -> Integration:
        return Explicit(_without_alpha2(_completed(state, self.setting, self.target)))


def _completed(state: Gram | Traces, of: PerturbationSetting, target: Array) -> Traces:
    """The traces of a state; those that are None are filled in."""
    if isinstance(state, Gram):
        return traces_of(state)
    alpha2 = wide.mean_alpha2(of, state.alpha) if state.alpha2 is None else state.alpha2
    target = target if state.target is None else state.target
    return Traces(state.alpha, state.beta, state.epsilon, state.phi, alpha2, target)


def _without_alpha2(now: Traces) -> Traces:
    return Traces(now.alpha, now.beta, now.epsilon, now.phi, None, now.target)


def _left_out(system: System) -> str:
    """What the recursions neglect, and the order of magnitude of each term."""
    L_x, L_h, L_y = cast(DeepLinear, system.network).widths
    parts = [f"traces of products are not products of traces: order L_h^(−1/2) = {L_h**-0.5:.1g}"]
    parts += [f"then L_x/L_h = {L_x / L_h:.1g}; 'full' also 2/L_x = {2 / L_x:.1g}"]
    if isinstance(system.rule, NodePerturbation):
        parts[-1] += f" and 2/L_y = {2 / L_y:.1g}"
        if system.rule.sigma is not None:
            parts += [f"order sigma² = {float(system.rule.sigma) ** 2:.1g}"]
    return "; ".join(parts)
