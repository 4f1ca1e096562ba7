"""The interface that every theory implements.

A theory contains right-hand sides only; one engine integrates all of them.
"""

import abc
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.records import Variable as Variable
from learndyn.rules import Optax
from learndyn.runtime.checks import either, one_of, shown
from learndyn.runtime.divergence import bound_of
from learndyn.runtime.precision import full_precision, in_float64
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Array, Number, Weights
from learndyn.runtime.values import Value
from learndyn.system import System
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, Noise, Refused, Spread, State

Realise = Callable[[], tuple[Weights, Weights]]


class Given(NamedTuple):
    """The `realise` of a start whose weights and teacher are already known.

    It is a class, since an instance, unlike a lambda, can be sent to other processes.
    """

    weights: Weights
    teacher: Weights

    def __call__(self) -> tuple[Weights, Weights]:
        return self.weights, self.teacher


class Coverage(NamedTuple):
    """Whether a theory covers a system, and why.

    Attributes:
        level: "exact", "approximate" or "none".
        reason: in which limit, what is left out, or what does not fit.

    Example:
        >>> from learndyn.theory import Coverage
        >>> Coverage("none", "the network is an MLP").level
        'none'
    """

    level: Literal["exact", "approximate", "none"]
    reason: str


@dataclasses.dataclass(frozen=True)
class Reference:
    """A paper, and which of its equations a theory implements.

    Attributes:
        paper: its key, as in `learndyn cite`.
        equations: their numbers, and which of them are corrected.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(1, "erf")
        >>> system = ld.System(ld.TeacherStudent(ld.Isotropic(50), teacher), teacher, ld.SGD(0.1))
        >>> [reference.paper for reference in ld.theory_of(system).reference][:2]
        ['bocchi2026escape', 'worschech2024scaling']
    """

    paper: str
    equations: str


class NoTheory(ValueError):
    """No theory covers the system; the message lists every theory with its reason.

    Example:
        >>> import learndyn as ld
        >>> data = ld.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
        >>> system = ld.System(data, ld.MLP([2, 8, 1], "tanh"), ld.SGD(0.1))
        >>> try:
        ...     ld.theory_of(system)
        ... except ld.NoTheory as error:
        ...     print(str(error)[:34])
        no theory covers this system (comm
    """


