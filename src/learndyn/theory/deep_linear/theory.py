"""Deep linear networks: the dynamics of singular modes (curvature2020linear).

For white inputs of variance λ and layers aligned with the target, each mode evolves
independently under w ← w − η H^(−power) g:

    dσ_i/dt = −(2 · loss_scale · λ) (σ̄ − σ̄*) j_i ‖j‖^(−2 power) λ^(−power),   σ̄ = Π σ_i,

with j_i = ∂σ̄/∂σ_i and t = η · steps (see `modes` for the other rules). The discrete step also
keeps layers aligned, so `order="full"` iterates it exactly; "flow" is the limit η → 0.
"""

from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Aligned, DeepLinear
from learndyn.networks.parts.layer_initialisation import aligned_layers
from learndyn.networks.solvable.matrix_product import product
from learndyn.problems import MapStatistics, SquaredLoss
from learndyn.rules import GradientDescent, NaturalGradient
from learndyn.runtime.checks import a_kind, one_of
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
)
from learndyn.theory.deep_linear import map_dynamics, modes
from learndyn.theory.deep_linear.state import Modes, checked, off_diagonal, project
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, Refused, continuous

ALIGNED = 1e-6  # relative weight outside the modes up to which a start counts as aligned
WHITE = 1e-9  # relative anisotropy of the inputs up to which they count as white


class DeepLinearTheory(AbstractTheory):
    """Singular modes of a deep linear network under (fractional, natural) gradient rules.

    Args:
        system: a system that it covers.

    Example:
        >>> import learndyn as ld
        >>> target = ld.LinearTeacher(2, [[3.0, 0.0], [0.0, 1.0]])
        >>> problem = ld.TeacherStudent(ld.Isotropic(2), target)
        >>> network = ld.DeepLinear([2, 4, 2], init=ld.Aligned(0.1))
        >>> system = ld.System(problem, network, ld.GradientDescent(0.02))
        >>> ld.theory_of(system).landmarks()
        {'stiffness': 1.0, 'effective_depth': 2.0, 'rate': 6.0}
    """

    map: MapStatistics  # the map to learn, and the statistics of the inputs
    left: np.ndarray  # singular vectors and values of the map to learn
    target: np.ndarray
    right: np.ndarray
    variance: np.ndarray  # λ of the white inputs

    name: ClassVar[str] = "deep linear"
    orders: ClassVar[tuple[str, ...]] = ("full", "flow")
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("curvature2020linear", "Eqs. 6, 12, 14, 18, 24-26 (modes), 20-22 (map)"),
    )
    variables: ClassVar[dict[str, Variable]] = {
        "sigma": Variable(("mode", "layer"), "strength of a mode in a layer", ""),
        "map": Variable(("mode",), "strength of a mode of the map", ""),
        "error": Variable((), "loss above its floor", ""),
    }
    units: ClassVar[dict[str, str]] = {
        "stiffness": "1",
        "effective_depth": "1",
        "rate": "1 / (learning rate × steps)",
    }

    def __init__(self, system: System):
        self.system = _of_any_power(system)
        self.map = _statistics(system)
        self.left, self.target, self.right = np.linalg.svd(self.map.target, full_matrices=False)
        self.variance = np.asarray(np.sum(self.map.root**2) / len(self.map.root))

    @classmethod
    def covers(cls, system: System) -> Coverage:
        problem, network, rule = system.problem, system.network, system.rule
        if not isinstance(network, DeepLinear):
            return Coverage("none", f"the network is {a_kind(network)}, not DeepLinear")
        if not isinstance(rule, GradientDescent | NaturalGradient):
            allowed = "GradientDescent or NaturalGradient"
            return Coverage("none", f"the rule is {type(rule).__name__}, not {allowed}")
        if (beyond := beyond_gradient(rule)) is not None:
            return Coverage("none", beyond)
        if callable(getattr(rule, "blocks", None)):
            return Coverage("none", "the rule's blocks are labelled by a function")
        if problem.fixed_teacher is None:
            return Coverage("none", "the teacher's matrix is drawn, not given")
        if not isinstance(problem.loss, SquaredLoss):
            return Coverage("none", f"the loss is {type(problem.loss).__name__}, not SquaredLoss")
        with full_precision():
            if problem.map_statistics(problem.fixed_teacher) is None:
                return Coverage("none", "the target is not a linear map of vectors")
        if not _is_white(system):
            return Coverage("none", "the inputs are not white")
        if isinstance(network.init, Aligned):
            return Coverage("exact", "layers aligned with the target stay so")
        return Coverage("approximate", "layers that do not start aligned mix the modes")

    def covers_start(self, state: Modes, realise: Realise) -> Coverage:
        weights, _ = realise()
        outside = off_diagonal(weights, self.project(weights, ()))
        level = "exact" if outside < ALIGNED else "approximate"
        return Coverage(level, f"{outside:.1e} of the weights lie outside the modes")

    def as_state(self, state: Any) -> Modes:
        widths = cast(DeepLinear, self.system.network).widths
        strengths = checked(state, len(self.target), len(widths) - 1)
        fits = np.minimum(widths[1:], widths[:-1])
        if np.any((np.arange(len(self.target))[:, None] >= fits) & (strengths.sigma != 0)):
            raise ValueError(
                "state: got strengths of modes that a layer is too narrow for; allowed is 0"
            )
        return strengths

    @compiled_in_float64
    def project(self, weights: Weights, teacher: Weights) -> Modes:
        layers = tuple(jnp.asarray(w, jnp.float64) for w in weights)
        return Modes(project(layers, self.left, self.right))

    def realise(self, state: Modes, key: int) -> tuple[Weights, Weights]:
        rng = np.random.default_rng(key)
        widths = cast(DeepLinear, self.system.network).widths
        teacher = self.system.problem.draw_teacher(rng)
        return aligned_layers(rng, widths, self.map.target, np.asarray(state.sigma)), teacher

    def dynamics(self, order: str) -> Flow | Map | Refused:
        one_of("order", order, self.orders)
        return ModeMap(self) if order == "full" else ModeFlow(self)

    def change(self, sigma: Array) -> Array:
        """η times the velocity, clipped to the length `clip` of the rule."""
        rule = cast(GradientDescent | NaturalGradient, self.system.rule)
        change, clip = rule.learning_rate * self._velocity(sigma), _options(self.system).clip
        if clip is None:
            return change
        size = jnp.sqrt(jnp.sum(change**2))
        return change * jnp.minimum(1.0, clip / jnp.maximum(size, 1e-300))

    @compiled_in_float64
    def observe(self, state: Modes) -> dict[str, Any]:
        strengths, scale = _strengths(state), _loss_scale(self.system) * self.variance
        return strengths | {"error": scale * jnp.sum((strengths["map"] - self.target) ** 2)}

    @compiled_in_float64
    def measure(self, weights: Weights, teacher: Weights) -> dict[str, Any]:
        """As `observe`, but with the whole loss, including the part outside the modes."""
        # This does not call `observe`: its λ would be a constant of the compiled program. Rounding
        # makes λ slightly different for every data set, so each would be compiled again.
        strengths = _strengths(self.project(weights, teacher))
        gap = product(tuple(jnp.asarray(w, jnp.float64) for w in weights)) - self.map.target
        return strengths | {"error": _loss_scale(self.system) * jnp.sum((gap @ self.map.root) ** 2)}

    @compiled_in_float64
    def invariants(self, state: Modes) -> dict[str, Array]:
        """The rule's constants of motion between neighbouring layers (Eqs. 7, 24-26)."""
        rule = _options(self.system)
        blocks = bool(rule.blocks)
        kept = modes.invariants(jnp.asarray(state.sigma), power=rule.power, blocks=blocks)
        return {"difference": kept}

    def landmarks(self) -> dict[str, float]:
        d = cast(DeepLinear, self.system.network).depth
        power = _options(self.system).power
        p = map_dynamics.stiffness(d, power)
        rate = self._scale() * map_dynamics.depth_calibrated_rate(1.0, d, power)
        return {
            "stiffness": float(p),
            "effective_depth": float(map_dynamics.effective_depth(d, power)),
            "rate": float(rate * self.target[0] ** p),
        }

    def _velocity(self, sigma: Array) -> Array:
        rule = _options(self.system)
        # H is λ times the H of unit inputs, so that the damping ε here is ε/λ in `modes`.
        paper = (1 + rule.damping) ** rule.power if rule.damping_form == "paper" else 1.0
        return (
            self._scale()
            * paper
            * modes.velocity(
                sigma,
                jnp.asarray(self.target),
                power=rule.power,
                blocks=bool(rule.blocks),
                damping=rule.damping / self.variance,
                form="levenberg",
            )
        )

    def _scale(self) -> Array:
        power = _options(self.system).power
        return 2 * _loss_scale(self.system) * self.variance ** (1 - power)


