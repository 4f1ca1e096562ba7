"""The cost of a step in either engine: its random numbers, and the rest of its arithmetic.

The constants are those of `benchmarks/choosing.py`, rounded: one core of a server of 2023
(AVX-512), N from 64 to 6400, one to a hundred levels, batches of 1 to 32. They differ between
machines, but their ratio, on which the choice depends, differs less. Compilation is not counted: a
first call takes 2 to 2.4 s in the direct engine and 2.5 to 4 s in the reduced one (6 s for 16
units), so it cannot make the choice wrong by more than a factor of 2, and later calls compile
nothing.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from learndyn.runtime.cores import cores
from learndyn.simulation import direct, reduced
from learndyn.simulation.parallel import on_one_cpu
from learndyn.system import System
from learndyn.theory.chain import AbstractChain

CHI_SQUARE = 4  # a chi-square number costs about as much as this many normal ones


class Work(NamedTuple):
    """The work of a step of one run: random numbers to draw, and other operations."""

    numbers: float
    operations: float


class Cost(NamedTuple):
    """Seconds of a step of a group (overhead), of a random number, and of an operation."""

    step: float
    number: float
    operation: float

    def seconds(self, work: Work, runs: int, width: int) -> float:
        """Seconds until every run has taken one step, in groups of `width` runs on all cores."""
        groups = math.ceil(runs / width)
        turns = math.ceil(groups / cores()) if on_one_cpu() else 1
        each = self.number * work.numbers + self.operation * work.operations
        return turns * (self.step + width * each)


DIRECT = {"float32": Cost(5e-7, 5e-9, 6e-11), "float64": Cost(5e-7, 1e-8, 1.2e-10)}
REDUCED = Cost(5e-7, 2.5e-8, 2e-10)  # float64, in short vectors


def seconds_per_step(
    system: System, chain: AbstractChain, runs: int, dtype: str = "float32"
) -> dict[str, float]:
    """Seconds until all runs have taken one step, in both engines.

    Args:
        system: the system.
        chain: its exact chain.
        runs: the number of runs of all starts.
        dtype: precision of the weights.

    Returns:
        Method → seconds, without compilation.
    """
    drawn = chain.normals + CHI_SQUARE * len(chain.degrees)
    reduced_work, width = Work(drawn, chain.operations), reduced.width_of(runs, chain)
    return {
        "direct": DIRECT[dtype].seconds(direct_work(system), runs, direct.width_of(runs)),
        "reduced": REDUCED.seconds(reduced_work, runs, width),
    }


def direct_work(system: System) -> Work:
    """A step on the full weights: inputs and perturbations are drawn, weights are read twice."""
    problem, rule = system.problem, system.rule
    student = jax.tree.leaves(system.network.like(problem.input_shape))
    teacher = problem.teacher_network
    fixed = [] if teacher is None else jax.tree.leaves(teacher.like(problem.input_shape))
    weights = sum(int(np.prod(leaf.shape)) for leaf in [*student, *fixed])
    nodes = sum(leaf.shape[0] for leaf in student)  # rows of the layers, where noise is injected
    law, draws = rule.step_law, rule.noise_draws
    batch = 1 if law is None or law.batch is None else law.batch
    return Work(float(batch) * (system.dim + draws * nodes), 4.0 * batch * weights)
