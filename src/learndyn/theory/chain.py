"""The exact Markov chain of a theory's state at finite size, for theories that have one."""

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn.runtime.types import Array

Constants = Any  # a pytree of what stays constant, without an axis for runs
Coordinates = Any  # a pytree of what the steps change; runs are the last axis of each leaf
LANES = 8  # float64 numbers in the widest vector register


class AbstractChain(eqx.Module):
    """A Markov chain with the exact distribution of the network's state in training, at every size.

    A step of a run reads `normals` standard normal numbers and one chi-square number for
    each entry of `degrees`, all independent. This is all that the engine knows about a chain.

    Attributes:
        normals: number of standard normal numbers that a step reads.
        degrees: degrees of freedom of the chi-square numbers that a step reads; 0 is allowed.
    """

    normals: eqx.AbstractVar[int]
    degrees: eqx.AbstractVar[np.ndarray]

    @abc.abstractmethod
    def begin(self, state: Any) -> tuple[Constants, Coordinates]:
        """The state of one run in the chain's own coordinates, still without an axis for runs.

        Args:
            state: a state of the theory, as NumPy arrays.

        Returns:
            The constants and the coordinates, as NumPy arrays.
        """

    @abc.abstractmethod
    def step(
        self, constants: Constants, now: Coordinates, normals: Array, chi_squares: Array
    ) -> Coordinates:
        """One step of all runs.

        Args:
            constants: those that `begin` returned.
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
        """Steps `first` … `last` − 1 of a block; override this if several steps at once are faster.

        Args:
            constants: those that `begin` returned.
            now: the coordinates, runs last.
            normals: of all steps of the block, (steps, normals, runs).
            chi_squares: likewise, (steps, number of degrees, runs).
            first: the first step to take, counted from the start of the block.
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
        """Runs are computed in multiples of this; 1 if a single run fills the vector registers."""
        return LANES

    @property
    @abc.abstractmethod
    def operations(self) -> float:
        """Rough number of operations per step and run, not counting the random number generator."""
