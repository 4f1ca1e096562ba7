"""A theory of your own: linear regression on a data set, mode by mode.

    python examples/own_theory.py

Gradient descent at rate η on ½ mean (y − w·x)² multiplies the gap to the best w, along each
eigenvector of the inputs' covariance, by 1 − η λ a step. The class states that and nothing else:
`solve` iterates it, `simulate` measures the same gaps, `compare` holds them together.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import learndyn as ld
from learndyn.numerics import dense
from learndyn.runtime.precision import in_float64
from learndyn.theory import AbstractTheory, Clock, Coverage, Map, Reference, Variable


class Gaps(eqx.Module):
    """w − best w along each eigenvector, (modes,)."""

    gap: object


class Shrinking(Map):
    """gap ← (1 − η λ) gap."""

    factor: object
    clock = Clock("steps", 1.0, 1.0)

    def advance(self, y):
        return eqx.tree_at(lambda s: s.gap, y, self.factor * y.gap)


class Regression(AbstractTheory):
    """Linear regression under gradient descent."""

    name = "linear regression"
    orders = ("full",)
    reference = (Reference("own", "a linear recursion for each eigenvector"),)
    variables: ClassVar = {
        "gap": Variable(("mode",), "gap along an eigenvector", ""),
        "error": Variable((), "loss above its floor", ""),
    }

    @classmethod
    def covers(cls, system):
        one_layer = isinstance(system.network, ld.DeepLinear) and len(system.network.widths) == 2
        fits = one_layer and isinstance(system.problem, ld.Dataset)
        if not (fits and isinstance(system.rule, ld.GradientDescent)):
            return Coverage("none", "it is about one linear layer on a data set")
        return Coverage("exact", "every mode obeys a linear recursion")

    @in_float64  # NumPy for users, traced by the engines
    def _modes(self):
        x, y = jnp.asarray(self.system.problem.x), jnp.asarray(self.system.problem.y)
        covariance = x.T @ x / len(x)
        return *dense.eigh(covariance), dense.solve(covariance, x.T @ y / len(x))

    def as_state(self, given):
        return given

    @in_float64
    def project(self, weights, teacher):
        _, vectors, best = self._modes()
        return Gaps((weights[0][0] - best[:, 0]) @ vectors)

    def dynamics(self, order):
        return Shrinking(1 - self.system.rule.learning_rate * self._modes()[0])

    @in_float64
    def observe(self, state):
        gap = jnp.asarray(state.gap)
        return {"gap": gap, "error": 0.5 * jnp.sum(self._modes()[0] * gap**2, axis=-1)}


def main():
    """Registers the theory, runs both roads, and returns the figure and the verdict."""
    ld.register(Regression)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4)) * [2.0, 1.0, 0.5, 0.25]
    y = x @ [[1.0], [-1.0], [1.0], [-1.0]] + 0.1 * rng.standard_normal((60, 1))
    system = ld.System(ld.Dataset(x, y), ld.DeepLinear([4, 1]), ld.GradientDescent(0.2))
    start, times = ld.start(system, key=0), np.arange(0, 61, 2)
    theory = ld.solve(system, times, start=start)
    run = ld.simulate(system, times, start=start, dtype="float64")
    found = ld.compare(theory, run)
    print(f"{found.verdict}: {found.reason}")
    return ld.plot(theory, run, variables=["gap", "error"], log=""), found


if __name__ == "__main__":
    main()[0].savefig("own_theory.png")
