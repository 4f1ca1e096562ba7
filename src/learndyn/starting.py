"""`start`: the initial condition of `solve` and `simulate`."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.checks import finite, instance, numbers, seed
from learndyn.runtime.interruption import interruptible
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Weights
from learndyn.system import System
from learndyn.theory import AbstractTheory, Refused, find_theory
from learndyn.theory.base import Given, Realise, sample_weights
from learndyn.theory.dynamics import State


@shown_as_table
class Start:
    """A macroscopic state, with student and teacher weights that have this state.

    The weights are computed from the state when they are first accessed.

    Args:
        state: the theory's state, or None if no theory covers the system.
        realise: returns (weights, teacher) in float64.

    Example:
        >>> import learndyn as ld
        >>> line = ld.TeacherStudent(ld.Isotropic(1), ld.LinearTeacher(1, [[2.0]]))
        >>> network = ld.DeepLinear([1, 1, 1], init=ld.Aligned(0.5))
        >>> system = ld.System(line, network, ld.GradientDescent(0.1))
        >>> start = ld.start(system, key=0)
        >>> start.state.sigma.tolist(), [w.shape for w in start.weights]
        ([[0.5, 0.5]], [(1, 1), (1, 1)])
    """

    def __init__(self, state: State, realise: Realise):
        self.state = state
        self.realise = realise

    @functools.cached_property
    @interruptible
    def _realised(self) -> tuple[Weights, Weights]:
        return self.realise()

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
        """Returns `value`, or raises a ValueError that says how to create a start."""
        allowed = "start(system, …), with state=… or weights=…, teacher=… if they are known"
        return instance(name, value, Start, allowed)

    def check_fits(self, system: System, theory: AbstractTheory | None, *, weights: bool) -> None:
        """Raises a ValueError if the start does not fit the system.

        Args:
            system: the system.
            theory: the theory that covers it, or None.
            weights: whether to check the weights as well, which have to be computed for that.
        """
        if theory is not None and self.state is not None:
            theory.as_state(self.state)
        if weights:
            system.network.check_weights(self.weights, system.problem.input_shape)
            system.problem.check_teacher(self.teacher)

    def __repr__(self) -> str:
        return f"Start(state={self.state!r})"

    def _shown(self) -> Shown:
        """The shapes of the state's parts; weights are not realised for that."""
        if self.state is None:
            return Shown("Start, of weights alone: no theory covers the system", [])
        parts = jax.tree_util.tree_leaves_with_path(self.state)
        name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".")
        rows = [(name(path), "×".join(map(str, np.shape(v))), _range(v)) for path, v in parts]
        return Shown(f"Start, of {type(self.state).__name__}", rows, ("part", "shape", "values"))


def _range(values: Any) -> str:
    """The smallest and the largest number of an array."""
    low, high = (f"{end(values):.4g}" if np.size(values) else "" for end in (np.min, np.max))
    return low if low == high else f"{low} … {high}"


@interruptible
def start(
    system: System,
    *,
    key: int = 0,
    state: State = None,
    weights: Weights = None,
    teacher: Weights = None,
) -> Start:
    """Where learning begins: sampled from the system's initialisations, or given.

    Args:
        system: the system.
        key: seed of the sampling, and of the directions that a state leaves free.
        state: a state of the theory that covers the system, used as it is.
        weights: the student's weights, used as they are.
        teacher: the teacher's weights, together with `weights`; None if the problem fixes them.

    Returns:
        The start, for `solve` and `simulate`.

    Raises:
        ValueError: if the state or the weights do not fit the system.

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
    key, theory = seed("key", key), find_theory(system)
    if weights is not None or teacher is not None:
        if state is not None:
            raise ValueError("state: got a state and weights; allowed is one of the two")
        return _from_weights(system, theory, weights, teacher)
    if state is None:
        return sampled_start(system, theory, key)
    if theory is None:
        raise ValueError("state: got a state, but no theory covers the system; allowed is None")
    state = theory.as_state(state)
    return Start(state, functools.partial(_realised, theory, state, key))


def sampled_start(system: System, theory: AbstractTheory | None, key: int) -> Start:
    """A start sampled from the system's initialisations, by the theory if one covers the system."""
    if theory is None:
        return Start(None, functools.partial(sample_weights, system, key))
    return Start(*theory.sample(key))


def _realised(theory: AbstractTheory, state: State, key: int) -> tuple[Weights, Weights]:
    realised = theory.realise(state, key)
    if isinstance(realised, Refused):
        raise ValueError(f"start: got a state, but {realised.reason}; allowed here are weights")
    return realised


def _from_weights(system: System, theory: Any, weights: Weights, teacher: Weights) -> Start:
    weights, teacher = given_weights(system, weights, teacher)
    if theory is None:
        return Start(None, Given(weights, teacher))
    state = theory.as_state(theory.project(weights, teacher))
    return Start(state, Given(weights, teacher))


def given_weights(system: System, weights: Weights, teacher: Weights) -> tuple[Weights, Weights]:
    """Weights and teacher as NumPy; raises a ValueError if one is missing or does not fit."""
    teacher = system.problem.fixed_teacher if teacher is None else teacher
    for name, value in (("weights", weights), ("teacher", teacher)):
        if value is None:
            whose = "teacher's" if name == "teacher" else "student's"
            raise ValueError(f"{name}: got None; allowed here are the {whose} weights")
    weights, teacher = _arrays("weights", weights), _arrays("teacher", teacher)
    system.network.check_weights(weights, system.problem.input_shape)
    system.problem.check_teacher(teacher)
    return weights, teacher


def _arrays(name: str, tree: Weights) -> Weights:
    """The leaves as NumPy arrays of finite floats, or a ValueError for the first that is not."""

    def array(leaf: Any) -> np.ndarray:
        kind = getattr(leaf, "dtype", np.dtype(np.float64))
        precise = kind in (np.float32, np.float64)
        if not precise and jnp.issubdtype(kind, jnp.floating):
            raise ValueError(f"{name}: got {kind}; allowed are float32 and float64")
        values = finite(name, numbers(name, leaf))
        return values.astype(kind) if precise else values

    return jax.tree.map(array, tree)
