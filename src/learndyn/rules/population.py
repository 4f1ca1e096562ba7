"""The loss that a rule without sampling sees."""

from collections.abc import Callable

import jax.numpy as jnp

from learndyn.networks import AbstractNetwork, Committee, DeepLinear
from learndyn.networks.base import Weights
from learndyn.numerics.matrix_product import product
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.problems import AbstractProblem, Dataset, TeacherStudent


def loss_of(
    rule: Value, problem: AbstractProblem, network: AbstractNetwork, teacher: Weights
) -> Callable[[Weights], Array]:
    """The population loss without label noise, or the mean loss over a data set.

    Args:
        rule: for the error message.
        problem: where examples come from.
        network: the student.
        teacher: the teacher's weights.

    Returns:
        The loss as a function of the weights.

    Raises:
        ValueError: where the population loss has no closed form.
    """
    if isinstance(problem, Dataset):
        x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)
        return lambda w: problem.loss(network, w, x, y)
    if isinstance(network, DeepLinear):
        return lambda w: map_loss(problem, product(w), teacher)
    if isinstance(problem, TeacherStudent) and isinstance(network, Committee):
        other = problem.teacher
        if isinstance(other, Committee) and other.activation == network.activation:
            seen = lambda w: problem.covariance(network.learning(w), teacher)
            return lambda w: problem.population_loss(network, seen(w))
    name = type(rule).__name__
    raise ValueError(
        f"rule: got {name} without a population loss in closed form; allowed are deep linear "
        "networks with a linear teacher, committees that share the teacher's activation, "
        "or a Dataset"
    )


def map_loss(problem: AbstractProblem, map_: Array, teacher: Weights) -> Array:
    """loss_scale · tr[(w̄ − w̄*) Σ (w̄ − w̄*)ᵀ], the loss of a linear map above its floor (Eq. 1)."""
    statistics = problem.map_statistics(teacher)
    assert statistics is not None
    return problem.loss_scale * jnp.sum(((map_ - statistics.target) @ statistics.root) ** 2)
