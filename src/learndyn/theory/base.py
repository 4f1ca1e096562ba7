"""What every theory states. It contains right-hand sides only; one engine integrates them all."""

import abc
import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.values import Value
from learndyn.system import System

State = Any  # a theory's own pytree of order parameters

# A state has diverged whose largest entry exceeds that of the start so many times. (Larger
# factors are out of an integrator's reach: Q ∝ (t* − t)^(-1/2) for squares, up to rounding.)
DIVERGED = 1e5


class Coverage(NamedTuple):
    """Whether a theory covers a system, and why."""

    level: Literal["exact", "approximate", "none"]
    reason: str


class Variable(NamedTuple):
    """How a record labels an observable."""

    dims: tuple[str, ...]
    long_name: str
    unit: str


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

    @classmethod
    @abc.abstractmethod
    def covers(cls, system: System) -> Coverage:
        """Whether this theory covers the system: exactly, approximately or not, and why."""

    @abc.abstractmethod
    def draw(self, key: int) -> State:
        """A state from the law of the system's initialisations."""

    @abc.abstractmethod
    def check(self, state: State) -> State:
        """The state, or a ValueError that names what is wrong with it."""

    @abc.abstractmethod
    def project(self, weights: Weights, teacher: Weights) -> State:
        """The state of given weights."""

    @abc.abstractmethod
    def realise(self, state: State, key: int) -> tuple[Weights, Weights]:
        """Weights and teacher (float64) whose state is the given one: an inverse of `project`."""

    @abc.abstractmethod
    def drift(self, state: State, order: str = "full") -> State:
        """D state / d time, learning rate included, as a state."""

    @abc.abstractmethod
    def observe(self, state: State) -> dict[str, Any]:
        """The named observables of a state."""

    def invariants(self, state: State) -> dict[str, np.ndarray]:
        """Quantities that stay constant along the solution through `state`."""
        return {}

    def landmarks(self) -> dict[str, float]:
        """Predicted landmarks: rates per t = η · time, heights, critical learning rates."""
        return {}
