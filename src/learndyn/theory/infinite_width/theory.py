"""Infinitely wide networks on a data set: a Gaussian process that learns by its tangent kernel.

Over initialisations the outputs on all inputs are Gaussian at every time, with mean and covariance
in closed form (`process.py`). Order "full" is gradient descent at its learning rate, "flow" the
limit of a small one. If only the last layer learns (`infinite(network, train="last")`), t → ∞ is
the posterior of a Gaussian process without noise, where the gain is 1 or there are no biases.
"""

import dataclasses
import functools
import math
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from learndyn.problems import Dataset, SquaredLoss
from learndyn.problems.examples import as_inputs
from learndyn.problems.losses import as_outputs
from learndyn.rules import SGD, GradientDescent, Piecewise
from learndyn.runtime.checks import finite, numbers, one_of
from learndyn.runtime.memory import memory
from learndyn.runtime.precision import compiled_in_float64, full_precision, in_float64
from learndyn.runtime.types import Array, Weights
from learndyn.system import System
from learndyn.theory.base import (
    AbstractTheory,
    Coverage,
    Realise,
    Reference,
    Variable,
    beyond_gradient,
)
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, Refused, continuous
from learndyn.theory.infinite_width.network import InfiniteNetwork
from learndyn.theory.infinite_width.process import Learning, ProcessFlow, ProcessMap, Reading
from learndyn.theory.infinite_width.state import Process, checked
from learndyn.theory.linearised.descent import NO_CLOCK, Descent, refusal
from learndyn.theory.linearised.modes import largest_pull

LEAST = 256  # new inputs that are predicted together, at least
MATRICES = 8  # of all inputs by all inputs, that are in memory at once
NAMES = {"": "training", "test_": "test", "validation_": "validation"}


class Prediction(NamedTuple):
    """Outputs over initialisations.

    Attributes:
        mean: (time, input, output).
        variance: (time, input), of every output.
    """

    mean: np.ndarray
    variance: np.ndarray


