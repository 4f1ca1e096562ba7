"""Networks that are linear in their weights, on a data set.

Their tangent kernel K does not change, so that outputs on the training set obey an equation of
their own, and those on all other inputs follow from it. With a squared loss, every eigenvector of
K learns independently, in closed form: any time costs the same. It covers linear twins,
`ld.linearise(model)`, and functions that say so, `ld.Network(init, apply, linear=True)`.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.problems.losses import is_labels, is_right
from learndyn.runtime.checks import one_of
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Weights
from learndyn.system import System
from learndyn.theory.base import Coverage, Reference, Variable
from learndyn.theory.dynamics import Flow, Map, Refused
from learndyn.theory.linearised import landmarks
from learndyn.theory.linearised.base import NAMES, AbstractLinearised, beyond
from learndyn.theory.linearised.descent import NO_CLOCK, Descent, refusal
from learndyn.theory.linearised.dynamics import OutputFlow, OutputMap
from learndyn.theory.linearised.kernel import Sets
from learndyn.theory.linearised.state import Outputs, checked


class LinearisedTheory(AbstractLinearised):
    """Outputs of a model that is linear in its weights, under rules without sampling.

    Order "full" is the discrete step, "flow" the limit of a small learning rate. Under a
    `SquaredLoss` both are in closed form; under `CrossEntropy` the step is iterated and the flow
    integrated, on all examples at once.

    Args:
        system: a system that it covers.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(lambda key: np.zeros(2), lambda w, x: x @ w, linear=True)
        >>> data = ld.Dataset(np.diag([2.0, 4.0]), np.ones(2))
        >>> system = ld.System(data, network, ld.GradientDescent(0.1))
        >>> theory = ld.theory_of(system)
        >>> type(theory).__name__, theory.landmarks()["critical_learning_rate"]
        ('LinearisedTheory', 0.25)
        >>> ld.solve(system, [0, 10**6])["error"].values.round(4).tolist()
        [0.5, 0.0]
    """

    name: ClassVar[str] = "linearised"
    orders: ClassVar[tuple[str, ...]] = ("full", "flow")
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference(
            "lee2019wide",
            "the closed form of gradient flow and descent on a squared loss; momentum, decay, "
            "changing rates and preconditioned steps are derived here (course.py, modes.py)",
        ),
    )
    units: ClassVar[dict[str, str]] = landmarks.UNITS

    @classmethod
    def covers(cls, system: System) -> Coverage:
        why = beyond(system) or refusal(system.rule, system.problem)
        if why is not None:
            return Coverage("none", why)
        return Coverage("exact", "the kernel of a model that is linear in its weights is fixed")

    @property
    def variables(self) -> dict[str, Variable]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss on every set, and the share of labels found if there are labels."""
        labels = {}
        for prefix, examples in self.examples.items():
            labels[f"{prefix}error"] = Variable((), f"loss on {NAMES[prefix]}", "")
            if is_labels(examples.y):
                text = f"share of labels found on {NAMES[prefix]}"
                labels[f"{prefix}accuracy"] = Variable((), text, "")
        return labels

    def as_state(self, state: Any) -> Outputs:
        return checked(state, self._at_rest(np.zeros(self.shape)))

    @compiled_in_float64
    def project(self, weights: Weights, teacher: Weights) -> Outputs:
        """The outputs on all examples; momentum starts at rest."""
        doubles = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64), weights)
        return self._at_rest(self.system.network(doubles, self.inputs))

    def realise(self, state: Outputs, key: int) -> tuple[Weights, Weights] | Refused:
        if np.any(state.velocity) or np.any(state.step):
            return Refused("the state moves already, and weights do not say how")
        return self.weights_of(np.asarray(state.values), key)

    def dynamics(self, order: str) -> Flow | Map | Refused:
        one_of("order", order, self.orders)
        if order == "full":
            return OutputMap(self.forces(), self)
        if Descent.of(self.system.rule).changes_rate:
            return Refused(NO_CLOCK)
        return OutputFlow(self.forces(), self, landmarks.fastest(self))

    @compiled_in_float64
    def observe(self, state: Outputs) -> dict[str, Any]:
        sets, loss, found = Sets.of(self.system.problem), self.system.problem.loss, {}
        for prefix, place in sets.places.items():
            outputs, y = jnp.asarray(state.values)[place], sets.targets[prefix]
            found[f"{prefix}error"] = loss(outputs, y, outputs.ndim - 1)
            if is_labels(y):
                counted = loss.counted(y)
                share = jnp.ones(len(y)) if counted is None else counted
                right = jnp.sum(share * is_right(outputs, y)) / jnp.sum(share)
                found[f"{prefix}accuracy"] = right
        return found

    @compiled_in_float64
    def observe_each(self, states: Outputs) -> dict[str, Any]:
        """The observables of several states, leaves (states, …)."""
        return jax.vmap(lambda values: self.observe(Outputs(values)))(jnp.asarray(states.values))

    def attributes(self, state: Outputs) -> dict[str, Any]:
        """The rank of the kernel, and the loss outside its range, which is never learned."""
        return landmarks.attributes(self, state)

    def landmarks(self, *, state: Outputs | None = None, target: float = 0.01) -> dict[str, float]:
        """Critical rate, times to learn, and effective rank.

        Args:
            state: the initial state; None for that of `start(system)`.
            target: the part of a mode's residual that counts as learned.

        Returns:
            The landmarks:

            - `critical_learning_rate`: above it the largest mode grows without bound.
            - `effective_rank`: (Σλ)²/Σλ² of the kernel; `rank`, the number of its modes that learn.
            - `fastest_time`, `slowest_time`: steps until a residual is `target` times its start, in
              the first and in the last mode that learns; left out above the critical rate.
            - `unlearned_error`: the loss of the residuals outside the range of the kernel; with a
              squared loss only.
            - `final_error`: the loss after infinitely many steps, which weight decay raises; with a
              squared loss below the critical rate only.
        """
        begin: Outputs = self.sample(0)[0] if state is None else self.as_state(state)
        return landmarks.of(self, begin, target)
