"""Finds the theory that covers a system. `register` adds your own.

An installed package adds theories by entry points, name = module:class, in its pyproject.toml:

    [project.entry-points."learndyn.theories"]
    "mean gap" = "smith2027width.theory:MeanGap"
"""

import functools
import importlib.metadata
import warnings
from typing import Any

from learndyn.runtime.checks import either, instance, one_of, shown
from learndyn.system import System
from learndyn.theory.base import AbstractTheory, NoTheory
from learndyn.theory.committee.general.theory import GeneralCommitteeTheory
from learndyn.theory.committee.theory import CommitteeTheory
from learndyn.theory.deep_linear.theory import DeepLinearTheory
from learndyn.theory.dynamics import STEPS, Clock
from learndyn.theory.infinite_width.theory import InfiniteWidthTheory
from learndyn.theory.linearised.batches import LinearisedBatchTheory
from learndyn.theory.linearised.theory import LinearisedTheory
from learndyn.theory.online.theory import OnlineTheory
from learndyn.theory.perturbation.theory import PerturbationTheory
from learndyn.theory.quadratic_model.theory import QuadraticModelTheory

THEORIES: list[type[AbstractTheory]] = [
    CommitteeTheory, GeneralCommitteeTheory, DeepLinearTheory, PerturbationTheory,
    QuadraticModelTheory, LinearisedTheory, LinearisedBatchTheory, InfiniteWidthTheory,
    OnlineTheory,
]  # fmt: skip


GROUP = "learndyn.theories"


def theories() -> list[type[AbstractTheory]]:
    """All theories: ours, registered ones, and those of installed packages.

    Returns:
        The theories, in the order of the search.

    Warns:
        UserWarning: once, if a theory of an installed package cannot be imported, is none, or has
            the name of another; it is left out.

    Example:
        >>> from learndyn.theory import theories
        >>> [kind.name for kind in theories()][:3]
        ['committee', 'general committee', 'deep linear']
    """
    _add_installed()
    return THEORIES


@functools.cache
def _add_installed() -> None:
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
        try:
            kind = entry.load()
            names = [known.name for known in THEORIES if known is not kind]
            if getattr(kind, "name", None) in names:
                raise ValueError(f"there is a theory of the name {kind.name!r}")
            register(kind)
        except Exception as error:  # whatever another package does when it is imported
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            place = f"{entry.name} = {entry.value}"
            warnings.warn(f"theory {place!r} is left out: {why}", stacklevel=3)


def register(kind: type[AbstractTheory]) -> type[AbstractTheory]:
    """Adds a theory after the existing ones, or in place of one with the same name.

    Args:
        kind: a subclass of `AbstractTheory`.

    Returns:
        The same class, so that `@register` can decorate it.

    Raises:
        ValueError: for anything but a subclass of `AbstractTheory`.

    Example:
        >>> import learndyn as ld
        >>> from learndyn.theory import CommitteeTheory, theories
        >>> ld.register(CommitteeTheory) is CommitteeTheory  # a theory of this name takes its place
        True
        >>> CommitteeTheory in theories()
        True
    """
    if not (isinstance(kind, type) and issubclass(kind, AbstractTheory)):
        raise ValueError(f"kind: got {shown(kind)}; allowed is a subclass of AbstractTheory")
    names = [known.name for known in THEORIES]
    # Replacing by name lets a notebook cell that defines a theory be run again.
    place = names.index(kind.name) if kind.name in names else len(names)
    THEORIES[place : place + 1] = [kind]
    return kind


def find_theory(system: System) -> AbstractTheory | None:
    """The theory that covers the system, exact before approximate, or None.

    Args:
        system: the system.

    Returns:
        The theory, bound to the system. Unlike `theory_of`, it raises no error without one.

    Example:
        >>> import learndyn as ld
        >>> from learndyn.theory import find_theory
        >>> data = ld.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
        >>> find_theory(ld.System(data, ld.MLP([2, 8, 1], "tanh"), ld.SGD(0.1))) is None
        True
    """
    levels = [(kind.covers(system).level, kind) for kind in theories()]
    for wanted in ("exact", "approximate"):
        for level, kind in levels:
            if level == wanted:
                return kind(system)
    return None


def theory_of(system: System, theory: Any = None) -> AbstractTheory:
    """The theory that covers the system: exact before approximate, then the registry's order.

    Args:
        system: the system.
        theory: the name or class of a theory, to choose that one.

    Returns:
        The theory, bound to the system.

    Raises:
        NoTheory: if none covers it; the message lists every theory with its reason.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(1, "erf")
        >>> system = ld.System(ld.TeacherStudent(ld.Isotropic(50), teacher), teacher, ld.SGD(0.1))
        >>> theory = ld.theory_of(system)
        >>> theory.name, theory.orders, theory.covers(system).level
        ('committee', ('full', 'flow', 'finite'), 'exact')
    """
    instance("system", system, System, "a System")
    if theory is not None:
        return _named(system, theory)
    covering = find_theory(system)
    if covering is None:
        reasons = "; ".join(f"{kind.name}: {kind.covers(system).reason}" for kind in theories())
        raise NoTheory(f"no theory covers this system ({reasons}); `simulate` works without one")
    return covering


def _named(system: System, theory: Any) -> AbstractTheory:
    known = {kind.name: kind for kind in theories()}
    is_class = isinstance(theory, type) and issubclass(theory, AbstractTheory)
    kind = theory if is_class else known[one_of("theory", theory, known)]
    coverage = kind.covers(system)
    if coverage.level == "none":
        names = [each.name for each in theories() if each.covers(system).level != "none"]
        allowed = f"{either(names)} for this system" if names else "none; `simulate` works without"
        raise NoTheory(f"theory: got {kind.name!r}, but {coverage.reason}; allowed is {allowed}")
    return kind(system)


def clock_of(system: System, theory: AbstractTheory | None) -> Clock:
    """The system's unit of time: its theory's, else the natural one of its kind, else steps.

    Args:
        system: the system.
        theory: the theory that covers it, or None.

    Returns:
        The clock.

    Example:
        >>> import learndyn as ld
        >>> from learndyn.theory import clock_of
        >>> teacher = ld.Committee(1, "erf")
        >>> system = ld.System(ld.TeacherStudent(ld.Isotropic(50), teacher), teacher, ld.SGD(0.1))
        >>> clock_of(system, ld.theory_of(system))
        Clock(unit='steps / N', steps=50.0, drift=1.0)
    """
    if theory is not None:
        return theory.clock(theory.orders[0])
    return next(filter(None, (kind.natural_clock(system) for kind in theories())), STEPS)
