"""`start`: what both roads begin from."""

import functools
from typing import Any

import jax
import numpy as np

from learndyn.networks.base import Weights
from learndyn.numerics.checks import finite, instance, numbers, seed
from learndyn.numerics.interruption import interruptible
from learndyn.system import System
from learndyn.theory import AbstractTheory, Refused, find_theory
from learndyn.theory.base import Given, Realise, sample
from learndyn.theory.dynamics import State


class Start:
    """A macroscopic state, with weights and a teacher that have it.

    The state comes first; weights and teacher are realised from it on first access.

    Args:
        state: the theory's state, or None where no theory covers the system.
        realise: gives (weights, teacher) in float64.
    """

    def __init__(self, state: State, realise: Realise):
        self.state = state
        self.realise = realise

    @functools.cached_property
    def _realised(self) -> tuple[Weights, Weights]:
        return interruptible(self.realise)

    @property
    def weights(self) -> Weights:
        """The student's weights, float64."""
        return self._realised[0]

    @property
    def teacher(self) -> Weights:
        """The teacher's weights, float64."""
        return self._realised[1]

    @staticmethod
    def of(value: Any, name: str = "start") -> "Start":
        """The start that was given, or a ValueError that says how one is made."""
        allowed = "start(system, …), with state=… or weights=…, teacher=… where they are known"
        return instance(name, value, Start, allowed)

    def check_fits(self, system: System, theory: AbstractTheory | None, *, weights: bool) -> None:
        """Raises a ValueError where the start is not one of the system.

        Args:
            system: the system.
            theory: the one that covers it, if any.
            weights: whether weights are asked for as well, which costs their realising.
        """
        if theory is not None and self.state is not None:
            theory.as_state(self.state)
        if weights:
            system.network.check_weights(self.weights, system.problem.input_shape)
            system.problem.check_teacher(self.teacher)

    def __repr__(self) -> str:
        return f"Start(state={self.state!r})"


def start(
    system: System,
    *,
    key: int = 0,
    state: State = None,
    weights: Weights = None,
    teacher: Weights = None,
) -> Start:
    """Where learning begins: drawn from the system's initialisations, or given.

    Args:
        system: the system.
        key: seed of the draw, and of the directions that a state leaves free.
        state: a state of the theory that covers the system, taken as it is.
        weights: the student's weights, taken as they are.
        teacher: the teacher's weights beside them; None where the problem fixes them.

    Returns:
        The start, for `solve` and `simulate`.

    Raises:
        ValueError: where what is given is not something the system can have.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(2, "erf", init=ld.Orthonormal(1.0))
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), teacher)
        >>> system = ld.System(problem, ld.Committee(3, "erf"), ld.SGD(0.1))
        >>> begin = ld.start(system, key=1)
        >>> begin.state.R.shape, begin.weights.shape
        ((1, 3, 2), (3, 50))
    """
    instance("system", system, System, "a System")
    key, theory = seed("key", key), interruptible(lambda: find_theory(system))
    if weights is not None or teacher is not None:
        if state is not None:
            raise ValueError("state: got one beside weights; allowed is one of the two")
        return _from_weights(system, theory, weights, teacher)
    if state is None:
        return draw(system, theory, key)
    if theory is None:
        raise ValueError("state: got one, but no theory covers the system; allowed is None")
    given = interruptible(lambda: theory.as_state(state))
    return Start(given, functools.partial(_realised, theory, given, key))


def draw(system: System, theory: AbstractTheory | None, key: int) -> Start:
    """A start from the system's initialisations, as the theory that covers it draws it."""
    if theory is None:
        return Start(None, functools.partial(sample, system, key))
    return Start(*interruptible(lambda: theory.draw(key)))


def _realised(theory: AbstractTheory, state: State, key: int) -> tuple[Weights, Weights]:
    found = theory.realise(state, key)
    if isinstance(found, Refused):
        raise ValueError(f"start: got a state, but {found.reason}; allowed here are weights")
    return found


def _from_weights(system: System, theory: Any, weights: Weights, teacher: Weights) -> Start:
    weights, teacher = given_weights(system, weights, teacher)
    if theory is None:
        return Start(None, Given(weights, teacher))
    state = interruptible(lambda: theory.as_state(theory.project(weights, teacher)))
    return Start(state, Given(weights, teacher))


def given_weights(system: System, weights: Weights, teacher: Weights) -> tuple[Weights, Weights]:
    """Weights and teacher as NumPy, or a ValueError where one is missing or does not fit."""
    teacher = system.problem.fixed_teacher if teacher is None else teacher
    for name, value in (("weights", weights), ("teacher", teacher)):
        if value is None:
            raise ValueError(f"{name}: got None; allowed here are the {_whose(name)} weights")
    weights, teacher = _arrays("weights", weights), _arrays("teacher", teacher)
    system.network.check_weights(weights, system.problem.input_shape)
    system.problem.check_teacher(teacher)
    return weights, teacher


def _arrays(name: str, tree: Weights) -> Weights:
    """The leaves as NumPy arrays of finite floats, or a ValueError for one that is none."""

    def array(leaf: Any) -> np.ndarray:
        given = finite(name, numbers(name, leaf))
        kind = getattr(leaf, "dtype", np.dtype(np.float64))
        return given.astype(kind) if kind in (np.float32, np.float64) else given

    return jax.tree.map(array, tree)


def _whose(name: str) -> str:
    return "teacher's" if name == "teacher" else "student's"
