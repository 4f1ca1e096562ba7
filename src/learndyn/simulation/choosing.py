"""Which engine a simulation takes."""

from collections.abc import Mapping
from typing import Any

from learndyn.numerics.checks import one_of
from learndyn.system import System
from learndyn.theory import THEORIES, AbstractTheory, Refused, find_theory
from learndyn.theory.chain import AbstractChain

METHODS = ("auto", "direct", "reduced", "flow")
Reduced = tuple[AbstractTheory, AbstractChain]


def choose(system: System, method: str, probes: Mapping[str, Any]) -> tuple[str, Reduced | None]:
    """The method that is meant, and for "reduced" what it needs.

    "auto" is "reduced" wherever that is exact and takes fewer operations than "direct".

    Args:
        system: what learns.
        method: what was asked for.
        probes: what is to be evaluated on the weights.

    Returns:
        The method, and the theory with its chain where the method is "reduced".

    Raises:
        ValueError: for an unknown method, or where the system has no exact chain.
    """
    one_of("method", method, METHODS)
    if method in ("direct", "flow"):
        return method, None
    found = _reduced(system, probes)
    if method == "auto":
        if isinstance(found, str):
            return "direct", None
        own, direct = found[1].operations
        return ("reduced", found) if own < direct else ("direct", None)
    if isinstance(found, str):
        raise ValueError(found)
    return method, found


def _reduced(system: System, probes: Mapping[str, Any]) -> Reduced | str:
    """The theory and its chain, or a line that says what the reduced engine cannot represent."""
    theory = find_theory(system)
    if theory is None:
        reasons = "; ".join(f"{kind.name}: {kind.covers(system).reason}" for kind in THEORIES)
        parts = ", ".join(
            type(part).__name__ for part in (system.problem, system.network, system.rule)
        )
        return f"method: got 'reduced' for {parts} ({reasons}); allowed here is 'direct'"
    chain = theory.chain()
    if isinstance(chain, Refused):
        return f"method: got 'reduced', but {chain.reason}; allowed here is 'direct'"
    if probes:
        names = ", ".join(map(repr, probes))
        return f"probes: got {names} with 'reduced', which has no weights; allowed is 'direct'"
    return theory, chain
