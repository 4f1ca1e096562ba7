"""The critical learning rate of a squared loss, step after step, inside a compiled program."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from learndyn.networks import AbstractNetwork, Model
from learndyn.networks.base import Weights
from learndyn.numerics.checks import instance
from learndyn.numerics.subspace import top_of, top_subspace
from learndyn.numerics.types import Array
from learndyn.problems import AbstractProblem, SquaredLoss

HELD = 512  # rows up to which the kernel is held
BLOCK, FIRST, NEXT = 4, 30, 3  # of larger ones: vectors; products at the first step, at the next
Basis = Array  # vectors that the next measurement begins from; empty where none are needed


class CriticalRate(NamedTuple):
    """Measures η_crit = 2/λ_max(H) of all examples, H the Gauss-Newton part of the Hessian.

    Attributes:
        init: weights → η_crit, and vectors to begin from.
        next: (weights, vectors) → the same, a step later.
    """

    init: Callable[[Weights], tuple[Array, Basis]]
    next: Callable[[Weights, Basis], tuple[Array, Basis]]


def critical_rate(
    problem: AbstractProblem, network: AbstractNetwork, teacher: Weights, dtype
) -> CriticalRate:
    """η_crit = n/(scale · λ_max(K)) of the problem's examples, or of held-out ones without any.

    A tangent kernel of up to 512 rows is held; of a larger one products are taken, by subspace
    iteration from the vectors of the step before, whose λ_max is a little low where the kernel
    turns fast.

    Args:
        problem: with a `SquaredLoss`.
        network: the student.
        teacher: the teacher's weights.
        dtype: precision.

    Returns:
        What measures it.
    """
    x, _ = problem.measured_on(teacher, dtype)[""].take(slice(None), dtype)
    scale = jnp.asarray(squared_loss(problem).scale, dtype)
    rate = lambda top: jnp.where(top > 0, len(x) / (scale * jnp.where(top > 0, top, 1)), jnp.inf)

    def held(weights: Weights, basis: Basis) -> tuple[Array, Basis]:
        return rate(top_of(kernel_matrix(network, weights, x), 1)[0][0]), basis

    def iterated(weights: Weights, basis: Basis, steps: int) -> tuple[Array, Basis]:
        values, basis = top_subspace(kernel_product(network, weights, x), basis, steps)
        return rate(values[0]), basis

    def init(weights: Weights) -> tuple[Array, Basis]:
        size = jax.eval_shape(network, weights, x).size
        if size <= HELD:
            return held(weights, jnp.zeros((size, 0), dtype))
        begin = jax.random.normal(jax.random.key(0), (size, BLOCK), dtype)
        return iterated(weights, begin, FIRST)

    def next_(weights: Weights, basis: Basis) -> tuple[Array, Basis]:
        return held(weights, basis) if len(basis) <= HELD else iterated(weights, basis, NEXT)

    return CriticalRate(init, next_)


def squared_loss(problem: AbstractProblem) -> SquaredLoss:
    """The loss of a problem, or a one-line error where it is no squared one."""
    return instance("loss", problem.loss, SquaredLoss, "SquaredLoss(scale)")


def kernel_matrix(network: AbstractNetwork, weights: Weights, x: Array) -> Array:
    """The tangent kernel as a symmetric matrix, rows ordered by example, then output."""
    found = Model(network, weights).kernel(x)
    size = found.shape[0] * found.shape[1]
    matrix = found.reshape(size, size)
    return (matrix + matrix.T) / 2


def kernel_product(
    network: AbstractNetwork, weights: Weights, x: Array
) -> Callable[[Array], Array]:
    """V ↦ K V, by one backward and one forward pass a column."""
    outputs = lambda w: network(w, x).reshape(-1)
    _, pull = jax.vjp(outputs, weights)
    push = lambda v: jax.jvp(outputs, (weights,), pull(v))[1]
    return jax.vmap(push, in_axes=1, out_axes=1)
