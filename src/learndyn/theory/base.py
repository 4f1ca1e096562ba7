"""What every theory states. It contains right-hand sides only; one engine integrates them all."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.rosenbrock import Solve
from learndyn.numerics.types import Array
from learndyn.numerics.values import Value
from learndyn.system import System
from learndyn.theory.chain import AbstractChain

State = Any  # a theory's own pytree of order parameters
Scheme = Literal["explicit", "implicit", "stabilised"]
Realise = Callable[[], tuple[Weights, Weights]]

# A state has diverged whose largest entry exceeds that of the start so many times. (Larger
# factors are out of an integrator's reach: Q ∝ (t* − t)^(-1/2) for squares, up to rounding.)
DIVERGED = 1e5

_NO_NOISE = "fluctuations: got True, but the {} theory states no diffusion; allowed is False"


class Coverage(NamedTuple):
    """Whether a theory covers a system, and why."""

    level: Literal["exact", "approximate", "none"]
    reason: str


class Clock(NamedTuple):
    """A unit of time in words, the steps in it, and by what `drift` is multiplied for it."""

    unit: str
    steps: float
    drift: float


STEPS = Clock("steps", 1.0, 1.0)  # where no theory has a clock of its own


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
    maps: ClassVar[tuple[str, ...]] = ()  # the orders that are iterated, not integrated
    reference: ClassVar[tuple[Reference, ...]]
    variables: ClassVar[dict[str, Variable]]
    orders: ClassVar[tuple[str, ...]]

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

    def judge(self, state: State, realise: Realise) -> Coverage:
        """Whether this theory covers a given start; `realise` gives its weights and teacher."""
        return self.covers(self.system)

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

    def advance(self, state: State) -> State:
        """The state after one step of the rule, for the orders in `maps`."""
        raise ValueError(f"advance: the {self.name} theory is a flow; allowed is `drift`")

    def scheme(self, state: State, order: str, end: float) -> Scheme:
        """How to integrate until `end`: "implicit" needs `linearise`, "stabilised" `radius`."""
        return "explicit"

    def coordinates(self, state: State, order: str, scheme: Scheme) -> State:
        """The state as it is best integrated; `drift` and `observe` take it."""
        return state

    def linearise(self, state: State, order: str, w: Array) -> Solve:
        """The solver b ↦ x of (w − J) x = b, J the Jacobian of `drift`."""
        raise ValueError(f"linearise: the {self.name} theory has none; allowed is `drift`")

    def radius(self, state: State, order: str) -> Array:
        """A bound on the spectral radius of the Jacobian of `drift`."""
        raise ValueError(f"radius: the {self.name} theory has none; allowed is `drift`")

    def closed_form(
        self, state: State, times: np.ndarray, order: str
    ) -> dict[str, np.ndarray] | None:
        """The observables at `times`, (time, …), where they have a closed form; else None."""
        return None

    def moving(self, state: State) -> Array:
        """The independent variables of a state that move, as one vector."""
        raise ValueError(_NO_NOISE.format(self.name))

    def with_moving(self, state: State, vector: Array) -> State:
        """The state with its moving variables replaced: an inverse of `moving`."""
        raise ValueError(_NO_NOISE.format(self.name))

    def diffusion(self, state: State, order: str = "full") -> Array:
        """N times the covariance that the moving variables gain per time at size N."""
        raise ValueError(_NO_NOISE.format(self.name))

    def diffusion_error(self, state: State) -> float:
        """The relative error of `diffusion` at a state; 0 where it is a closed form."""
        return 0.0

    def chain(self) -> AbstractChain | str:
        """The exact Markov chain of the state at finite size, or why there is none."""
        return f"the {self.name} theory knows no exact chain of its state"

    def clock(self, order: str) -> Clock:
        """The unit of time at an order, and how it relates to steps and to `drift`."""
        return self.natural_clock(self.system) or STEPS

    @abc.abstractmethod
    def observe(self, state: State) -> dict[str, Any]:
        """The named observables of a state."""

    def measure(self, weights: Weights, teacher: Weights) -> dict[str, Any]:
        """The observables of given weights: those of their state."""
        return to_numpy(_observe(self, self.project(weights, teacher)))

    def invariants(self, state: State) -> dict[str, Array]:
        """Quantities that stay constant along the solution through `state`."""
        return {}

    def landmarks(self) -> dict[str, float]:
        """Predicted landmarks: rates per t = η · time, heights, critical learning rates."""
        return {}


@eqx.filter_jit
def _observe(theory: AbstractTheory, state: State) -> dict[str, Any]:
    return theory.observe(state)


def sample(system: System, key: int) -> tuple[Weights, Weights]:
    """Weights and teacher drawn from the system's initialisations, in float64."""
    rng = np.random.default_rng(key)
    teacher = system.problem.draw_teacher(rng)
    with jax.enable_x64(True):
        statistics = system.problem.map_statistics(teacher)
    target = None if statistics is None else np.asarray(statistics.target)
    return system.network.sample(rng, system.problem.input_shape, target), teacher
