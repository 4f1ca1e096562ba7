"""Gram matrices sampled from their exact distribution, and weights that have a Gram matrix.

U = (W_2ᵀ, W_1) has L_h rows. For normal entries it is Q R with a random frame Q and R upper
triangular, normal above the diagonal and chi-distributed with L_h − j degrees of freedom on it
(Bartlett): the distribution of G = RᵀR at a cost independent of L_h.
"""

from typing import NamedTuple

import numpy as np

from learndyn.numerics.semidefinite import gram_factor
from learndyn.runtime.types import Array, Number
from learndyn.theory.perturbation.state import Gram


class Sizes(NamedTuple):
    """Widths of the three layers."""

    inputs: int
    hidden: int
    outputs: int


def draw(sizes: Sizes, scale: Number, A: np.ndarray, rng: np.random.Generator) -> Gram:
    """The Gram matrix of Xavier-Glorot weights (Eq. 69).

    Args:
        sizes: widths.
        scale: common factor of both layers.
        A: the teacher's matrix.
        rng: source of random numbers.

    Returns:
        The state.
    """
    L_x, L_h, L_y = sizes
    stds = np.sqrt(2 / (L_h + np.repeat([L_y, L_x], [L_y, L_x])))
    return from_rows(scale * stds * _bartlett(L_h, L_y + L_x, rng), A)


def from_rows(R: Array, A: Array) -> Gram:
    """The Gram matrix of rows (…, L_y + L_x), outputs first."""
    L_y = len(A)
    R_2, R_1 = R[:, :L_y], R[:, L_y:]
    return Gram(M=R_2.T @ R_2, N=R_1.T @ R_1, P=R_2.T @ R_1, A=A)


def rows_of(state: Gram, hidden: int) -> np.ndarray:
    """Rows R with RᵀR = G; their number is the rank of G.

    Args:
        state: the Gram matrix.
        hidden: L_h.

    Returns:
        R, (rank, L_y + L_x).

    Raises:
        ValueError: if the rank exceeds the hidden width.
    """
    F = gram_factor(np.asarray(state.matrix))
    if F.shape[1] > hidden:
        raise ValueError(
            f"state: (M, P; Pᵀ, N) has rank {F.shape[1]}; allowed is at most the width {hidden}"
        )
    return F.T


def weights_of(state: Gram, hidden: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """W_1 and W_2 with this Gram matrix, in uniformly random hidden directions."""
    R = rows_of(state, hidden)
    frame, _ = np.linalg.qr(np.random.default_rng(key).standard_normal((hidden, len(R))))
    U, L_y = frame @ R, len(state.P)
    return U[:, L_y:], U[:, :L_y].T


def _bartlett(hidden: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Upper triangular R, (min(hidden, columns), columns), of normal columns of length hidden."""
    rank = min(hidden, columns)
    R = np.triu(rng.standard_normal((rank, columns)), 1)
    R[np.arange(rank), np.arange(rank)] = np.sqrt(rng.chisquare(hidden - np.arange(rank)))
    return R