@shown_as_table
class AbstractTheory(Value):
    """A closed macroscopic description of a family of systems.

    Called directly, `drift`, `observe`, `project` and the like return NumPy arrays in float64.
    Under tracing, which is how the engine calls them, they are plain JAX functions.

    Args:
        system: the system that it describes.

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> theory = ld.theory_of(system)
        >>> theory.name, theory.orders
        ('committee', ('full', 'flow', 'finite'))
        >>> theory.covers(system).level
        'exact'
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
        """Whether this theory covers the system: exactly, approximately or not, and why.

        Args:
            system: any system; its network may be of another kind than the theory's.

        Returns:
            A `Coverage`, whose reason `NoTheory` and `theory_of` show.
        """

    @classmethod
    def natural_clock(cls, system: System) -> Clock | None:
        """The clock for systems of this theory's kind, including those that it does not cover."""
        return None

    def sample(self, key: int) -> tuple[State, Realise]:
        """A random state from the system's initialisations, and a function that realises it.

        By default, weights are sampled and projected. Override this to sample the state directly,
        at a cost that is independent of the dimension.

        Args:
            key: seed of NumPy's generator.

        Returns:
            The state, and a function without arguments that returns weights and teacher with it.
        """
        if hasattr(self, "draw"):
            old = "AbstractTheory.draw: got a method of that name; call it `sample` instead"
            warnings.warn(old, DeprecationWarning, stacklevel=2)
            return getattr(self, "draw")(key)  # noqa: B009
        weights, teacher = sample_weights(self.system, key)
        return self.project(weights, teacher), Given(weights, teacher)

    def covers_start(self, state: State, realise: Realise) -> Coverage:
        """Whether this theory covers this start; by default, as it covers the system.

        Args:
            state: where the trajectory begins.
            realise: returns its weights and teacher, for theories that depend on them.

        Returns:
            A `Coverage`.
        """
        return self.covers(self.system)

    def resolved(self, states: Sequence[State], accuracy: Number | None = None) -> "AbstractTheory":
        """The theory with the numerical resolution that trajectories from some states need.

        Args:
            states: where the trajectories begin.
            accuracy: the relative error that averages without a closed form aim at; None for the
                theory's own.

        Returns:
            The theory itself, unless it computes such averages.

        Raises:
            ValueError: for an accuracy that the theory has no use for.
        """
        if accuracy is not None:
            came = f"{shown(accuracy)} for the {self.name} theory, which needs no averages"
            raise ValueError(f"accuracy: got {came}; allowed is None")
        return self

    def attributes(self, state: State) -> dict[str, Any]:
        """What the record of a solution from a state should say about the theory."""
        return {}

    @abc.abstractmethod
    def as_state(self, state: State) -> State:
        """The argument as a state of this theory.

        Args:
            state: what a user gave as a state.

        Returns:
            The state.

        Raises:
            ValueError: for what is not a state of the system, in one line that says why.
        """

    @abc.abstractmethod
    def project(self, weights: Weights, teacher: Weights) -> State:
        """The state that these weights have.

        Args:
            weights: those of the student.
            teacher: those of the teacher; an empty tuple without one.

        Returns:
            The state.
        """

    def realise(self, state: State, key: int) -> tuple[Weights, Weights] | Refused:
        """Weights and teacher (float64) that have this state: an inverse of `project`.

        Args:
            state: the state.
            key: seed for what the state leaves open.

        Returns:
            Both, or `Refused` with the reason.
        """
        return Refused(f"the {self.name} theory cannot construct weights from a state")

    @abc.abstractmethod
    def dynamics(self, order: str) -> Flow | Map | Refused:
        """The equation of motion of the state at an order.

        Args:
            order: one of `orders`.

        Returns:
            A `Flow` or a `Map`, whose numbers are fields, so that they are not compiled in; or
            `Refused` with the reason.
        """

    def clock(self, order: str) -> Clock:
        """The clock of the dynamics at an order; override it where dynamics cost much."""
        dynamics = self.dynamics(order)
        return STEPS if isinstance(dynamics, Refused) else dynamics.clock

    def noise(self, order: str) -> Noise | Spread | Refused:
        """How the state fluctuates about its flow; or how observables scatter, if a map says so.

        Args:
            order: one of `orders`.

        Returns:
            What `solve(fluctuations=True)` needs, or `Refused` with the reason.
        """
        return Refused(f"the {self.name} theory states no diffusion")

    def chain(self) -> AbstractChain | Refused:
        """The exact Markov chain of the state at finite size."""
        return Refused(f"the {self.name} theory knows no exact chain of its state")

    @in_float64
    def vector(self, state: State) -> Array:
        """The independent variables of a state that change in time, as one vector."""
        return ravel_pytree(state)[0]

    @in_float64
    def with_vector(self, state: State, vector: Array) -> State:
        """The inverse of `vector`: `state` with these variables, in the type of the argument."""
        leaves, tree = jax.tree.flatten(state)
        parts = jnp.split(vector, np.cumsum([np.size(leaf) for leaf in leaves])[:-1])
        pairs = zip(parts, leaves, strict=True)
        return jax.tree.unflatten(tree, [part.reshape(np.shape(leaf)) for part, leaf in pairs])

    def drift(self, state: State, order: str = "") -> State:
        """Same as `dynamics(order).drift(state)`.

        Args:
            state: the state.
            order: one of `orders`; "" is the first that is a flow.

        Returns:
            The time derivative, as a state.

        Raises:
            ValueError: for an order that is no flow, or a theory that has none.
        """
        return self._first(Flow, order).drift(state)

    def advance(self, state: State, order: str = "") -> State:
        """Same as one step of `dynamics(order)`.

        Args:
            state: the state.
            order: one of `orders`; "" is the first that is a map.

        Returns:
            The next state.

        Raises:
            ValueError: for an order that is no map, or a theory that has none.
        """
        mapping = self._first(Map, order)
        return mapping.state(mapping.advance(mapping.begin(state)))

    def _first(self, kind: type, order: str) -> Any:
        orders = (one_of("order", order, self.orders),) if order else self.orders
        dynamics = next((d for d in map(self.dynamics, orders) if isinstance(d, kind)), None)
        if dynamics is None:
            raise ValueError(self._lacks(kind, order))
        return dynamics

    def _lacks(self, kind: type, order: str) -> str:
        """The error message if the order, or every order, is not a flow or map as required."""
        dynamics = {o: self.dynamics(o) for o in self.orders}
        called, other = ("flow", "advance") if kind is Flow else ("map", "drift")
        names = [o for o, each in dynamics.items() if isinstance(each, kind)]
        if names:
            reason = f"which is no {called} of the {self.name} theory"
            return f"order: got {order!r}, {reason}; allowed is {either(names)}"
        refused = [each.reason for each in dynamics.values() if isinstance(each, Refused)]
        why, allowed = (refused[0], "`simulate`") if refused else ("no order is one", f"`{other}`")
        reason = f"for which the {self.name} theory has no {called}, as {why}"
        return f"system: got one {reason}; allowed is {allowed}"

    def bound(self, state: Any) -> Array:
        """What no entry of a state may exceed on a trajectory from this one, or it has diverged."""
        return bound_of(state)

    @abc.abstractmethod
    def observe(self, state: State) -> dict[str, Any]:
        """The named observables of a state.

        Args:
            state: the state.

        Returns:
            Name → value, with the dimensions that `variables` states.
        """

    def measure(self, weights: Weights, teacher: Weights) -> dict[str, Any]:
        """The observables of these weights, by default those of their state."""
        return self.observe(self.project(weights, teacher))

    def invariants(self, state: State) -> dict[str, Array]:
        """Quantities that stay constant along the solution through `state`.

        Args:
            state: the state.

        Returns:
            Name → value; empty if none are known.
        """
        return {}

    def landmarks(self) -> dict[str, float]:
        """Predicted landmarks: rates per t = η · time, heights, critical learning rates.

        Overrides may take keyword arguments, each of them with a default.

        Returns:
            Name → number; empty if none are known for the system. `landmark_units` has the units.
        """
        return {}

    def _shown(self) -> Shown:
        coverage = self.covers(self.system)
        papers = (f"{each.paper} ({each.equations})" for each in self.reference)
        rows = [
            ("coverage", f"{coverage.level}: {coverage.reason}"),
            ("orders", ", ".join(self.orders)),
            ("observables", ", ".join(self.variables)),
            ("reference", "; ".join(papers)),
        ]
        for name, value in self.landmarks().items():
            unit = self.units.get(name, "")
            rows.append((name, f"{value:.4g} {'' if unit == '1' else unit}".rstrip()))
        return Shown(f"Theory: {self.name}", rows)

    def landmark_units(self, **arguments: Any) -> dict[str, str]:
        """The unit of every landmark that `landmarks` returns.

        Args:
            arguments: as for `landmarks`.

        Returns:
            Name → unit.
        """
        return {name: self.units[name] for name in self.landmarks(**arguments)}


