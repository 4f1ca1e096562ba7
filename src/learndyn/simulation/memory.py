"""Refuses simulations that are too large: they would run for days, or XLA would end the process."""

import jax
import numpy as np

from learndyn.runtime.memory import memory
from learndyn.simulation.reduced import BLOCK_STEPS
from learndyn.system import System
from learndyn.theory.chain import AbstractChain

BYTES_PER_RUN = 2**10  # bytes per run in addition to its values: its outcome, as Python objects
MOST_RUNS = 10**6  # as many as a sweep has points
COPIES = 3  # random bits, uniform numbers and normal numbers take the same memory each


def require_memory_for_step(
    system: System, chain: AbstractChain | None = None, *, width: int = 1
) -> None:
    """Raises a ValueError if the random numbers or examples of one step do not fit.

    Args:
        system: the system.
        chain: the chain that is simulated instead of the weights, or None.
        width: the number of runs computed together.
    """
    rule = system.rule
    batch = rule.batch_size or 1
    if chain is None:
        noise = max(1, rule.noise_draws)
        numbers = batch * (system.dim + noise) * 4
        what = f"batch {batch} of inputs of size {system.dim}"
        what += f" with {noise} perturbations" * (noise > 1)
    else:
        numbers = BLOCK_STEPS * (chain.normals + len(chain.degrees)) * 8
        what = f"batch {batch} in the reduced engine"
    _require(f"system: got {what}", COPIES * numbers * width, "a smaller batch")


def require_memory_for_record(runs: int, times: int, like: object) -> None:
    """Raises a ValueError if the record does not fit, or has more than `MOST_RUNS` runs.

    Args:
        runs: the number of runs of all starts.
        times: the number of requested times.
        like: what is read of one run at one time, as shapes.
    """
    if runs > MOST_RUNS:
        raise ValueError(
            f"runs: got {runs:,}; allowed are at most {MOST_RUNS:,}: take fewer, or several calls "
            "with different keys"
        )
    numbers = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(like)) or 1
    what = f"runs: got {runs} at {times} times"
    _require(what, runs * (8 * times * numbers + BYTES_PER_RUN), "fewer runs or times")


def _require(what: str, needed: int, allowed: str) -> None:
    if needed > memory():
        have = f"{memory() / 2**30:.3g} GiB"
        raise ValueError(
            f"{what}, which takes {needed / 2**30:.3g} GiB of {have}; allowed: {allowed}"
        )
