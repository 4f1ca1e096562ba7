"""Node perturbation: gradients from the correlation of a loss with noise in the nodes."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.networks.base import Weights
from learndyn.numerics.checks import positive, positive_int
from learndyn.numerics.random import Source, Stream
from learndyn.numerics.types import Array, Number
from learndyn.problems import AbstractProblem, TeacherStudent
from learndyn.rules.base import AbstractSampledRule


class NodePerturbation(AbstractSampledRule):
    """w ← w − learning_rate · (loss difference / sigma) · noise · input, here of two linear layers.

    Args:
        learning_rate: the factor of the estimate, whose mean is ∇loss.
        sigma: size of the perturbation; None is the limit of a small one.
        batch: number of examples a step.
        perturbations: number of draws for each example.
        shared: whether one draw serves the whole batch.
    """

    learning_rate: np.ndarray
    sigma: np.ndarray | None
    batch: int = eqx.field(static=True)
    perturbations: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)

    def __init__(
        self,
        learning_rate: Number,
        *,
        sigma: Number | None = None,
        batch: int = 1,
        perturbations: int = 1,
        shared: bool = False,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.sigma = None if sigma is None else positive("sigma", sigma)
        self.batch = positive_int("batch", batch)
        self.perturbations = positive_int("perturbations", perturbations)
        self.shared = bool(shared)

    @property
    def sampling(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Fresh examples."""
        return "replacement"

    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        assert isinstance(problem, TeacherStudent)
        scale = 2 * problem.loss_scale

        def gradient(weights: Weights, x: Array, y: Array, source: Source) -> Weights:
            w1, w2 = weights
            x, y = jnp.atleast_2d(x), jnp.atleast_2d(y)
            hidden, batch = x @ w1.T, len(x)
            e = hidden @ w2.T - y
            shape = (self.perturbations, 1 if self.shared else batch, sum(map(len, weights)))
            xi = source.normal(shape, w1.dtype, Stream.NODES)
            xi = jnp.broadcast_to(xi, (self.perturbations, batch, shape[-1]))
            xi1, xi2 = xi[..., : len(w1)], xi[..., len(w1) :]
            u = xi1 @ w2.T + xi2
            s = jnp.sum(u * e, axis=-1)
            if self.sigma is not None:
                s = s + jnp.asarray(self.sigma, w1.dtype) / 2 * jnp.sum(u**2, axis=-1)
            s = jnp.asarray(scale, w1.dtype) * s / (self.perturbations * batch)
            mean = lambda xi, h: jnp.einsum("pb,pbi,bj->ij", s, xi, h)
            return mean(xi1, x), mean(xi2, hidden)

        return gradient
