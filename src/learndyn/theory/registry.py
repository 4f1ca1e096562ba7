"""Which theory covers a system. The registry is open: `register` adds a theory of one's own."""

from typing import Any

from learndyn.numerics.checks import instance, one_of, shown
from learndyn.system import System
from learndyn.theory.base import AbstractTheory, NoTheory
from learndyn.theory.committee.theory import CommitteeTheory
from learndyn.theory.deep_linear.theory import DeepLinearTheory
from learndyn.theory.dynamics import STEPS, Clock, Refused
from learndyn.theory.perturbation.theory import PerturbationTheory
from learndyn.theory.quadratic_model.theory import QuadraticModelTheory

THEORIES: list[type[AbstractTheory]] = [
    CommitteeTheory, DeepLinearTheory, PerturbationTheory, QuadraticModelTheory,
]  # fmt: skip


def register(kind: type[AbstractTheory]) -> type[AbstractTheory]:
    """Adds a theory, after those that are there; one of the same name takes its place.

    Args:
        kind: a subclass of `AbstractTheory`.

    Returns:
        The same, so that `@register` stands above a class.
    """
    if not (isinstance(kind, type) and issubclass(kind, AbstractTheory)):
        raise ValueError(f"kind: got {shown(kind)}; allowed is a subclass of AbstractTheory")
    names = [known.name for known in THEORIES]
    place = names.index(kind.name) if kind.name in names else len(names)
    THEORIES[place : place + 1] = [kind]
    return kind


def find_theory(system: System) -> AbstractTheory | None:
    """The theory that covers the system, exact before approximate, or None."""
    levels = [(kind.covers(system).level, kind) for kind in THEORIES]
    for wanted in ("exact", "approximate"):
        for level, kind in levels:
            if level == wanted:
                return kind(system)
    return None


def theory_of(system: System, theory: Any = None) -> AbstractTheory:
    """The theory that covers the system: exact before approximate, then the registry's order.

    Args:
        system: the system.
        theory: a theory's name or class, to take that one.

    Returns:
        The theory, bound to the system.

    Raises:
        NoTheory: where none covers it; the message lists each theory with the reason.
    """
    instance("system", system, System, "a System")
    if theory is not None:
        return _named(system, theory)
    found = find_theory(system)
    if found is None:
        reasons = "; ".join(f"{kind.name}: {kind.covers(system).reason}" for kind in THEORIES)
        raise NoTheory(f"no theory covers this system ({reasons}); `simulate` needs none")
    return found


def _named(system: System, theory: Any) -> AbstractTheory:
    known = {kind.name: kind for kind in THEORIES}
    is_class = isinstance(theory, type) and issubclass(theory, AbstractTheory)
    kind = theory if is_class else known[one_of("theory", theory, known)]
    coverage = kind.covers(system)
    if coverage.level == "none":
        raise NoTheory(
            f"theory: got {kind.name!r}, but {coverage.reason}; allowed is one that covers"
        )
    return kind(system)


def clock_of(system: System, theory: AbstractTheory | None) -> Clock:
    """The system's unit of time: that of the theory that covers it, or of its kind, or steps."""
    if theory is not None:
        found = theory.dynamics(theory.orders[0])
        return STEPS if isinstance(found, Refused) else found.clock
    return next(filter(None, (kind.natural_clock(system) for kind in THEORIES)), STEPS)
