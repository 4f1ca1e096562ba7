"""States drawn from their exact distribution, and weights with a given state.

The Gram matrix of d = K + M independent normal vectors in N_l dimensions is A Aᵀ, with
A lower triangular, normal below the diagonal and chi-distributed with N_l − j degrees of
freedom on it (Bartlett). The rows of A are the coordinates of the vectors in a frame that the
vectors themselves define, so orthonormalising the rows gives the right distribution too.
Drawing a state has a cost independent of N.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractInitialisation, Committee, Normal, Orthonormal, Typical
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.numerics.semidefinite import gram_factor
from learndyn.problems import Spectrum
from learndyn.runtime.types import Array
from learndyn.theory.committee.state import Overlaps, from_gram

LAWS = Normal, Orthonormal, Typical  # initialisations whose overlaps need no weights


def draw(
    spectrum: Spectrum,
    student: AbstractInitialisation,
    teacher: AbstractInitialisation,
    units: int,
    teacher_units: int,
    key: int,
) -> Overlaps:
    """Overlaps from the distribution of the two initialisations, at a cost independent of N.

    Args:
        spectrum: levels of the input covariance.
        student: distribution of the student's rows, one of `LAWS`.
        teacher: distribution of the teacher's rows, one of `LAWS`.
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
    """Gram matrices of rows (d, N) in every level, divided by N, (levels, d, d)."""
    return grams(spectrum.counts, rows)


def grams(counts: np.ndarray, rows: Array) -> Array:
    """As `project`, for levels of these dimensions."""
    d, N = rows.shape
    # Levels of equal size need one batched product instead of one product per level.
    if np.all(counts == counts[0]):
        blocks = rows.reshape(d, len(counts), -1).swapaxes(0, 1)
        return blocks @ blocks.swapaxes(1, 2) / N
    xp = np if isinstance(rows, np.ndarray) else jnp
    edges = np.cumsum(counts)[:-1]
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
        ValueError: if a level has fewer dimensions than the rank of its overlaps.
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


def with_parts(state: Overlaps, student: Committee, teacher: Committee) -> Overlaps:
    """The state with exactly the outputs and biases that the networks' weights have.

    Args:
        state: the overlaps; outputs and biases that are None are those that the network states.
        student: the student.
        teacher: the teacher.

    Returns:
        The completed state.

    Raises:
        ValueError: for a part that is drawn but missing, or given but stated by the network.
    """
    parts = {}
    for prefix, network in (("", student), ("teacher_", teacher)):
        names = [f"{prefix}{part}" for part in ("outputs", "biases")]
        stated = network.stated_parts()
        for name, part, own in zip(names, ("outputs", "biases"), stated, strict=True):
            given = getattr(state, name)
            if not network.carries(part) and given is not None:
                reason = "but the network states them itself"
                raise ValueError(f"state: got {name}, {reason}; allowed here is None")
            if network.carries(part) and given is None and own is None:
                units = network.units
                raise ValueError(
                    f"state: got no {name}, which are drawn; allowed are {units} numbers"
                )
            parts[name] = own if given is None else given
    same = all(part is getattr(state, name) for name, part in parts.items())
    return state if same else dataclasses.replace(state, **parts)


def typical_rows(spectrum: Spectrum, units: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (units, N) of `Typical` in random directions, if the other network is not typical.

    Args:
        spectrum: levels of the input covariance.
        units: number of rows.
        rng: source of the directions.

    Returns:
        The rows, in the eigenbasis of the covariance.

    Raises:
        ValueError: if a level has fewer dimensions than there are rows.
    """
    least = int(np.min(spectrum.counts))
    if least < units:
        sizes = f"{units} units, but a level of {least} dimensions"
        raise ValueError(f"init: got Typical() with {sizes}; allowed are at most {least} units")
    frame = lambda count: orthonormal_rows(rng.standard_normal((units, count)))
    return np.concatenate([np.sqrt(n) * frame(n) for n in spectrum.counts], axis=1)


def _bartlett(counts: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Lower triangular coordinates (levels, d, d) of d normal vectors in every level."""
    column = np.arange(d)
    # A level with fewer dimensions than vectors has no degrees left: those columns are zero.
    degrees = np.maximum(counts[:, None] - column, 0)
    A = np.tril(rng.standard_normal((len(counts), d, d)), -1) * (degrees > 0)[:, None, :]
    chi = np.sqrt(rng.chisquare(np.maximum(degrees, 1))) * (degrees > 0)
    A[:, column, column] = chi
    return A


def _initialised(
    rows: np.ndarray, init: AbstractInitialisation, spectrum: Spectrum, axis: int
) -> np.ndarray:
    """Turns standard normal coordinates (levels, n, d) into those of the initialisation."""
    levels, n, d = rows.shape
    if isinstance(init, Normal):
        return init.std * rows
    if isinstance(init, Orthonormal):
        # Rows are orthonormal over all levels together, so the levels are joined first.
        flat = orthonormal_rows(rows.swapaxes(0, 1).reshape(n, levels * d))
        return init.norm * np.sqrt(spectrum.dim) * flat.reshape(n, levels, d).swapaxes(0, 1)
    # Typical, on its own axes: orthogonal rows of squared length N_l in every level.
    return np.sqrt(spectrum.counts)[:, None, None] * np.eye(n, d, axis)
