"""Which engine a simulation takes."""

from collections.abc import Mapping
from typing import Any

from learndyn.numerics.checks import one_of
from learndyn.rules.watching import AbstractStepProbe
from learndyn.simulation.prices import of_engines
from learndyn.system import System
from learndyn.theory import THEORIES, AbstractTheory, Refused
from learndyn.theory.chain import AbstractChain

METHODS = ("auto", "direct", "reduced", "flow")


def choose(
    system: System,
    theory: AbstractTheory | None,
    method: str,
    probes: Mapping[str, Any],
    runs: int = 1,
    dtype: str = "float32",
) -> tuple[str, AbstractChain | None]:
    """The method that is meant, and for "reduced" what it needs.

    "auto" is "reduced" wherever that is exact and, by `prices`, faster for these runs.

    Args:
        system: what learns.
        theory: the one that covers it, or None.
        method: what was asked for.
        probes: what is to be evaluated on the weights.
        runs: how many, of all starts.
        dtype: precision of the weights of "direct".

    Returns:
        The method, and the theory's chain where the method is "reduced".

    Raises:
        ValueError: for an unknown method, or where the system has no exact chain.
    """
    one_of("method", method, METHODS)
    if method == "flow" and any(isinstance(p, AbstractStepProbe) for p in probes.values()):
        raise ValueError("method: got 'flow' with a probe of steps; allowed is 'direct'")
    if method in ("direct", "flow"):
        return method, None
    found = _chain(system, theory, probes)
    if isinstance(found, str):
        if method == "auto":
            return "direct", None
        raise ValueError(found)
    prices = of_engines(system, found, runs, dtype)
    if method == "auto" and prices["direct"] <= prices["reduced"]:
        return "direct", None
    return "reduced", found


def _chain(
    system: System, theory: AbstractTheory | None, probes: Mapping[str, Any]
) -> AbstractChain | str:
    """The chain, or a line that says what the reduced engine cannot represent."""
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
    return chain
