"""Models quadratic in their weights: residual and kernel under gradient descent (zhu2024quadratic).

The quadratic twin of a two-layer relu or linear network on one example, or on examples on a line;
the two-layer linear network itself; the general quadratic model on one example. In each
direction residual and kernel close (`closed_map`); "full" iterates that, step by step, "flow" is
the limit η → 0. Regimes and thresholds are in `catapult`.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Taylor
from learndyn.networks.base import Weights
from learndyn.numerics.checks import one_of
from learndyn.numerics.precision import compiled_in_float64
from learndyn.numerics.types import Array
from learndyn.system import System
from learndyn.theory.base import (
    AbstractTheory,
    Coverage,
    Given,
    Realise,
    Reference,
    Variable,
    sample,
)
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, Refused, continuous
from learndyn.theory.quadratic_model import catapult, closed_map
from learndyn.theory.quadratic_model.setting import Setting, examples, refusal
from learndyn.theory.quadratic_model.state import Residuals, checked


class QuadraticModelTheory(AbstractTheory):
    """Residuals and kernel of a quadratic model, direction by direction."""

    setting: Setting
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
    units: ClassVar[dict[str, str]] = {
        "critical_learning_rate": "learning rate",
        "maximal_learning_rate": "learning rate",
        "second_critical_learning_rate": "learning rate",
        "peak_loss": "1",
        "peak_step": "steps",
        "final_kernel": "1",
    }

    def __init__(self, system: System):
        self.system = system
        self.setting = Setting.of(system)
        self.x, self.y = examples(system)

    @classmethod
    def covers(cls, system: System) -> Coverage:
        why = refusal(system)
        if why is not None:
            return Coverage("none", why)
        return Coverage("exact", "residual and kernel close in every direction")

    def draw(self, key: int) -> tuple[Residuals, Realise]:
        weights, teacher = sample(self.system, key)
        return self.project(weights, teacher), Given(weights, teacher)

    def as_state(self, state: Any) -> Residuals:
        return checked(state, np.asarray(self.setting.c), np.asarray(self.setting.a))

    @compiled_in_float64
    def project(self, weights: Weights, teacher: Weights) -> Residuals:
        """⟨g − y, p̂_i⟩ and |Jᵀ p̂_i|², by derivatives of the network itself."""
        given = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64), weights)
        outputs, pull = jax.vjp(lambda w: self.system.network(w, jnp.asarray(self.x)), given)
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
        """λ² − 4 c h² of every direction, which order "flow" keeps."""
        r, kernel = jnp.asarray(state.r), jnp.asarray(state.kernel)
        return {"imbalance": closed_map.conserved(r, kernel, self.setting.c, self.setting.a)}

    def landmarks(self, *, state: Residuals | None = None) -> dict[str, float]:
        """Critical rates, and the catapult of the direction with the largest kernel.

        Args:
            state: where training begins; None is the centre of a quadratic twin.

        Returns:
            `critical_learning_rate`, 2/λ, and `maximal_learning_rate`, 4/λ (an upper bound; it is
            the threshold for a = 0, and for c → 0), with `second_critical_learning_rate` of a
            second direction, all in the rule's own rate. Where the rule's rate is between the
            two, and for small δ = ηλ − 2: `peak_loss`, `peak_step`, `final_kernel`. Nothing where
            no state is given and the network is no twin.

        Raises:
            ValueError: where the kernel is zero.
        """
        if state is None and not isinstance(self.system.network, Taylor):
            return {}
        state = self.draw(0)[0] if state is None else self.as_state(state)
        order = np.argsort(-state.kernel)
        top = state.kernel[order[0]]
        if not top > 0:
            raise ValueError(
                "state: got the kernel 0; allowed is a positive one: nothing is learned"
            )
        unit = 1 / (2 * float(self.setting.weight))  # of the rule's rate, in that on ½ Σ r²
        found = {"critical_learning_rate": unit * 2 / top, "maximal_learning_rate": unit * 4 / top}
        if len(order) > 1 and state.kernel[order[1]] > 0:
            found["second_critical_learning_rate"] = unit * 2 / state.kernel[order[1]]
        found |= self._catapult(state, int(order[0]))
        return {name: float(value) for name, value in found.items()}

    def _catapult(self, state: Residuals, i: int) -> dict[str, Any]:
        of = jax.tree.map(np.asarray, self.setting)
        delta, c = of.eta * state.kernel[i] - 2, of.c[i]
        u = c * of.eta**2 * state.r[i] ** 2
        if not (0 < delta < 2 and 0 < 2 * u < delta**2):
            return {}
        outside = of.rest + np.sum(state.r**2) - state.r[i] ** 2
        peak = catapult.peak_of_u(delta) / (c * of.eta**2)
        with jax.enable_x64(True):
            step = catapult.peak_step(delta, u)
        return {
            "peak_loss": of.weight * (peak + outside),
            "peak_step": step,
            "final_kernel": 4 / of.eta - state.kernel[i],
        }


class ClosedMap(Map):
    """The discrete step."""

    setting: Setting

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

    setting: Setting
    rate: Array = eqx.field()

    @property
    def clock(self) -> Clock:
        return continuous(self.rate)

    @compiled_in_float64
    def drift(self, state: Residuals) -> Residuals:
        """D (r, λ) / d step, η included."""
        of = self.setting
        return Residuals(
            *closed_map.change(jnp.asarray(state.r), jnp.asarray(state.kernel), of.c, of.a, of.eta)
        )