class ModeFlow(Flow):
    """The limit of a small learning rate; time is learning rate × steps."""

    theory: DeepLinearTheory

    @property
    def clock(self) -> Clock:
        return continuous(cast(GradientDescent, self.theory.system.rule).learning_rate)

    @compiled_in_float64
    def drift(self, state: Modes) -> Modes:
        """The change of σ per step, including η."""
        return Modes(self.theory.change(jnp.asarray(state.sigma)))


class ModeMap(Map):
    """The discrete step, which keeps layers aligned."""

    theory: DeepLinearTheory

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def advance(self, y: Modes) -> Modes:
        sigma = jnp.asarray(y.sigma)
        return Modes(sigma + self.theory.change(sigma))


def _strengths(state: Modes) -> dict[str, Any]:
    sigma = jnp.asarray(state.sigma)
    return {"sigma": sigma, "map": jnp.prod(sigma, axis=1)}


def _options(system: System) -> NaturalGradient:
    """The rule as a natural gradient: plain gradient descent is the one with power 0."""
    if isinstance(system.rule, NaturalGradient):
        return system.rule
    return NaturalGradient(1.0, power=0.0)


def _of_any_power(system: System) -> System:
    """The same system, for whose theory 0 and 1 are powers like others: none is compiled in."""
    if not isinstance(system.rule, NaturalGradient):
        return system
    return eqx.tree_at(lambda system: system.rule, system, system.rule.of_any_power())


def _statistics(system: System) -> MapStatistics:
    with full_precision():
        statistics = system.problem.map_statistics(system.problem.fixed_teacher)
    assert statistics is not None
    return MapStatistics(np.asarray(statistics.target), np.asarray(statistics.root))


def _loss_scale(system: System) -> Array:
    return cast(SquaredLoss, system.problem.loss).scale


def _is_white(system: System) -> bool:
    root = _statistics(system).root
    correlations = root @ root.T
    mean = np.trace(correlations) / len(root)
    return bool(np.allclose(correlations, mean * np.eye(len(root)), rtol=0, atol=WHITE * mean))
