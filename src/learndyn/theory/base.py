"""What every theory states. It contains right-hand sides only; one engine integrates them all."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.networks.base import Weights
from learndyn.numerics.checks import one_of
from learndyn.numerics.precision import in_float64
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.records import Variable as Variable
from learndyn.system import System
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import Clock, Flow, Map, Noise, Refused, State

Realise = Callable[[], tuple[Weights, Weights]]


class Given(NamedTuple):
    """What realises a start whose weights and teacher are known already.

    A class, unlike a lambda, can be sent to other processes.
    """

    weights: Weights
    teacher: Weights

    def __call__(self) -> tuple[Weights, Weights]:
        return self.weights, self.teacher


class Coverage(NamedTuple):
    """Whether a theory covers a system, and why."""

    level: Literal["exact", "approximate", "none"]
    reason: str


@dataclasses.dataclass(frozen=True)
class Reference:
    """A paper and the equations of it that a theory states."""

    paper: str
    equations: str


class NoTheory(ValueError):
    """No theory covers the system; the message lists each with its reason."""


class AbstractTheory(Value):
    """A closed macroscopic description of a family of systems.

    `drift`, `observe`, `project` and the like return NumPy float64; under tracing they
    are plain JAX functions, which is how the engine calls them.
    """

    system: System

    name: ClassVar[str]
    reference: ClassVar[tuple[Reference, ...]]
    variables: ClassVar[dict[str, Variable]]
    orders: ClassVar[tuple[str, ...]]
    units: ClassVar[dict[str, str]] = {}  # of landmarks

    @classmethod
    @abc.abstractmethod
    def covers(cls, system: System) -> Coverage:
        """Whether this theory covers the system: exactly, approximately or not, and why."""

    @classmethod
    def natural_clock(cls, system: System) -> Clock | None:
        """The clock of systems of this theory's kind, also of those it does not cover."""
        return None

    @abc.abstractmethod
    def draw(self, key: int) -> tuple[State, Realise]:
        """A state from the law of the system's initialisations, and what realises it."""

    def covers_start(self, state: State, realise: Realise) -> Coverage:
        """Whether this theory covers a given start; `realise` gives its weights and teacher."""
        return self.covers(self.system)

    @abc.abstractmethod
    def as_state(self, state: State) -> State:
        """What was given as a state, or a ValueError that names what is wrong with it."""

    @abc.abstractmethod
    def project(self, weights: Weights, teacher: Weights) -> State:
        """The state of given weights."""

    def realise(self, state: State, key: int) -> tuple[Weights, Weights] | Refused:
        """Weights and teacher (float64) whose state is the given one: an inverse of `project`."""
        return Refused(f"the {self.name} theory knows no weights of a given state")

    @abc.abstractmethod
    def dynamics(self, order: str) -> Flow | Map | Refused:
        """How the state moves at an order."""

    def noise(self, order: str) -> Noise | Refused:
        """How the state fluctuates at an order, where that is a flow."""
        return Refused(f"the {self.name} theory states no diffusion")

    def chain(self) -> AbstractChain | Refused:
        """The exact Markov chain of the state at finite size."""
        return Refused(f"the {self.name} theory knows no exact chain of its state")

    @in_float64
    def vector(self, state: State) -> Array:
        """The independent variables of a state that move, as one vector."""
        return ravel_pytree(state)[0]

    @in_float64
    def with_vector(self, state: State, vector: Array) -> State:
        """The state with the variables of `vector` replaced, of that one's type: its inverse."""
        leaves, tree = jax.tree.flatten(state)
        parts = jnp.split(vector, np.cumsum([np.size(leaf) for leaf in leaves])[:-1])
        pairs = zip(parts, leaves, strict=True)
        return jax.tree.unflatten(tree, [part.reshape(np.shape(leaf)) for part, leaf in pairs])

    def drift(self, state: State, order: str = "") -> State:
        """Short for `dynamics(order).drift(state)`; by default at the first order that flows."""
        return self._first(Flow, order).drift(state)

    def advance(self, state: State, order: str = "") -> State:
        """Short for a step of `dynamics(order)`; by default at the first order that is a map."""
        found = self._first(Map, order)
        return found.state(found.advance(found.begin(state)))

    def _first(self, kind: type, order: str) -> Any:
        orders = (one_of("order", order, self.orders),) if order else self.orders
        found = next((d for d in map(self.dynamics, orders) if isinstance(d, kind)), None)
        if found is None:
            names = ", ".join(o for o in self.orders if isinstance(self.dynamics(o), kind))
            allowed = f"one of {names}" if names else "none"
            came = order or "any"
            said = "flow" if kind is Flow else "map"
            raise ValueError(
                f"order: got {came!r}, which is no {said} of the {self.name} theory; "
                f"allowed is {allowed}"
            )
        return found

    @abc.abstractmethod
    def observe(self, state: State) -> dict[str, Any]:
        """The named observables of a state."""

    def measure(self, weights: Weights, teacher: Weights) -> dict[str, Any]:
        """The observables of given weights: those of their state."""
        return self.observe(self.project(weights, teacher))

    def invariants(self, state: State) -> dict[str, Array]:
        """Quantities that stay constant along the solution through `state`."""
        return {}

    def landmarks(self) -> dict[str, float]:
        """Predicted landmarks: rates per t = η · time, heights, critical learning rates.

        A theory may take arguments by name, all of them with a default.
        """
        return {}

    def landmark_units(self, **arguments: Any) -> dict[str, str]:
        """The unit of every landmark that `landmarks` gives for these arguments."""
        return {name: self.units[name] for name in self.landmarks(**arguments)}


def sample(system: System, key: int) -> tuple[Weights, Weights]:
    """Weights and teacher drawn from the system's initialisations, in float64."""
    rng = np.random.default_rng(key)
    teacher = system.problem.draw_teacher(rng)
    with jax.enable_x64(True):
        statistics = system.problem.map_statistics(teacher)
    target = None if statistics is None else np.asarray(statistics.target)
    return system.network.sample(rng, system.problem.input_shape, target), teacher
