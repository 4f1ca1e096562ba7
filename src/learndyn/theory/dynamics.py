"""How a theory's state evolves, and how to compute this efficiently.

A theory provides a `Flow`, which the engine integrates, or a `Map`, which it iterates. Both are
pytrees whose methods the engine traces. The numbers that they hold are traced too, so that only
new shapes are compiled again. A theory returns `Refused` for what it does not provide.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from learndyn.numerics.rosenbrock import Solve
from learndyn.runtime.times import step_numbers
from learndyn.runtime.types import Array

State = Any  # a theory's own pytree of order parameters


class Refused(NamedTuple):
    """Returned for what a theory cannot provide.

    Attributes:
        reason: why not, as the end of a sentence.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(2), ld.LinearTeacher(1, [[1.0, 0.0]]))
        >>> system = ld.System(line, ld.DeepLinear([2, 1]), ld.GradientDescent(0.1))
        >>> ld.theory_of(system).noise("full")
        Refused(reason='the deep linear theory states no diffusion')
    """

    reason: str


class Clock(NamedTuple):
    """A unit of time.

    Attributes:
        unit: its name, such as "steps / N".
        steps: its length in steps of the rule.
        drift: what `drift` is multiplied by to be per unit of time.

    Example:
        >>> import numpy as np
        >>> from learndyn.theory import Clock
        >>> Clock("steps / N", 100.0, 1.0).step_numbers(np.array([0.0, 1.5])).tolist()
        [0, 150]
    """

    unit: str
    steps: float
    drift: float

    def step_numbers(self, times: np.ndarray) -> np.ndarray:
        """The steps nearest to these times.

        Args:
            times: in this clock.

        Returns:
            Integers.

        Raises:
            ValueError: where there is no such step number.
        """
        return step_numbers(times, self.steps)


STEPS = Clock("steps", 1.0, 1.0)  # where no theory has a clock of its own


def continuous(learning_rate: Array, drift: float | None = None) -> Clock:
    """The clock of flows, learning rate × steps; by default for a drift that is per step."""
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
    """Integrate explicitly with as many stages as stability requires (Chebyshev).

    Args:
        begin: the state in the coordinates in which it is integrated.
        radius: y → a bound on the spectral radius of the Jacobian of `drift` there.
    """

    begin: State
    radius: Callable[[State], Array]


Integration = Explicit | Implicit | Stabilised


class Flow(eqx.Module):
    """d state / d time = drift(state).

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> flow = ld.theory_of(system).dynamics("full")
        >>> isinstance(flow, ld.theory.Flow), flow.clock.unit
        (True, 'steps / N')
    """

    @property
    @abc.abstractmethod
    def clock(self) -> Clock:
        """The unit of time, and how it relates to steps and to `drift`."""

    @abc.abstractmethod
    def drift(self, state: State) -> State:
        """The time derivative of the state, including η, in the coordinates of the argument."""

    def integration(self, state: State, end: float) -> Integration:
        """How best to integrate from a state until the time `end`."""
        return Explicit(state)

    def stops(self, end: float) -> np.ndarray:
        """Times until `end` at which a step of the integration has to end, such as jumps."""
        return np.zeros(0)

    def state(self, y: State) -> State:
        """The state at the point `y`, in the coordinates in which the flow is integrated."""
        return y

    def closed_form(self, state: State, times: np.ndarray) -> dict[str, np.ndarray] | None:
        """The observables at `times`, (time, …), if they have a closed form; otherwise None."""
        return None


class Map(eqx.Module):
    """state ← advance(state), once per step of the rule.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1], init=ld.Aligned(1.0))
        >>> theory = ld.theory_of(ld.System(problem, network, ld.GradientDescent(0.5)))
        >>> step = theory.dynamics("full")
        >>> isinstance(step, ld.theory.Map), step.clock.unit
        (True, 'steps')
    """

    @property
    @abc.abstractmethod
    def clock(self) -> Clock:
        """The unit of time, and the steps in it."""

    @abc.abstractmethod
    def advance(self, y: State) -> State:
        """The coordinates after one step of the rule."""

    def begin(self, state: State) -> State:
        """The state in the map's own coordinates."""
        return state

    def state(self, y: State) -> State:
        """The state at the point `y`, in the map's own coordinates."""
        return y

    def closed_form(self, state: State, steps: np.ndarray) -> State | None:
        """The states after these numbers of steps, leaves (steps, …); None without a closed form.

        It is called for some of the times at once, so that not all states are in memory.
        """
        return None


class Noise(eqx.Module):
    """How much a state of size N fluctuates about its flow.

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> theory, start = ld.theory_of(system), ld.start(system)
        >>> noise = theory.noise("full")
        >>> isinstance(noise, ld.theory.Noise)
        True
    """

    @abc.abstractmethod
    def diffusion(self, state: State) -> Array:
        """N times the covariance that the theory's `vector` gains per unit of time at size N."""

    def error(self, state: State) -> float:
        """The relative error of `diffusion` at a state; 0 if it is a closed form."""
        return 0.0


class Spread(eqx.Module):
    """How much observables scatter between runs, for states that say it themselves.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(lambda key: np.zeros(2), lambda w, x: x @ w, linear=True)
        >>> data = ld.Dataset(np.diag([2.0, 4.0]), np.ones(2))
        >>> noise = ld.theory_of(ld.System(data, network, ld.SGD(0.1))).noise("full")
        >>> isinstance(noise, ld.theory.Spread)
        True
    """

    @abc.abstractmethod
    def deviations(self, state: State) -> dict[str, Array]:
        """The standard deviations of all observables."""
