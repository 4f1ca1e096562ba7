"""Any optax transformation as a rule."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.checks import a_kind, instance, one_of, positive_int
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.base import AbstractGradientRule, AbstractRule, Bound, Memory
from learndyn.rules.batches import SAMPLINGS, check_batches
from learndyn.rules.gradient import SGD, GradientDescent


class Optax(AbstractRule):
    """w ← w + the update that an optax transformation makes of a gradient.

    Rates, decay and momentum are the transformation's own and may be optax schedules, which
    count steps. They are compiled in: another learning rate compiles anew, but for an array that
    the transformation shows to JAX (`jax.tree_util.Partial(update, rate)` as its `update`).
    Transformations that ask for `value`, `grad` and `value_fn` (line searches) get them.

    Args:
        transformation: such as `optax.adam(1e-3)`.
        batch: examples a step; None is the estimator's own, and all of the data set (or the
            population) without one.
        sampling: "replacement" or "epochs", as in `SGD`.
        estimator: a rule whose estimate of the gradient is taken, its learning rate playing no
            part; None is backpropagation.
    """

    transformation: Any
    batch: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)
    estimator: AbstractGradientRule | None

    def __init__(
        self,
        transformation: Any,
        *,
        batch: int | None = None,
        sampling: str = "replacement",
        estimator: AbstractGradientRule | None = None,
    ):
        parts = (getattr(transformation, name, None) for name in ("init", "update"))
        if not all(map(callable, parts)):
            came = a_kind(transformation)
            allowed = "an optax transformation such as optax.adam(1e-3)"
            raise ValueError(f"transformation: got {came}; allowed is {allowed}")
        self.transformation = transformation
        self.batch = None if batch is None else positive_int("batch", batch)
        self.sampling = one_of("sampling", sampling, SAMPLINGS)
        if estimator is not None:
            instance("estimator", estimator, AbstractGradientRule, "a rule such as SGD, or None")
        self.estimator = estimator
        if sampling == "epochs" and not self.samples:
            raise ValueError("sampling: got 'epochs' without a batch; allowed with batch=…")

    @property
    def samples(self) -> bool:
        return self._source.samples

    @property
    def _source(self) -> AbstractGradientRule:
        if self.estimator is not None:
            return self.estimator
        return GradientDescent(1.0) if self.batch is None else SGD(1.0, batch=self.batch)

    def check_problem(self, problem: AbstractProblem) -> None:
        batch = self.batch or getattr(self.estimator, "batch", None)
        if batch is not None:
            check_batches(problem, batch, self.sampling)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        self._source.check_network(problem, network)

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        source = self._source
        sampling = self.sampling if source.samples else None
        found = source.gradients(
            problem, network, teacher, dtype, batch=self.batch, sampling=sampling
        )
        transform = optax.with_extra_args_support(self.transformation)

        def init(weights: Weights) -> Memory:
            return found.init(), jax.tree.map(jnp.asarray, transform.init(weights))

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, loss, drawn = found.estimate(weights, memory[0], source)
            updates, state = transform.update(
                gradient, memory[1], weights, value=loss(weights), grad=gradient, value_fn=loss
            )
            # Schedules compute in float64 here: weights and memory keep their precision.
            state = jax.tree.map(lambda new, old: new.astype(old.dtype), state, memory[1])
            return optax.apply_updates(weights, updates), (drawn, state)

        of = found.seen
        seen = None if of is None else (lambda memory, source: of(memory[0], source))
        return Bound(init, step, seen=seen)