def beyond_gradient(
    rule: Any, *, decay: bool = False, schedule: bool = False, momentum: bool = False
) -> str | None:
    """Why a theory of plain gradient steps does not cover a rule; None if it may.

    Args:
        rule: the rule.
        decay: whether the theory covers weight decay.
        schedule: whether the theory covers learning rates that change.
        momentum: whether the theory covers momentum.

    Returns:
        The reason.
    """
    if not momentum and rule.inertia is not None:
        return "the rule has momentum, whose velocity is not part of the state"
    if not decay and getattr(rule, "decay", None) is not None:
        return "the rule has weight decay, which the equations leave out"
    if not schedule and callable(getattr(rule, "learning_rate", None)):
        return "the rule has a learning rate that changes, which the equations leave out"
    return None


def beyond_sgd(rule: Any) -> str:
    """Why a theory of overlaps does not cover a rule without a law of steps.

    Args:
        rule: a rule whose `step_law` is None.

    Returns:
        The reason.
    """
    reason = f"the rule is {type(rule).__name__}, not SGD"
    if not isinstance(rule, Optax):
        return reason
    return f"{reason}: rules such as Adam treat each coordinate by itself, which overlaps do not"


def sample_weights(system: System, key: int) -> tuple[Weights, Weights]:
    """Weights and teacher drawn from the system's initialisations, in float64."""
    rng = np.random.default_rng(key)
    teacher = system.problem.draw_teacher(rng)
    with full_precision():
        statistics = system.problem.map_statistics(teacher)
    target = None if statistics is None else np.asarray(statistics.target)
    return system.network.sample(rng, system.problem.input_shape, target), teacher
