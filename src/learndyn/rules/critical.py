"""The critical learning rate of a squared loss, step after step, inside a compiled program."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from learndyn.models import Model
from learndyn.networks import AbstractNetwork
from learndyn.numerics.subspace import top_of, top_subspace
from learndyn.problems import AbstractProblem, SquaredLoss
from learndyn.runtime.checks import instance
from learndyn.runtime.types import Array, Weights
from learndyn.tangent.kernel import as_matrix, critical_rate

HELD = 512  # number of rows up to which the kernel is stored as a matrix
# Subspace iteration for larger kernels: vectors, products at the first step, and at later ones.
BLOCK, FIRST, NEXT = 4, 30, 3
Basis = Array  # vectors from which the next measurement starts; empty for stored kernels


class CriticalRate(NamedTuple):
    """Measures η_crit = 2/λ_max(H) of all examples, H the Gauss-Newton part of the Hessian.

    Attributes:
        init: weights → η_crit, and vectors from which the next measurement starts.
        next: (weights, vectors) → the same, one step later.
    """

    init: Callable[[Weights], tuple[Array, Basis]]
    next: Callable[[Weights, Basis], tuple[Array, Basis]]


def track_critical_rate(
    problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
) -> CriticalRate:
    """η_crit = n/(scale · λ_max(K)) of all examples, or of held-out ones if examples are fresh.

    A tangent kernel of up to 512 rows is stored. For a larger one λ_max comes from subspace
    iteration, starting from the vectors of the previous step; it is slightly too small if the
    kernel's eigenvectors change fast.

    Args:
        problem: with a `SquaredLoss`.
        network: the student.
        teacher: the teacher's weights.
        dtype: precision.

    Returns:
        The functions that measure it.
    """
    x, _ = problem.measured_on(teacher, dtype)[""].take(slice(None), dtype)
    scale = jnp.asarray(squared_loss(problem).scale, dtype)
    rate = lambda top: critical_rate(scale * top, len(x))

    def held(weights: Weights, basis: Basis) -> tuple[Array, Basis]:
        K = as_matrix(Model(network, weights).kernel(x))
        return rate(top_of(K, 1)[0][0]), basis

    def iterated(weights: Weights, basis: Basis, steps: int) -> tuple[Array, Basis]:
        values, basis = top_subspace(kernel_product(network, weights, x), basis, steps)
        return rate(values[0]), basis

    def init(weights: Weights) -> tuple[Array, Basis]:
        size = jax.eval_shape(network, weights, x).size
        if size <= HELD:
            return held(weights, jnp.zeros((size, 0), dtype))
        # A fixed key: the measurement takes no random numbers from the run.
        begin = jax.random.normal(jax.random.key(0), (size, BLOCK), dtype)
        return iterated(weights, begin, FIRST)

    # The number of rows is that of the basis, so that the choice made by `init` is repeated.
    def next_(weights: Weights, basis: Basis) -> tuple[Array, Basis]:
        return held(weights, basis) if len(basis) <= HELD else iterated(weights, basis, NEXT)

    return CriticalRate(init, next_)


def squared_loss(problem: AbstractProblem) -> SquaredLoss:
    """The loss of a problem, or a one-line error if it is not a `SquaredLoss`."""
    return instance("loss", problem.loss, SquaredLoss, "SquaredLoss(scale)")


def kernel_product(
    network: AbstractNetwork, weights: Weights, x: Array
) -> Callable[[Array], Array]:
    """V ↦ K V, by one backward and one forward pass per column."""
    outputs = lambda w: network(w, x).reshape(-1)
    _, pull = jax.vjp(outputs, weights)
    push = lambda v: jax.jvp(outputs, (weights,), pull(v))[1]
    return jax.vmap(push, in_axes=1, out_axes=1)
