"""How a theory's state moves, and how that is best computed.

A theory gives a `Flow`, which one engine integrates, or a `Map`, which it iterates. Both are
pytrees whose methods the engine calls while tracing: what they hold is traced, and only shapes
compile anew. What a theory cannot give it says with `Refused`.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from learndyn.numerics.checks import step_numbers
from learndyn.numerics.rosenbrock import Solve
from learndyn.numerics.types import Array

State = Any  # a theory's own pytree of order parameters


class Refused(NamedTuple):
    """Something that a theory cannot give, and why, as the rest of a sentence."""

    reason: str


class Clock(NamedTuple):
    """A unit of time in words, the steps in it, and by what `drift` is multiplied for it."""

    unit: str
    steps: float
    drift: float

    def step_numbers(self, times: np.ndarray) -> np.ndarray:
        """The steps nearest to given times, or a ValueError where they have no number."""
        return step_numbers(times, self.steps)


STEPS = Clock("steps", 1.0, 1.0)  # where no theory has a clock of its own


def continuous(learning_rate: Array, drift: float | None = None) -> Clock:
    """The clock of flows, learning rate × steps; by default for a drift per step."""
    steps = float(1 / learning_rate)
    return Clock("learning rate × steps", steps, steps if drift is None else drift)


class Explicit(eqx.Module):
    """Integrate explicitly (Dopri8).

    Args:
        begin: the state in the coordinates in which it is integrated.
    """

    begin: State


class Implicit(eqx.Module):
    """Integrate implicitly (Rodas).

    Args:
        begin: the state in the coordinates in which it is integrated.
        linearise: (y, w) → the solver b ↦ x of (w − J) x = b, J the Jacobian of `drift` at y.
    """

    begin: State
    linearise: Callable[[State, Array], Solve]


class Stabilised(eqx.Module):
    """Integrate explicitly with as many stages as stability asks for (Chebyshev).

    Args:
        begin: the state in the coordinates in which it is integrated.
        radius: y → a bound on the spectral radius of the Jacobian of `drift` there.
    """

    begin: State
    radius: Callable[[State], Array]


Integration = Explicit | Implicit | Stabilised


class Flow(eqx.Module):
    """d state / d time = drift(state)."""

    @property
    @abc.abstractmethod
    def clock(self) -> Clock:
        """The unit of time, and how it relates to steps and to `drift`."""

    @abc.abstractmethod
    def drift(self, state: State) -> State:
        """D state / d time, learning rate included, in the coordinates of the argument."""

    def integration(self, state: State, end: float) -> Integration:
        """How to integrate from a state until the time `end`."""
        return Explicit(state)

    def state(self, y: State) -> State:
        """The state of the coordinates in which it is integrated."""
        return y

    def closed_form(self, state: State, times: np.ndarray) -> dict[str, np.ndarray] | None:
        """The observables at `times`, (time, …), where they have a closed form; else None."""
        return None


class Map(eqx.Module):
    """state ← advance(state), once a step of the rule."""

    @property
    @abc.abstractmethod
    def clock(self) -> Clock:
        """The unit of time, and the steps in it."""

    @abc.abstractmethod
    def advance(self, y: State) -> State:
        """What follows after one step of the rule, in the map's own coordinates."""

    def begin(self, state: State) -> State:
        """The map's own coordinates of a state."""
        return state

    def state(self, y: State) -> State:
        """The state of the map's own coordinates."""
        return y


class Noise(eqx.Module):
    """How much a state of size N fluctuates about its flow."""

    @abc.abstractmethod
    def diffusion(self, state: State) -> Array:
        """N times the covariance that the theory's `vector` gains per time at size N."""

    def error(self, state: State) -> float:
        """The relative error of `diffusion` at a state; 0 where it is a closed form."""
        return 0.0
