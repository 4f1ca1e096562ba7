"""Chooses the engine of a simulation."""

from collections.abc import Mapping
from typing import Any

from learndyn.rules.watching import AbstractStepProbe
from learndyn.runtime.checks import one_of
from learndyn.simulation.costs import seconds_per_step
from learndyn.system import System
from learndyn.system.code import METHODS
from learndyn.theory import AbstractTheory, Refused, theories
from learndyn.theory.chain import AbstractChain


def choose(
    system: System,
    theory: AbstractTheory | None,
    method: str,
    probes: Mapping[str, Any],
    runs: int = 1,
    dtype: str = "float32",
) -> tuple[str, AbstractChain | None]:
    """The method to use, and the Markov chain that "reduced" needs.

    "auto" means "reduced" if that is exact and, by `simulation/costs.py`, faster for these runs.

    Args:
        system: the system.
        theory: the theory that covers it, or None.
        method: the requested method.
        probes: what to evaluate on the weights.
        runs: the number of runs of all starts.
        dtype: precision of the weights of "direct".

    Returns:
        The method, and the theory's chain if the method is "reduced".

    Raises:
        ValueError: for an unknown method, and for "reduced" if the system has no exact chain.
    """
    one_of("method", method, METHODS)
    if method == "flow" and any(isinstance(p, AbstractStepProbe) for p in probes.values()):
        raise ValueError("method: got 'flow' with a probe of steps; allowed is 'direct'")
    if method in ("direct", "flow"):
        return method, None
    chain = _chain(system, theory, probes)
    if isinstance(chain, str):
        if method == "auto":
            return "direct", None
        raise ValueError(chain)
    seconds = seconds_per_step(system, chain, runs, dtype)
    if method == "auto" and seconds["direct"] <= seconds["reduced"]:
        return "direct", None
    return "reduced", chain


def _chain(
    system: System, theory: AbstractTheory | None, probes: Mapping[str, Any]
) -> AbstractChain | str:
    """The chain, or an error message that says what the reduced engine cannot represent."""
    if theory is None:
        reasons = "; ".join(f"{kind.name}: {kind.covers(system).reason}" for kind in theories())
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
