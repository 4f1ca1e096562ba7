"""A problem, a network, a rule and a theory of one's own, written outside of the package."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn import testing
from learndyn.networks import AbstractNetwork
from learndyn.problems import AbstractLoss, AbstractProblem
from learndyn.rules import AbstractRule, Bound
from learndyn.theory import (
    THEORIES,
    AbstractTheory,
    Clock,
    Coverage,
    Flow,
    Map,
    Reference,
    Variable,
)


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
    gap = {"gap": lambda model: np.abs(model.weights.matrix - [[0, -1], [1, 0]]).max()}
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


class Decay(AbstractNetwork):
    """A number that is its own output, whatever the input."""

    @property
    def input_shape(self):
        return (1,)

    def output_shape(self, input_shape, dtype=None):
        return ()

    def __call__(self, weights, x):
        return weights * jnp.ones(x.shape[:-1], weights.dtype)

    def sample(self, rng, input_shape, target=None):
        return np.asarray(rng.normal())


class Target(AbstractProblem):
    """A number to be met, with noise on it."""

    value: np.ndarray
    loss: AbstractLoss

    def __init__(self, value, loss=None):
        self.value = np.asarray(value, np.float64)
        self.loss = ld.SquaredLoss(0.5) if loss is None else loss

    @property
    def input_shape(self):
        return (1,)

    def sampler(self, teacher, dtype):
        def sample(source, shape):
            noise = source.normal(shape, dtype)
            return jnp.ones((*shape, 1), dtype), jnp.asarray(self.value, dtype) + 0.1 * noise

        return sample


class Step(AbstractRule):
    """w ← w + η (y − w): the mean of w obeys a linear recursion."""

    rate: np.ndarray

    def __init__(self, rate):
        self.rate = np.asarray(rate, np.float64)

    @property
    def samples(self):
        return True

    def bind(self, problem, network, teacher, dtype):
        sample = problem.sampler(teacher, dtype)
        rate = jnp.asarray(self.rate, dtype)

        def step(weights, memory, source):
            _, y = sample(source, (1,))
            return weights + rate * (y[0] - weights), memory

        return Bound(lambda w: (), step)


class Gap(eqx.Module):
    gap: object = eqx.field(converter=np.asarray)


class Shrinking(Map):
    rate: object

    @property
    def clock(self):
        return Clock("steps", 1.0, 1.0)

    def advance(self, y):
        return eqx.tree_at(lambda s: s.gap, y, (1 - self.rate) * y.gap)


class Flowing(Flow):
    rate: object

    @property
    def clock(self):
        return Clock("steps", 1.0, 1.0)

    def drift(self, state):
        return eqx.tree_at(lambda s: s.gap, state, -self.rate * state.gap)


class MeanGap(AbstractTheory):
    """The mean of w − target: (1 − η)^t, and exp(−η t) as a flow. It realises no weights."""

    name = "mean gap"
    orders = ("full", "flow")
    reference = (Reference("own", "a linear recursion"),)
    variables: ClassVar = {
        "error": Variable((), "squared gap of the mean", ""),
        "gap": Variable((), "gap", ""),
    }

    @classmethod
    def covers(cls, system):
        if not (isinstance(system.rule, Step) and isinstance(system.problem, Target)):
            return Coverage("none", "it is about steps towards a number")
        return Coverage("exact", "the mean obeys a linear recursion")

    def as_state(self, state):
        if not isinstance(state, Gap):
            raise ValueError(f"state: got a {type(state).__name__}; allowed is a Gap")
        return state

    def project(self, weights, teacher):
        return Gap(np.asarray(weights, np.float64) - self.system.problem.value)

    def dynamics(self, order):
        rate = self.system.rule.rate
        return Shrinking(rate) if order == "full" else Flowing(rate)

    def observe(self, state):
        return {"error": 0.5 * state.gap**2, "gap": state.gap}


@pytest.fixture
def registered():
    ld.register(MeanGap)
    yield
    THEORIES.remove(MeanGap)


def test_a_theory_of_ones_own(registered):
    system = ld.System(Target(2.0), Decay(), Step(0.05))
    start, times = ld.start(system, key=1), np.arange(0, 61, 20)
    theory = ld.solve(system, times, start=start)
    first = float(start.weights) - 2.0
    np.testing.assert_allclose(theory["gap"], first * 0.95**times, rtol=1e-12)
    flow = ld.solve(system, times, start=start, order="flow", theory="mean gap")
    np.testing.assert_allclose(flow["gap"], first * np.exp(-0.05 * times), rtol=1e-7)
    runs = ld.simulate(system, times, start=start, runs=200, key=2, dtype="float64")
    assert runs.attrs["theory"] == "mean gap"
    only = ["gap", "outcome", "diverged_at"]  # the mean of a square is not the square of a mean
    assert ld.compare(theory[only], runs[only]).verdict == "agrees"
    # A rate that is 10 % off deviates.
    wrong = ld.solve(ld.System(Target(2.0), Decay(), Step(0.055)), times, start=start)
    found = ld.compare(wrong[only], runs[only], same_system=False)
    assert found.verdict == "deviates"


def test_an_own_theory_refuses_what_it_does_not_know(registered):
    system = ld.System(Target(2.0), Decay(), Step(0.05))
    with pytest.raises(ValueError, match="fluctuations: got True, but the mean gap theory states"):
        ld.solve(system, [0, 1], fluctuations=True)
    with pytest.raises(ValueError, match="method: got 'reduced', but the mean gap theory knows no"):
        ld.simulate(system, [0, 1], method="reduced")
    with pytest.raises(
        ValueError, match="start: got a state, but the mean gap theory cannot construct"
    ):
        _ = ld.start(system, state=Gap(1.0)).weights
    with pytest.raises(ld.NoTheory, match="theory: got 'committee', but the network is a Decay"):
        ld.solve(system, [0, 1], theory="committee")
    with pytest.raises(ValueError, match="theory: got 'none'; allowed is one of"):
        ld.solve(system, [0, 1], theory="none")


@pytest.mark.parametrize("check", testing.THEORY, ids=lambda check: check.__name__)
def test_a_theory_of_ones_own_does_what_ours_do(registered, check):
    check(ld.System(Target(2.0), Decay(), Step(0.05)))


def test_a_network_and_a_rule_of_ones_own_do_what_ours_do():
    testing.check_network(Rotation(), (2, 1))
    testing.check_rule(Signs(0.01, 4))


class Wider(Rotation):
    """States another shape than it has."""

    def output_shape(self, input_shape, dtype=None):
        return (3, 1)


class Rounded(Signs):
    """Steps in float32, whatever the weights are."""

    def bind(self, problem, network, teacher, dtype):
        bound = super().bind(problem, network, teacher, dtype)

        def rounded(weights, memory, source):
            weights, memory = bound.step(weights, memory, source)
            return jax.tree.map(lambda w: w.astype(jnp.float32), weights), memory

        return Bound(bound.init, rounded)


class Constant(MeanGap):
    """Calls conserved what is not."""

    def invariants(self, state):
        return {"gap": state.gap}


class Nameless(MeanGap):
    """Has an observable that it does not name."""

    def observe(self, state):
        return {**super().observe(state), "more": state.gap}


def test_the_checks_find_what_is_wrong(registered):
    with pytest.raises(AssertionError, match=r"outputs: got \(5, 2, 1\), stated is \(3, 1\)"):
        testing.check_network(Wider(), (2, 1))
    with pytest.raises(AssertionError, match=r"a step made .*float64.* into float32"):
        testing.check_rule(Rounded(0.01, 4))
    system = ld.System(Target(2.0), Decay(), Step(0.05))
    for kind, check, said in (
        (Constant, testing.theories.invariants_do_not_move, "invariants: changed by"),
        (Nameless, testing.theories.observables_are_finite_and_named, "observe: got error, gap, m"),
    ):
        ld.register(kind)  # in place of the theory of the same name
        with pytest.raises(AssertionError, match=said):
            check(system)
    ld.register(MeanGap)


class Older(MeanGap):
    """As written when the method was still called `draw`."""

    def draw(self, key):
        return Gap(float(key)), lambda: (np.zeros(()), ())


def test_a_theory_with_a_method_draw_still_starts():
    theory = Older(ld.System(Target(2.0), Decay(), Step(0.05)))
    with pytest.warns(DeprecationWarning, match="call it `sample` instead"):
        assert theory.sample(3)[0].gap == 3.0


def test_a_probe_may_not_take_the_place_of_an_observable():
    with pytest.raises(ValueError, match="probes: got 'error', which the record has already"):
        ld.simulate(SYSTEM, [0, 1], probes={"error": lambda model: 0.0})


def test_nodes_of_ones_own_network():
    weights = SYSTEM.network.sample(np.random.default_rng(0), (2, 1))
    _, nodes = ld.forward(SYSTEM.network, weights, np.ones((3, 2, 1)))
    assert nodes["turned"].shape == (3, 2, 1)
