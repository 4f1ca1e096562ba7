"""The committee's state: overlaps resolved by covariance level."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.linalg import smallest_eigenvalue
from learndyn.numerics.semidefinite import gram_factor
from learndyn.runtime.checks import a_kind, shown
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array

PARTS = ("outputs", "biases", "teacher_outputs", "teacher_biases")


def _with_levels(name: str) -> Callable[[Any], Array]:
    """A converter to float64 that adds the level axis to a matrix without one."""

    def read(value: Any) -> Array:
        array = float64(name)(value)
        return array[None] if array.ndim == 2 else array

    return read


def _optional(name: str) -> Callable[[Any], Array | None]:
    return lambda value: None if value is None else float64(name)(value)


def _time(value: Any) -> Elapsed | None:
    if value is None or isinstance(value, Elapsed):
        return value
    raise ValueError(f"time: got {shown(value)}; allowed is None, since every start has time 0")


class Overlaps(eqx.Module):
    """Overlaps of student and teacher weights in every covariance level.

    Q[l, i, j] = w_i · P_l w_j / N (student, student), R[l, i, n] (student, teacher) and
    T[l, n, m] (teacher, teacher), with P_l the projector on level l. The eigenvalue is
    not included. A matrix without the level axis is taken as a single level.

    With inputs from a mixture, √N times the means of the clusters follow the teacher's rows: the
    last columns of R are the means of the student's pre-activations.

    Outputs and biases are part of the state where they are drawn or learn; elsewhere the networks
    state them. None in a state for `start` takes those of the network. So is the time, where the
    learning rate depends on it; every start has time 0.

    Args:
        Q: (levels, K, K).
        R: (levels, K, M).
        T: (levels, M, M).
        outputs: the student's output weights v, (K,), or (K, outputs).
        biases: the student's biases b, (K,).
        teacher_outputs: the teacher's output weights, (M,), which never change.
        teacher_biases: the teacher's biases, (M,).
        time: α = steps/N, or None.

    Raises:
        ValueError: for arrays whose shapes do not fit each other.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> state = ld.Overlaps(Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2))
        >>> state.Q.shape  # (levels, K, K)
        (1, 2, 2)
    """

    Q: Array = eqx.field(converter=_with_levels("Q"))
    R: Array = eqx.field(converter=_with_levels("R"))
    T: Array = eqx.field(converter=_with_levels("T"))
    outputs: Array | None = eqx.field(converter=_optional("outputs"), default=None)
    biases: Array | None = eqx.field(converter=_optional("biases"), default=None)
    teacher_outputs: Array | None = eqx.field(converter=_optional("teacher_outputs"), default=None)
    teacher_biases: Array | None = eqx.field(converter=_optional("teacher_biases"), default=None)
    time: Elapsed | None = eqx.field(converter=_time, default=None)

    # Shapes only: an Overlaps may also hold a drift, or traced arrays, whose values have no bounds.
    # `checked` tests the values of a state that a user passes.
    def __check_init__(self):
        for name, array in (("Q", self.Q), ("R", self.R), ("T", self.T)):
            if array.ndim != 3:
                raise ValueError(
                    f"{name}: got shape {array.shape}; allowed is (levels, rows, columns)"
                )
        (L, K, M) = self.R.shape
        for name, array, shape in (("Q", self.Q, (L, K, K)), ("T", self.T, (L, M, M))):
            if array.shape != shape:
                raise ValueError(
                    f"{name}: got shape {array.shape}; allowed beside R {self.R.shape} is {shape}"
                )
        for name, size in zip(PARTS, (K, K, M, M), strict=True):
            array = getattr(self, name)
            # Columns are those of several outputs, and rows beside the teacher's those of means.
            if array is None or (array.ndim == 1 and array.shape == (size,)):
                continue
            fits = 1 <= array.ndim <= (2 if name.endswith("outputs") else 1) and (
                len(array) <= size if name.startswith("teacher") else len(array) == size
            )
            if not fits:
                raise ValueError(
                    f"{name}: got shape {array.shape}; allowed beside R {self.R.shape} is {(size,)}"
                )

    @property
    def parts(self) -> dict[str, Array | None]:
        """Outputs and biases of student and teacher, by the names of the fields."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def gram(self) -> Array:
        """The symmetric Gram matrix (Q, R; Rᵀ, T) of every level, (levels, K + M, K + M).

        Only the symmetric parts of Q and T enter: with the η² term, an asymmetry of Q from
        rounding would grow.
        """
        block = np.block if isinstance(self.Q, np.ndarray) else jnp.block
        top = [_symmetric(self.Q), self.R]
        return block([top, [self.R.swapaxes(1, 2), _symmetric(self.T)]])


