"""Which theory covers a system."""

from learndyn.system import System
from learndyn.theory.base import STEPS, AbstractTheory, Clock, NoTheory
from learndyn.theory.committee.theory import CommitteeTheory
from learndyn.theory.deep_linear.theory import DeepLinearTheory

THEORIES: tuple[type[AbstractTheory], ...] = (CommitteeTheory, DeepLinearTheory)


def find_theory(system: System) -> AbstractTheory | None:
    """The theory that covers the system, exact before approximate, or None."""
    levels = [(kind.covers(system).level, kind) for kind in THEORIES]
    for wanted in ("exact", "approximate"):
        for level, kind in levels:
            if level == wanted:
                return kind(system)
    return None


def theory_of(system: System) -> AbstractTheory:
    """The theory that covers the system: exact before approximate, then the registry's order.

    Args:
        system: the system.

    Returns:
        The theory, bound to the system.

    Raises:
        NoTheory: where none covers it; the message lists each theory with the reason.
    """
    theory = find_theory(system)
    if theory is None:
        reasons = "; ".join(f"{kind.name}: {kind.covers(system).reason}" for kind in THEORIES)
        raise NoTheory(f"no theory covers this system ({reasons}); `simulate` still runs it")
    return theory


def clock_of(system: System, order: str = "full") -> Clock:
    """The system's unit of time: that of the theory that covers it, or of its kind, or steps."""
    theory = find_theory(system)
    if theory is not None:
        return theory.clock(order)
    return next(filter(None, (kind.natural_clock(system) for kind in THEORIES)), STEPS)
