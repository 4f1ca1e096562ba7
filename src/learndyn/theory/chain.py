"""The exact Markov chain of a theory's state at finite size, where there is one."""

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.numerics.types import Array

Constants = Any  # a pytree of what no step changes, without an axis for runs
Coordinates = Any  # a pytree of what every step changes; runs are the last axis of each leaf
LANES = 8  # float64 numbers in the widest vector register


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
    def begin(self, state: Any) -> tuple[Constants, Coordinates]:
        """The chain's own coordinates of a state, for one run: no axis for runs yet.

        Args:
            state: a state of the theory, NumPy.

        Returns:
            What stays and what moves, NumPy.
        """

    @abc.abstractmethod
    def step(
        self, constants: Constants, now: Coordinates, normals: Array, chi_squares: Array
    ) -> Coordinates:
        """One step of all runs.

        Args:
            constants: what `begin` gave.
            now: the coordinates, runs last.
            normals: (normals, runs).
            chi_squares: (number of degrees, runs).

        Returns:
            The coordinates after the step.
        """

    def steps(
        self,
        constants: Constants,
        now: Coordinates,
        normals: Array,
        chi_squares: Array,
        first: Array,
        last: Array,
    ) -> Coordinates:
        """Steps `first` … `last` − 1 of a block, for which a chain may know a faster way.

        Args:
            constants: what `begin` gave.
            now: the coordinates, runs last.
            normals: of all steps of the block, (steps, normals, runs).
            chi_squares: likewise, (steps, number of degrees, runs).
            first: the first step to take, counted from the block's own.
            last: the step to stop before.

        Returns:
            The coordinates after the steps.
        """
        one = lambda i, now: self.step(constants, now, normals[i], chi_squares[i])
        return jax.lax.fori_loop(first, last, one, now)

    @abc.abstractmethod
    def state(self, constants: Constants, now: Coordinates) -> Any:
        """The theory's state of one run: `now` without its last axis."""

    @property
    def lanes(self) -> int:
        """Runs are computed in multiples of it: 1 where a run by itself fills the registers."""
        return LANES

    @property
    @abc.abstractmethod
    def operations(self) -> float:
        """Rough operations of a step of one run, beside those of drawing its numbers."""