class Factors(eqx.Module):
    """Students and teachers as rows, in a frame for every level: C_l = (J_l; B_l)(J_l; B_l)ᵀ.

    C_l is positive semidefinite for any J_l, and the factors are small if the levels have few
    dimensions.

    Args:
        J: (levels, K, rank).
        B: (levels, M, rank).
        outputs: as in `Overlaps`.
        biases: likewise.
        teacher_outputs: likewise.
        teacher_biases: likewise.
        time: likewise.
    """

    J: Array
    B: Array
    outputs: Array | None = None
    biases: Array | None = None
    teacher_outputs: Array | None = None
    teacher_biases: Array | None = None
    time: Elapsed | None = None

    @property
    def parts(self) -> dict[str, Array | None]:
        """Outputs and biases of student and teacher, by the names of the fields."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def rows(self) -> Array:
        """Students, then teachers, (levels, K + M, rank)."""
        xp = np if isinstance(self.J, np.ndarray) else jnp
        return xp.concatenate([self.J, self.B], axis=1)

    @property
    def overlaps(self) -> Overlaps:
        """The overlaps of these rows."""
        rows = self.rows
        gram = rows @ rows.swapaxes(1, 2)
        return from_gram(gram, self.J.shape[1], time=self.time, **self.parts)


def factors_of(state: Overlaps, rank: int) -> Factors:
    """Rows with these overlaps, in at most `rank` dimensions per level.

    Students that are many orders of magnitude smaller than the teachers keep their digits.
    """
    rows, K = gram_factor(np.asarray(state.gram), rank), state.Q.shape[1]
    return Factors(rows[:, :K], rows[:, K:], time=state.time, **state.parts)


def from_gram(C: Array, units: int, **parts: Any) -> Overlaps:
    """The overlaps in Gram matrices (levels, K + M, K + M), students first; `parts` as they are."""
    return Overlaps(C[:, :units, :units], C[:, :units, units:], C[:, units:, units:], **parts)


def checked(state: Any, levels: int, units: int, teacher_units: int) -> Overlaps:
    """The overlaps, or a ValueError that says what is wrong with them.

    Args:
        state: the user's state.
        levels: number of covariance levels of the inputs.
        units: hidden units K of the student.
        teacher_units: hidden units M of the teacher.

    Returns:
        The same overlaps.

    Raises:
        ValueError: for a wrong type or shape, NaN, asymmetry, or overlaps that no weights can
            have.
    """
    if not isinstance(state, Overlaps):
        raise ValueError(f"state: got {a_kind(state)}; allowed is an Overlaps")
    if state.R.shape != (levels, units, teacher_units):
        allowed = (levels, units, teacher_units)
        raise ValueError(f"state: got R of shape {state.R.shape}; allowed is {allowed}")
    there = {name: array for name, array in state.parts.items() if array is not None}
    for name, array in (("Q", state.Q), ("R", state.R), ("T", state.T), *there.items()):
        if not np.all(np.isfinite(array)):
            raise ValueError(
                f"state: {name} has entries that are not finite; allowed are finite numbers"
            )
    for name, array in (("Q", state.Q), ("T", state.T)):
        if not np.allclose(array, np.swapaxes(array, 1, 2), rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"state: got {name} that is not symmetric; allowed is a symmetric matrix"
            )
    for l, C in enumerate(np.asarray(state.gram)):
        lowest = smallest_eigenvalue(C)
        # Rounding may leave eigenvalues slightly below zero; 1e-300 lets all-zero overlaps pass.
        if lowest < -1e-9 * max(np.trace(C), 1e-300):
            raise ValueError(
                f"state: (Q, R; Rᵀ, T) of level {l} has the eigenvalue {lowest:.3g}; "
                "allowed is a positive semidefinite matrix"
            )
    return state


def _symmetric(A: Array) -> Array:
    return (A + A.swapaxes(1, 2)) / 2
