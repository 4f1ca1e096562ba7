"""The exact Markov chain of a theory's state at finite size, where there is one."""

import abc
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.numerics.types import Array

Fixed = Any  # a pytree of what no step changes, without an axis for runs
Moving = Any  # a pytree of what every step changes; runs are the last axis of each leaf


class AbstractChain(eqx.Module):
    """Steps a state as the real network's would move, in law and at every size.

    A step of a run reads `normals` standard normal numbers and one chi-square number for
    each entry of `degrees`, all independent. The engine that draws them knows nothing else.

    Attributes:
        normals: how many standard normal numbers a step reads.
        degrees: degrees of freedom of the chi-square numbers a step reads, possibly 0.
    """

    normals: eqx.AbstractVar[int]
    degrees: eqx.AbstractVar[np.ndarray]

    @abc.abstractmethod
    def begin(self, state: Any) -> tuple[Fixed, Moving]:
        """The chain's own coordinates of a state, for one run: no axis for runs yet.

        Args:
            state: a state of the theory, NumPy.

        Returns:
            What stays and what moves, NumPy.
        """

    @abc.abstractmethod
    def step(self, fixed: Fixed, moving: Moving, normals: Array, chi_squares: Array) -> Moving:
        """One step of all runs.

        Args:
            fixed: what `begin` gave.
            moving: runs last.
            normals: (normals, runs).
            chi_squares: (number of degrees, runs).

        Returns:
            The moving part after the step.
        """

    @abc.abstractmethod
    def state(self, fixed: Fixed, moving: Moving) -> Any:
        """The theory's state of one run: `moving` without its last axis."""

    @property
    @abc.abstractmethod
    def operations(self) -> tuple[float, float]:
        """Rough operations a step of the chain, and of the same step on the full weights."""
