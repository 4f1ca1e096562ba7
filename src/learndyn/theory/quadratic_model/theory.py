"""Models quadratic in their weights: residual and kernel under gradient descent (zhu2024quadratic).

It covers the quadratic twin of a two-layer relu or linear network, on one example or on examples
that lie on a line; the two-layer linear network itself; and the general quadratic model on one
example. In each direction the residual and the kernel obey a closed map (`closed_map`). Order
"full" iterates it step by step, "flow" is the limit η → 0. `catapult` has regimes and thresholds.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import Taylor
from learndyn.runtime.checks import one_of
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Weights
from learndyn.system import System
from learndyn.theory.base import (
    AbstractTheory,
    Coverage,
    Reference,
    Variable,
)
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, Refused, continuous
from learndyn.theory.quadratic_model import closed_map, landmarks
from learndyn.theory.quadratic_model.setting import QuadraticSetting, examples, refusal
from learndyn.theory.quadratic_model.state import Residuals, checked


class QuadraticModelTheory(AbstractTheory):
    """Residuals and kernel of a quadratic model, direction by direction.

    Args:
        system: a system that it covers.

    Example:
        >>> import learndyn as ld
        >>> data = ld.Dataset([[1.0]], [0.0])
        >>> system = ld.System(data, ld.MLP([1, 8, 1], "linear"), ld.GradientDescent(0.1))
        >>> ld.theory_of(system).name
        'quadratic model'
    """

    setting: QuadraticSetting
    x: np.ndarray
    y: np.ndarray

    name: ClassVar[str] = "quadratic model"
    orders: ClassVar[tuple[str, ...]] = ("full", "flow")
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "zhu2024quadratic",
            "Eqs. 3.11-3.14 (one example), 3.15-3.16 (3.16 corrected), B.7-B.12 (examples on a "
            "line; normalisation corrected), B.13 (general quadratic models; corrected)",
        ),
    )
    variables: ClassVar[dict[str, Variable]] = {
        "residual": Variable(("direction",), "residual along a direction", ""),
        "kernel": Variable(("direction",), "eigenvalue of the tangent kernel", ""),
        "error": Variable((), "loss", ""),
    }
    units: ClassVar[dict[str, str]] = landmarks.UNITS

    def __init__(self, system: System):
        self.system = system
        self.setting = QuadraticSetting.of(system)
        self.x, self.y = examples(system)

    @classmethod
    def covers(cls, system: System) -> Coverage:
        why = refusal(system)
        if why is not None:
            return Coverage("none", why)
        return Coverage("exact", "residual and kernel close in every direction")

    def as_state(self, state: Any) -> Residuals:
        return checked(state, np.asarray(self.setting.c), np.asarray(self.setting.a))

    @compiled_in_float64
    def project(self, weights: Weights, teacher: Weights) -> Residuals:
        """⟨g − y, p̂_i⟩ and |Jᵀ p̂_i|², by differentiating the network."""
        doubles = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64), weights)
        outputs, pull = jax.vjp(lambda w: self.system.network(w, jnp.asarray(self.x)), doubles)
        p = jnp.asarray(self.setting.p)
        squares = lambda tree: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree))
        return Residuals(p @ (outputs - self.y), jnp.stack([squares(pull(row)) for row in p]))

    def realise(self, state: Residuals, key: int) -> Refused:
        return Refused("many weights have the same residuals and kernel")

    def dynamics(self, order: str) -> Flow | Map | Refused:
        one_of("order", order, self.orders)
        return ClosedMap(self.setting) if order == "full" else ClosedFlow(self.setting, self._rate)

    @property
    def _rate(self) -> Array:
        return self.setting.eta / (2 * self.setting.weight)

    @compiled_in_float64
    def observe(self, state: Residuals) -> dict[str, Any]:
        r, of = jnp.asarray(state.r), self.setting
        loss = of.weight * (jnp.sum(r**2) + of.rest)
        return {"residual": r, "kernel": jnp.asarray(state.kernel), "error": loss}

    @compiled_in_float64
    def invariants(self, state: Residuals) -> dict[str, Array]:
        """λ² − 4 c h² of every direction, which order "flow" conserves."""
        r, kernel = jnp.asarray(state.r), jnp.asarray(state.kernel)
        return {"imbalance": closed_map.conserved(r, kernel, self.setting.c, self.setting.a)}

    def landmarks(self, *, state: Residuals | None = None) -> dict[str, float]:
        """Critical rates, and the course of training at the rule's own learning rate.

        Args:
            state: the initial state; None means the centre of a quadratic twin.

        Returns:
            With λ the largest kernel of the initial state, and rates in the rule's own convention:

            - `critical_learning_rate`, 2/λ, and `maximal_learning_rate`, 4/λ (an upper bound, which
              is the threshold for a = 0 and for c → 0); `second_critical_learning_rate`, 2/λ of a
              second direction.
            - If training converges, `final_kernel`, the last kernel of that direction. If it does
              not diverge and the loss rises above its start, `peak_loss`, the largest loss, and
              `peak_step`, its step. These come from iterating the map, at any ηλ. A landmark is
              left out if it would change by more than 1 % (`peak_step` also by more than a step)
              when the start changes by a relative 1e-6: above ηλ ≈ 3 single courses can be this
              sensitive. Narrow networks with a target can end in a cycle, without a last kernel.
            - If 2 < ηλ < 4, `small_delta_peak_loss`, `small_delta_peak_step` and
              `small_delta_final_kernel`: the limit of the same for δ = ηλ − 2 → 0, with errors of
              relative order δ.

            Empty if no state is passed and the network is not a twin.

        Raises:
            ValueError: if the kernel is zero.
        """
        if state is None and not isinstance(self.system.network, Taylor):
            return {}
        return landmarks.of(
            self.setting, self.sample(0)[0] if state is None else self.as_state(state)
        )


class ClosedMap(Map):
    """The discrete step."""

    setting: QuadraticSetting

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def advance(self, y: Residuals) -> Residuals:
        of = self.setting
        return Residuals(
            *closed_map.advance(jnp.asarray(y.r), jnp.asarray(y.kernel), of.c, of.a, of.eta)
        )


class ClosedFlow(Flow):
    """The limit of a small learning rate; time is learning rate × steps."""

    setting: QuadraticSetting
    rate: Array = eqx.field()

    @property
    def clock(self) -> Clock:
        return continuous(self.rate)

    @compiled_in_float64
    def drift(self, state: Residuals) -> Residuals:
        """The change of (r, λ) per step, including η."""
        of = self.setting
        return Residuals(
            *closed_map.change(jnp.asarray(state.r), jnp.asarray(state.kernel), of.c, of.a, of.eta)
        )
