"""Whether a simulation has room in memory: beyond it XLA ends the process without a word."""

import jax
import numpy as np

from learndyn.numerics.memory import memory
from learndyn.simulation.reduced import BLOCK_STEPS
from learndyn.system import System
from learndyn.theory.chain import AbstractChain

COPIES = 3  # random bits, uniform numbers and normal ones are each of the size of a draw


def check_step(system: System, chain: AbstractChain | None = None, *, width: int = 1) -> None:
    """Raises a ValueError where the random numbers or examples of one step do not fit.

    Args:
        system: what learns.
        chain: what is simulated in place of its weights, if any.
        width: runs that are computed together.
    """
    rule = system.rule
    batch = getattr(rule, "batch", None) or 1
    if chain is None:
        noise = getattr(rule, "perturbations", 1)
        numbers = batch * (system.dim + noise) * 4
        what = f"batch {batch} of inputs of size {system.dim}"
        what += f" with {noise} perturbations" * (noise > 1)
    else:
        numbers = BLOCK_STEPS * (chain.normals + len(chain.degrees)) * 8
        what = f"batch {batch} in the reduced engine"
    _require(f"system: got {what}", COPIES * numbers * width, "a smaller batch")


def check_record(runs: int, times: int, like: object) -> None:
    """Raises a ValueError where what is to be recorded does not fit.

    Args:
        runs: of all starts.
        times: that are asked for.
        like: what is read of one run at one time, as shapes.
    """
    numbers = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(like)) or 1
    what = f"runs: got {runs} at {times} times"
    _require(what, 8 * runs * times * numbers, "fewer runs or times")


def _require(what: str, needed: int, allowed: str) -> None:
    if needed > memory():
        have = f"{memory() / 2**30:.3g} GiB"
        raise ValueError(
            f"{what}, which takes {needed / 2**30:.3g} GiB of {have}; allowed: {allowed}"
        )
