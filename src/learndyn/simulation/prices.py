"""What a step costs in either engine: the numbers that it draws, and the rest of its arithmetic.

Prices are those of `benchmarks/choosing.py`, rounded: of one core of a server of 2023 (AVX-512),
between N = 64 and 6400, one and a hundred levels, batches of 1 to 32. They differ from machine to
machine; what the choice rests on, their ratio, does so less. Compiling is not counted: a first
call takes 2 to 2.4 s in the direct engine and 2.5 to 4 s in the reduced one (6 s for 16 units), so
that it cannot make the choice wrong by more than a factor 2, and a second call compiles nothing.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from learndyn.simulation import direct, reduced
from learndyn.simulation.parallel import cores, on_one_cpu
from learndyn.system import System
from learndyn.theory.chain import AbstractChain

CHI_SQUARE = 4  # normal numbers that a chi-square number costs, about


class Work(NamedTuple):
    """What a step of one run does: random numbers it draws, and other operations."""

    numbers: float
    operations: float


class Price(NamedTuple):
    """Seconds: of a step of a group whatever it does, of a random number, of an operation."""

    step: float
    number: float
    operation: float

    def of(self, work: Work, runs: int, width: int) -> float:
        """Seconds until every run has taken a step, in groups of a width on all cores."""
        groups = math.ceil(runs / width)
        turns = math.ceil(groups / cores()) if on_one_cpu() else 1
        each = self.number * work.numbers + self.operation * work.operations
        return turns * (self.step + width * each)


DIRECT = {"float32": Price(5e-7, 5e-9, 6e-11), "float64": Price(5e-7, 1e-8, 1.2e-10)}
REDUCED = Price(5e-7, 2.5e-8, 2e-10)  # float64, in short vectors


def of_engines(
    system: System, chain: AbstractChain, runs: int, dtype: str = "float32"
) -> dict[str, float]:
    """Seconds until all runs have taken a step, in both engines.

    Args:
        system: what learns.
        chain: its exact chain.
        runs: of all starts.
        dtype: precision of the weights.

    Returns:
        The name of a method → seconds, what is compiled left out.
    """
    drawn = chain.normals + CHI_SQUARE * len(chain.degrees)
    reduced_work, width = Work(drawn, chain.operations), reduced.width_of(runs, chain)
    return {
        "direct": DIRECT[dtype].of(work_of(system), runs, direct.width_of(runs)),
        "reduced": REDUCED.of(reduced_work, runs, width),
    }


def work_of(system: System) -> Work:
    """A step on the full weights: inputs and perturbations are drawn, weights read twice."""
    problem, rule = system.problem, system.rule
    student = jax.tree.leaves(system.network.like(problem.input_shape))
    teacher = getattr(problem, "teacher", None)
    given = [] if teacher is None else jax.tree.leaves(teacher.like(problem.input_shape))
    weights = sum(int(np.prod(leaf.shape)) for leaf in [*student, *given])
    nodes = sum(leaf.shape[0] for leaf in student)  # rows of the layers that chains know
    law, draws = rule.step_law, getattr(rule, "perturbations", 0)
    batch = 1 if law is None or law.batch is None else law.batch
    return Work(float(batch) * (system.dim + draws * nodes), 4.0 * batch * weights)
