"""Traces of products as products of traces, and how wrong that is (Eqs. 52, 57, 97-100).

The recursions replace tr[M E Eᵀ] by tr M tr E Eᵀ / L_y and tr[N EᵀE] by tr N tr EᵀE / L_x. For
random weights both have a relative error of order L_h^(−1/2). Along a trajectory E and N do not
stay independent, and the second product becomes too small: by up to 4 % at 100-10⁴-10.
"""

from typing import NamedTuple

import numpy as np

from learndyn.theory.perturbation.state import Gram


class Ratios(NamedTuple):
    """Products of traces divided by traces of products; 1 if the recursions are right."""

    outputs: float  # of tr[M E Eᵀ] (Eq. 52)
    inputs: float  # of tr[N EᵀE] (Eq. 57)


def ratios(state: Gram) -> Ratios:
    """How well the traces of a Gram matrix factorise."""
    M, N, E = (np.asarray(part) for part in (state.M, state.N, state.E))
    error = np.sum(E**2)
    outputs = np.trace(M) * error / len(M) / np.sum(M * (E @ E.T))
    inputs = np.trace(N) * error / len(N) / np.sum(N * (E.T @ E))
    return Ratios(float(outputs), float(inputs))


def relative_error(A: np.ndarray, L_h: int) -> Ratios:
    """The root mean square of 1 − 1/ratio for random weights, to leading order in L_h^(−1/2).

    √(2/L_h) ‖B − (tr B/d) I‖ / tr B, with B = A Aᵀ, d = L_y for the outputs and B = AᵀA, d = L_x
    for the inputs: from the variance of tr[M B] for a Wishart matrix M, with E ≈ −A.

    Args:
        A: the teacher's matrix, (L_y, L_x).
        L_h: hidden units.

    Returns:
        The errors at the outputs and at the inputs.
    """
    spread = lambda B: np.linalg.norm(B - np.trace(B) / len(B) * np.eye(len(B))) / np.trace(B)
    root = np.sqrt(2 / L_h)
    return Ratios(float(root * spread(A @ A.T)), float(root * spread(A.T @ A)))
