"""States drawn from their exact law, and weights that have a given state.

The Gram matrix of d = K + M independent normal vectors in N_l dimensions is A Aᵀ, with
A lower triangular, normal below the diagonal and chi-distributed with N_l − j degrees of
freedom on it (Bartlett). The rows of A are the vectors' coordinates in a frame that the
vectors themselves define, so that orthonormalising them there has the right law too.
Nothing here costs anything in N but `weights_of`.
"""

import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractInitialisation, Normal, Orthonormal, Typical
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.numerics.semidefinite import gram_factor
from learndyn.numerics.types import Array
from learndyn.problems import Spectrum
from learndyn.theory.committee.state import Overlaps, from_gram


def draw(
    spectrum: Spectrum,
    student: AbstractInitialisation,
    teacher: AbstractInitialisation,
    units: int,
    teacher_units: int,
    key: int,
) -> Overlaps:
    """Overlaps from the law of the two initialisations, at a cost that has no N in it.

    Args:
        spectrum: levels of the input covariance.
        student: law of the student's rows.
        teacher: law of the teacher's rows.
        units: K.
        teacher_units: M.
        key: seed.

    Returns:
        The overlaps.
    """
    M = teacher_units
    A = _bartlett(spectrum.counts, M + units, np.random.default_rng(key))
    B = _initialised(A[:, :M], teacher, spectrum, axis=0)
    J = _initialised(A[:, M:], student, spectrum, axis=M)
    rows = np.concatenate([J, B], axis=1)
    return from_gram(rows @ rows.swapaxes(1, 2) / spectrum.dim, units)


def project(spectrum: Spectrum, rows: Array) -> Array:
    """Gram matrices P_l-resolved, (levels, d, d), of rows (d, N), divided by N."""
    d, N = rows.shape
    if np.all(spectrum.counts == spectrum.counts[0]):
        blocks = rows.reshape(d, spectrum.levels, -1).swapaxes(0, 1)
        return blocks @ blocks.swapaxes(1, 2) / N
    xp = np if isinstance(rows, np.ndarray) else jnp
    edges = np.cumsum(spectrum.counts)[:-1]
    return xp.stack([block @ block.T / N for block in xp.split(rows, edges, axis=1)])


def weights_of(state: Overlaps, spectrum: Spectrum, key: int) -> np.ndarray:
    """Rows (K + M, N) whose overlaps are `state`, in uniformly random directions.

    Args:
        state: the overlaps.
        spectrum: levels of the input covariance.
        key: seed of the directions.

    Returns:
        The rows, student first, in float64.

    Raises:
        ValueError: where a level has fewer dimensions than the rank of its overlaps.
    """
    rng = np.random.default_rng(key)
    blocks = []
    for l, (C, count) in enumerate(zip(state.gram, spectrum.counts, strict=True)):
        F = gram_factor(np.asarray(C))
        if F.shape[1] > count:
            raise ValueError(
                f"state: the overlaps of level {l} have rank {F.shape[1]}; "
                f"allowed is at most its dimension {count}"
            )
        frame, _ = np.linalg.qr(rng.standard_normal((count, F.shape[1])))
        blocks.append(np.sqrt(spectrum.dim) * F @ frame.T)
    return np.concatenate(blocks, axis=1)


def _bartlett(counts: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Lower triangular coordinates (levels, d, d) of d normal vectors in every level."""
    column = np.arange(d)
    degrees = np.maximum(counts[:, None] - column, 0)  # of the chi on the diagonal
    A = np.tril(rng.standard_normal((len(counts), d, d)), -1) * (degrees > 0)[:, None, :]
    chi = np.sqrt(rng.chisquare(np.maximum(degrees, 1))) * (degrees > 0)
    A[:, column, column] = chi
    return A


def _initialised(
    rows: np.ndarray, init: AbstractInitialisation, spectrum: Spectrum, axis: int
) -> np.ndarray:
    """Turns standard normal coordinates (levels, n, d) into those of `init`."""
    levels, n, d = rows.shape
    if isinstance(init, Normal):
        return init.std * rows
    if isinstance(init, Orthonormal):
        flat = orthonormal_rows(rows.swapaxes(0, 1).reshape(n, levels * d))
        return init.norm * np.sqrt(spectrum.dim) * flat.reshape(n, levels, d).swapaxes(0, 1)
    if isinstance(init, Typical):
        # Axes of its own: orthogonal rows of squared length N_l in every level.
        return np.sqrt(spectrum.counts)[:, None, None] * np.eye(n, d, axis)
    raise ValueError(f"init: got {init!r}; allowed is Normal, Orthonormal or Typical")
