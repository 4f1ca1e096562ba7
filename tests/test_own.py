"""A problem, a network and a rule of one's own, written outside of the package."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.networks import AbstractNetwork
from learndyn.problems import AbstractLoss, AbstractProblem
from learndyn.rules import AbstractRule, Bound


class Absolute(AbstractLoss):
    """|target − output|, summed over outputs."""

    def each(self, output, target, axes):
        return jnp.sum(jnp.abs(output - target), axis=tuple(range(-axes, 0)))


class Circles(AbstractProblem):
    """Points (2, 1) on a circle of a given radius, to be turned by a right angle."""

    radius: np.ndarray
    loss: AbstractLoss

    def __init__(self, radius, loss=None):
        self.radius = np.asarray(radius, np.float64)
        self.loss = Absolute() if loss is None else loss

    @property
    def input_shape(self):
        return (2, 1)

    def sampler(self, teacher, dtype):
        def sample(source, shape):
            x = source.normal((*shape, 2, 1), dtype)
            x = (
                jnp.asarray(self.radius, dtype)
                * x
                / jnp.sqrt(jnp.sum(x**2, axis=-2, keepdims=True))
            )
            return x, jnp.flip(x, axis=-2) * jnp.asarray([[-1], [1]], dtype)

        return sample


class Turn(NamedTuple):
    matrix: object
    shift: dict


class Rotation(AbstractNetwork):
    """x ↦ A x + s, whose weights are a named tuple with a dictionary in it."""

    @property
    def input_shape(self):
        return (2, 1)

    def output_shape(self, input_shape, dtype=None):
        return (2, 1)

    def __call__(self, weights, x):
        return ld.tap("turned", weights.matrix @ x + weights.shift["s"])

    def sample(self, rng, input_shape, target=None):
        return Turn(rng.normal(size=(2, 2)), {"s": np.ones((2, 1))})


class Signs(AbstractRule):
    """w ← w − rate · sign(mean of past gradients): a rule with a memory."""

    rate: np.ndarray
    batch: int = eqx.field(static=True)

    def __init__(self, rate, batch):
        self.rate, self.batch = np.asarray(rate, np.float64), batch

    @property
    def samples(self):
        return True

    def bind(self, problem, network, teacher, dtype):
        sample = problem.sampler(teacher, dtype)
        gradient = jax.grad(lambda w, x, y: problem.mean_loss(network, w, x, y))

        def step(weights, memory, source):
            found = gradient(weights, *sample(source, (self.batch,)))
            memory = jax.tree.map(lambda m, g: 0.9 * m + g, memory, found)
            rate = jnp.asarray(self.rate, dtype)
            return jax.tree.map(lambda w, m: w - rate * jnp.sign(m), weights, memory), memory

        return Bound(lambda w: jax.tree.map(jnp.zeros_like, w), step)


SYSTEM = ld.System(Circles(2.0), Rotation(), Signs(0.01, 4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_simulate_save_and_load(dtype, tmp_path):
    gap = {"gap": lambda w, _: np.abs(w.matrix - [[0, -1], [1, 0]]).max()}
    record = ld.simulate(SYSTEM, [0, 10, 1000], runs=2, key=1, dtype=dtype, probes=gap)
    assert np.all(record["gap"][:, -1] < 0.1) and np.all(record["gap"][:, 0] > 0.2)
    assert record.time.attrs["unit"] == "steps" and list(record.outcome.values) == ["finished"] * 2
    ld.save(record, tmp_path / "own.nc")
    assert ld.load(tmp_path / "own.nc").identical(record)
    again = ld.System.from_json(record.attrs["system"])
    assert isinstance(again.rule, Signs) and again.to_json() == SYSTEM.to_json()
    assert "not_rebuilt" not in record.attrs


def test_one_step_and_a_given_start():
    weights = Turn(np.zeros((2, 2)), {"s": np.zeros((2, 1))})
    after = ld.update(SYSTEM, weights, key=3)
    assert set(np.abs(after.matrix).ravel()) <= {0.0, 0.01}
    record = ld.simulate(SYSTEM, [0], start=ld.start(SYSTEM, weights=weights))
    assert record.sizes["time"] == 1
    with pytest.raises(ValueError, match=r"weights: got shapes \[\(3, 2\), \(2, 1\)\]"):
        ld.start(SYSTEM, weights=Turn(np.zeros((3, 2)), {"s": np.zeros((2, 1))}))


def test_no_theory_says_why():
    with pytest.raises(ld.NoTheory, match="committee: the network is a Rotation"):
        ld.solve(SYSTEM, [1.0])


def test_nodes_of_ones_own_network():
    weights = SYSTEM.network.sample(np.random.default_rng(0), (2, 1))
    _, nodes = ld.forward(SYSTEM.network, weights, np.ones((3, 2, 1)))
    assert nodes["turned"].shape == (3, 2, 1)
