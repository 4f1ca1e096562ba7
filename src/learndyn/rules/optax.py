"""Any optax transformation as a rule."""

import contextlib
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source
from learndyn.problems import AbstractProblem
from learndyn.rules.base import (
    AbstractGradientRule,
    AbstractRule,
    Bound,
    Loss,
    Memory,
    check_only_gradient,
    check_traced,
)
from learndyn.rules.batches import SAMPLINGS, check_batches
from learndyn.rules.gradient import SGD, GradientDescent
from learndyn.runtime.bounds import COUNT, bounded
from learndyn.runtime.checks import a_kind, instance, one_of, positive_int, shown
from learndyn.runtime.types import Weights

LONGEST = 200  # characters of a transformation's error that are shown


@bounded(batch=COUNT)
class Optax(AbstractRule):
    """w ← w + update, with the update that an optax transformation computes from a gradient.

    Learning rates, decay and momentum belong to the transformation and may be optax schedules. They
    are constants of the compiled program: another learning rate compiles again, unless the
    transformation exposes it to JAX as an array (`jax.tree_util.Partial(update, rate)` as its
    `update`). Transformations that need `value`, `grad` and `value_fn` (line searches) get them.

    Args:
        transformation: such as `optax.adam(1e-3)`.
        batch: examples per step; None uses the estimator's batch, or without an estimator the
            whole data set (or the population).
        sampling: "replacement" or "epochs", as in `SGD`.
        estimator: a rule that provides the gradient, whatever its learning rate; None is
            backpropagation.

    Raises:
        ValueError: for what is not an optax transformation, an estimator that has momentum
            or is no gradient with a rate, and `sampling="epochs"` without a batch.

    Example:
        >>> import optax
        >>> import learndyn as ld
        >>> rule = ld.Optax(optax.adam(1e-3), batch=32, sampling="epochs")
        >>> rule.batch_size
        32
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
            check_only_gradient("estimator", estimator)
        self.estimator = estimator
        if sampling == "epochs" and not self.samples:
            raise ValueError(
                "sampling: got 'epochs' without a batch; allowed is 'epochs' with batch=…"
            )

    @property
    def samples(self) -> bool:
        return self._source.samples

    @property
    def batch_size(self) -> int | None:
        return self.batch or self._source.batch_size

    @property
    def noise_draws(self) -> int:
        return self._source.noise_draws

    @property
    def _source(self) -> AbstractGradientRule:
        if self.estimator is not None:
            return self.estimator
        return GradientDescent(1.0) if self.batch is None else SGD(1.0, batch=self.batch)

    def check_problem(self, problem: AbstractProblem) -> None:
        if self.batch_size is not None:
            check_batches(problem, self.batch_size, self.sampling)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        """Also raises a ValueError for a transformation whose updates do not fit the weights."""
        self._source.check_network(problem, network)
        # In a compiled run the transformation's arrays are JAX arrays, which tracers may index;
        # tracers cannot index NumPy arrays.
        as_jax = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
        rule = jax.tree.map(as_jax, self)
        # Any loss will do: only structures and shapes of the updates are checked.
        loss = lambda w: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(w))
        first_step = lambda w: rule._updated(w, jax.grad(loss)(w), loss, rule._init(w))
        if (like := network.like(problem.input_shape)) is not None:
            narrow = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, jnp.float32), like)
            check_traced(first_step, narrow)

    def bind(
        self, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
    ) -> Bound:
        source = self._source
        sampling = self.sampling if source.samples else None  # rules on all examples refuse it
        gradients = source.gradients(
            problem, network, teacher, dtype, batch=self.batch, sampling=sampling
        )

        def init(weights: Weights) -> Memory:
            return gradients.init(), self._init(weights)

        def step(weights: Weights, memory: Memory, source: Source) -> tuple[Weights, Memory]:
            gradient, loss, drawn = gradients.estimate(weights, memory[0], source)
            weights, state = self._updated(weights, gradient, loss, memory[1])
            return weights, (drawn, state)

        return Bound(init, step, seen=gradients.seen_by_first)

    def _init(self, weights: Weights) -> Memory:
        with _named("init(weights)"):
            return jax.tree.map(jnp.asarray, self.transformation.init(weights))

    def _updated(
        self, weights: Weights, gradient: Weights, loss: Loss, state: Memory
    ) -> tuple[Weights, Memory]:
        """The next weights and state of the transformation."""
        transform = optax.with_extra_args_support(self.transformation)
        with _named("update(gradient, state, weights)"):
            updates, after = transform.update(
                gradient, state, weights, value=loss(weights), grad=gradient, value_fn=loss
            )
        _check_like("updates", updates, weights, "the structure and shapes of the weights")
        _check_like("a state", after, state, "the structure and shapes that `init` returned")
        # Schedules compute in float64 here; the cast keeps the precision of the memory.
        after = jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), after, state)
        return optax.apply_updates(weights, updates), after


@contextlib.contextmanager
def _named(call: str) -> Iterator[None]:
    """Turns errors of a call of the transformation into one line that names the call."""
    try:
        yield
    except Exception as error:  # the transformation may raise anything
        why = " ".join(f"{type(error).__name__}: {error}".split())
        why = why if len(why) <= LONGEST else f"{why[:LONGEST]}…"
        raise ValueError(
            f"transformation: got one whose {call} raises {why}; allowed is an optax "
            "transformation for these weights"
        ) from None


def _check_like(what: str, came: Any, like: Any, allowed: str) -> None:
    """Raises a ValueError if two pytrees differ in structure or in the shapes of their arrays."""
    if jax.tree.structure(came) != jax.tree.structure(like):
        shapes = f"the structure {shown(str(jax.tree.structure(came)))}"
        raise ValueError(f"transformation: got {what} of {shapes}; allowed is {allowed}")
    for new, old in zip(jax.tree.leaves(came), jax.tree.leaves(like), strict=True):
        kind = getattr(new, "dtype", type(new).__name__)
        if isinstance(new, str | bytes) or np.issubdtype(kind, np.complexfloating):
            raise ValueError(f"transformation: got {what} of type {kind}; allowed are real numbers")
        if np.shape(new) != np.shape(old):
            shapes = f"shape {np.shape(new)} for an array {np.shape(old)}"
            raise ValueError(f"transformation: got {what} of {shapes}; allowed is {allowed}")
