"""Rules without sampling, in the space of functions: what they do with each mode of a kernel."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.problems import AbstractProblem
from learndyn.rules import SGD, AbstractRule, GradientDescent, NaturalGradient, Piecewise
from learndyn.runtime.precision import as_float64
from learndyn.runtime.types import Array
from learndyn.theory.linearised.modes import Law


class Descent(eqx.Module):
    """A rule that moves weights by η P Jᵀ ∂loss/∂outputs, with P a function of the kernel.

    Attributes:
        rates: learning rates, (pieces,).
        changes: the first steps of all pieces but the first, (pieces − 1,).
        momentum: β; None without momentum.
        nesterov: whether momentum is Nesterov's.
        decay: w ← (1 − decay) w − …, per step.
        power: of the natural gradient; 0 for the gradient.
        damping: of the natural gradient.
        paper: whether damping multiplies by (1 + damping)^power.
    """

    rates: Array = eqx.field(converter=as_float64)
    changes: Array
    momentum: Array | None = None
    nesterov: bool = eqx.field(static=True, default=False)
    decay: Array | None = None
    power: Array | None = None
    damping: Array | None = None
    paper: bool = eqx.field(static=True, default=False)

    @staticmethod
    def of(rule: AbstractRule) -> "Descent":
        """A rule without sampling that the theory covers."""
        inner: Any = rule.rule if isinstance(rule, Piecewise) else rule
        pieces = np.asarray(rule.rates if isinstance(rule, Piecewise) else [])
        changes = np.asarray(rule.steps if isinstance(rule, Piecewise) else [], dtype=np.int64)
        rates = np.append(np.asarray(inner.learning_rate, np.float64), pieces)
        if isinstance(inner, NaturalGradient):
            paper = inner.damping_form == "paper"
            return Descent(rates, changes, power=inner.power, damping=inner.damping, paper=paper)
        return Descent(rates, changes, inner.momentum, inner.nesterov, inner.decay)

    def law(self, flow: bool = False) -> Law:
        """What it does with a pull."""
        momentum = 0.0 if self.momentum is None else float(self.momentum)
        return Law(momentum, self.nesterov, flow)

    def preconditioner(self, values: np.ndarray, examples: int) -> np.ndarray:
        """P of every mode of the kernel; zero for modes of eigenvalue zero, which do not learn.

        A natural gradient has H^(−p) Jᵀ = Jᵀ (K/n)^(−p), so that P is a function of λ/n.
        """
        learns = values > 0
        if self.power is None or self.damping is None:
            return np.where(learns, 1.0, 0.0)
        power, damping = float(self.power), float(self.damping)
        bases = np.where(learns, values / examples + damping, 1.0)
        scale = (1 + damping) ** power if self.paper else 1.0
        return np.where(learns, scale * bases**-power, 0.0)

    def rate_at(self, step: Array | None) -> Array:
        """The learning rate of a step; None stands for the only one."""
        rates = jnp.asarray(self.rates)
        if step is None:
            return rates[0]
        return rates[jnp.searchsorted(jnp.asarray(self.changes), step, side="right")]

    @property
    def changes_rate(self) -> bool:
        return len(self.changes) > 0

    def check_flow(self) -> None:
        """Raises a ValueError if the rule has no flow."""
        if self.changes_rate:
            raise ValueError(f"order: got 'flow', but {NO_CLOCK}; allowed is 'full'")


NO_CLOCK = "the rate changes in time, so that rate × steps is no clock"  # of a flow
SCHEDULED = "the rule's rate is a function of the step; rates that change are Piecewise"


def is_scheduled(rule: AbstractRule) -> bool:
    """Whether the learning rate is a function."""
    return callable(getattr(rule, "learning_rate", None))


def refusal(rule: AbstractRule, problem: AbstractProblem) -> str | None:
    """Why a rule is none that every step sees all examples; None if it is."""
    inner = rule.rule if isinstance(rule, Piecewise) else rule
    if is_scheduled(inner):
        return SCHEDULED
    if isinstance(inner, SGD):
        every = problem.examples()
        return None if every is None else _of_batches(inner, len(every.x))
    if isinstance(inner, NaturalGradient):
        if inner.blocks:
            return "the rule's blocks see only parts of the kernel"
        return None if inner.clip is None else "the rule's steps are clipped"
    if isinstance(inner, GradientDescent):
        return None
    allowed = "GradientDescent, NaturalGradient or SGD, alone or Piecewise"
    return f"the rule is {type(inner).__name__}, not {allowed}"


def _of_batches(rule: SGD, examples: int) -> str | None:
    if rule.sampling == "replacement":
        return "the rule draws mini-batches"
    if rule.batch == examples:
        return None
    return "an epoch's batches share no example: its steps are correlated, and no moments close"
