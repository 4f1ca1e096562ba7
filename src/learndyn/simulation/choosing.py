"""Which engine a simulation takes."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from learndyn.numerics.checks import one_of
from learndyn.rules.watching import AbstractStepProbe
from learndyn.system import System
from learndyn.theory import THEORIES, AbstractTheory, Refused
from learndyn.theory.chain import NORMAL, AbstractChain

METHODS = ("auto", "direct", "reduced", "flow")


def choose(
    system: System, theory: AbstractTheory | None, method: str, probes: Mapping[str, Any]
) -> tuple[str, AbstractChain | None]:
    """The method that is meant, and for "reduced" what it needs.

    "auto" is "reduced" wherever that is exact and takes fewer operations than "direct".

    Args:
        system: what learns.
        theory: the one that covers it, or None.
        method: what was asked for.
        probes: what is to be evaluated on the weights.

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
    if method == "auto" and found.operations >= operations(system):
        return "direct", None
    return "reduced", found


def operations(system: System) -> float:
    """Rough operations of a step on the full weights: inputs are drawn, weights read twice."""
    inputs, problem = system.dim, system.problem
    parts = [system.network, getattr(problem, "teacher", None)]
    like = [part.like(problem.input_shape) for part in parts if part is not None]
    weights = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(like))
    law = system.rule.step_law
    batch = 1 if law is None or law.batch is None else law.batch
    return float(batch) * (NORMAL * inputs + 4 * weights)


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
