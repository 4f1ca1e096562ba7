"""`start`: what both roads begin from."""

from functools import cached_property

from learndyn.networks.base import Weights
from learndyn.system import System
from learndyn.theory import find_theory
from learndyn.theory.base import Realise, State, sample


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

    @cached_property
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

    def __repr__(self) -> str:
        return f"Start(state={self.state!r})"


def start(system: System, *, key: int = 0, state: State = None) -> Start:
    """Where learning begins: drawn from the system's initialisations, or given.

    Args:
        system: the system.
        key: seed of the draw, and of the directions that a state leaves free.
        state: a state of the theory that covers the system, taken as it is.

    Returns:
        The start, for `solve` and `simulate`.

    Raises:
        ValueError: where the given state is not one the system can have.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(2, "erf", init=ld.Orthonormal(1.0))
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), teacher)
        >>> system = ld.System(problem, ld.Committee(3, "erf"), ld.SGD(0.1))
        >>> begin = ld.start(system, key=1)
        >>> begin.state.R.shape, begin.weights.shape
        ((1, 3, 2), (3, 50))
    """
    theory = find_theory(system)
    if theory is None:
        if state is not None:
            raise ValueError("state: got one, but no theory covers the system; allowed is None")
        return Start(None, lambda: sample(system, key))
    if state is None:
        return Start(*theory.draw(key))
    given = theory.check(state)
    return Start(given, lambda: theory.realise(given, key))