class InfiniteWidthTheory(AbstractTheory):
    """Mean and variance, over initialisations, of the outputs of an infinitely wide network."""

    name: ClassVar[str] = "infinite width"
    orders: ClassVar[tuple[str, ...]] = ("full", "flow")
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("lee2019wide", "the Gaussian process of a wide network during gradient descent"),
        Reference("jacot2018neural", "the tangent kernel of infinite width"),
    )
    units: ClassVar[dict[str, str]] = {
        "critical_learning_rate": "learning rate",
        "final_error": "",
        "final_test_error": "",
        "final_validation_error": "",
    }

    @property
    def variables(self) -> dict[str, Variable]:  # pyright: ignore[reportIncompatibleVariableOverride]
        labels = {}
        for prefix in self._sets:
            dim, of = f"{prefix}example", f"on {NAMES[prefix]} inputs over initialisations"
            labels |= {
                f"{prefix}output_mean": Variable((dim, "output"), f"mean output {of}", ""),
                f"{prefix}output_variance": Variable((dim,), f"variance of an output {of}", ""),
                f"{prefix}error": Variable((), f"mean loss {of}", ""),
            }
        return labels

    @classmethod
    def covers(cls, system: System) -> Coverage:
        why = _refusal(system)
        if why is not None:
            return Coverage("none", why)
        return Coverage("exact", "at infinite width outputs are Gaussian, and learn by one kernel")

    def sample(self, key: int) -> tuple[Process, Realise]:
        """The distribution over all initialisations, which no key changes."""
        covariance = self._kernels[0]
        mean = np.zeros((len(covariance), self._outputs))
        return Process.at_rest(mean, covariance, self._descent), self._no_weights

    def _no_weights(self) -> Any:
        return self.system.network.sample(np.random.default_rng(0), ())

    def as_state(self, state: Any) -> Process:
        return checked(state, self.sample(0)[0])

    def project(self, weights: Weights, teacher: Weights) -> Process:
        return self._no_weights()

    def realise(self, state: Process, key: int) -> Refused:
        return Refused("an infinitely wide network has no weights")

    def clock(self, order: str) -> Clock:
        full = one_of("order", order, self.orders) == "full"
        return STEPS if full else continuous(self._descent.rates[0])

    def dynamics(self, order: str) -> Flow | Map | Refused:
        if one_of("order", order, self.orders) == "full":
            return ProcessMap(self._learning)
        if self._descent.changes_rate:
            return Refused(NO_CLOCK)
        return ProcessFlow(self._learning)

    @compiled_in_float64
    def observe(self, state: Process) -> dict[str, Any]:
        # Without kernels, so that they are no part of compiled programs.
        return self._reading.observe(state)

    def predict(self, times: Any, x: Array, *, order: str = "full") -> Prediction:
        """Outputs for inputs that are in no set.

        Args:
            times: non-negative, in the unit of the order; infinity gives the limit.
            x: inputs (inputs, …), which are converted as those of a `Dataset` are.
            order: "full" or "flow".

        Returns:
            Mean and variance over initialisations.

        Raises:
            ValueError: for inputs that do not fit the network.
        """
        times = np.atleast_1d(numbers("times", times))
        if times.ndim != 1:
            raise ValueError(f"times: got shape {times.shape}; allowed is a list of numbers")
        if not np.all(times >= 0):
            raise ValueError(
                "times: got one that is negative or NaN; allowed are non-negative times"
            )
        steps, train = times * self.clock(order).steps, self._inputs[""]
        if order == "flow":
            self._descent.check_flow()
        else:
            steps = np.rint(steps)
        came, allowed = finite("x", numbers("x", x)).shape, self.system.problem.input_shape
        if came[1:] != allowed or not came:
            raise ValueError(f"x: got shape {came}; allowed is (inputs, …) of shape {allowed}")
        with full_precision():
            x = np.asarray(as_inputs(jnp.asarray(x), jnp.float64))
        blocks = np.array_split(x, -(-len(x) // max(len(train), LEAST)) or 1)
        parts = [self._predicted(steps, train, block, order == "flow") for block in blocks]
        return Prediction(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))

    def _predicted(
        self, steps: np.ndarray, train: np.ndarray, x: np.ndarray, flow: bool
    ) -> Prediction:
        inputs = np.concatenate([train, x])
        covariance, ntk = _of_all(self.system.network, inputs, len(train))
        start = Process(np.zeros((len(inputs), self._outputs)), covariance)
        learning = dataclasses.replace(self._learning, kernel=ntk)
        found = [learning.after_steps(start, np.array([t]), flow=flow) for t in steps]
        mean = np.stack([each.mean[0, len(train) :] for each in found])
        variance = [np.maximum(np.diag(each.covariance[0])[len(train) :], 0) for each in found]
        return Prediction(mean, np.stack(variance))

    def attributes(self, state: Process) -> dict[str, Any]:
        """The rank of the kernel, and the mean loss outside its range, which is never learned."""
        return self._learning.unlearned(state)

    def landmarks(self) -> dict[str, float]:
        """What follows from the kernel of the training inputs.

        Returns:
            The landmarks:

            - `critical_learning_rate`, n/(scale · λ_max) without momentum, above which descent
              diverges;
            - `final_error`, and `final_test_error` and `final_validation_error` if there are such
              sets: mean losses as t → ∞ below that rate. Modes with eigenvalues below 1e-12 of the
              largest count as not learned.
        """
        per_rate = float(self._learning.strength * self._learning.values[-1])
        allowed = largest_pull(self._descent.law())
        rate = float(allowed / per_rate) if per_rate > 0 else math.inf
        limit = self._learning.after_steps(self.sample(0)[0], np.array([np.inf]), flow=True)
        with full_precision():
            found = self._reading.observe(limit)
        finals = {f"final_{p}error": float(found[f"{p}error"][0]) for p in self._sets}
        return {"critical_learning_rate": rate, **finals}

    @property
    def _descent(self) -> Descent:
        return Descent.of(self.system.rule)

    @property
    def _sets(self) -> dict[str, tuple[Array, Array]]:
        data: Any = self.system.problem
        sets = {"": (data.x, data.y), "test_": data.test, "validation_": data.validation}
        return {prefix: pair for prefix, pair in sets.items() if pair is not None}

    @functools.cached_property
    def _inputs(self) -> dict[str, np.ndarray]:
        with full_precision():
            every = self.system.problem.measured_on((), jnp.float64)
            taken = {p: e.take(slice(None), jnp.float64)[0] for p, e in every.items()}
        return {prefix: np.asarray(x) for prefix, x in taken.items()}

    @property
    def _outputs(self) -> int:
        return math.prod(self.system.network.output_shape(self.system.problem.input_shape))

    @in_float64
    def _targets(self) -> dict[str, Array]:
        shape = self.system.network.output_shape(self.system.problem.input_shape)
        numbers = {
            p: as_outputs(jnp.zeros((len(y), *shape)), jnp.asarray(y), len(shape))
            for p, (_, y) in self._sets.items()
        }
        return {p: y.astype(jnp.float64).reshape(len(y), -1) for p, y in numbers.items()}

    @functools.cached_property
    def _kernels(self) -> tuple[np.ndarray, np.ndarray]:
        """The covariance of all inputs, and their tangent kernel with those of training."""
        inputs = np.concatenate(list(self._inputs.values()))
        return _of_all(self.system.network, inputs, len(self._inputs[""]))

    @functools.cached_property
    def _learning(self) -> Learning:
        kernel = self._kernels[1]
        spectrum = np.linalg.eigh(kernel[: kernel.shape[1]])
        return Learning(kernel, self._reading, self._descent, *spectrum)

    @property
    def _reading(self) -> Reading:
        data: Any = self.system.problem
        return Reading(tuple(self._targets().values()), data.loss.scale, tuple(self._sets))


def _of_all(network: Any, inputs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The covariance of all inputs, and their tangent kernel with the first n."""
    covariance, ntk = network.kernels(inputs)
    return covariance, ntk[:, :n]


def _refusal(system: System) -> str | None:
    """Why the theory does not cover a system; None if it does."""
    data, rule = system.problem, system.rule
    if not isinstance(system.network, InfiniteNetwork):
        return "the network is finite (`ld.infinite` gives its limit)"
    if not isinstance(data, Dataset) or not isinstance(data.loss, SquaredLoss):
        return "only a Dataset with SquaredLoss keeps outputs Gaussian"
    inner = rule.rule if isinstance(rule, Piecewise) else rule
    if not isinstance(inner, GradientDescent | SGD):
        return "the rule is not GradientDescent or SGD, alone or Piecewise"
    sampled = refusal(rule, data) if isinstance(inner, SGD) else None
    if sampled is not None:
        return sampled
    pairs = (pair for pair in ((data.x, 0), data.test, data.validation) if pair is not None)
    inputs = sum(len(x) for x, _ in pairs)
    pixels = math.prod(data.input_shape[:-1])  # a convolutional network has a kernel of each
    matrices = MATRICES if inner.inertia is None else 2 * MATRICES  # velocities have covariances
    needed = matrices * 8 * inputs**2 * pixels
    if needed > memory():
        size = f"{needed / 2**30:.3g} GiB of {memory() / 2**30:.3g}"
        return f"kernels of {inputs} inputs take {size}"
    return beyond_gradient(inner, momentum=True)
