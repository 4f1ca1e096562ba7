"""Real inputs in the eigenbasis of their covariance."""

from typing import NamedTuple

import numpy as np


class Principal(NamedTuple):
    """Centred inputs in the eigenbasis of their covariance.

    Attributes:
        values: eigenvalues, descending, scaled to mean 1 as in the spectra of the theory.
        coordinates: (examples, N), scaled so that their second moments are `values`.
    """

    values: np.ndarray
    coordinates: np.ndarray


def principal(x: np.ndarray) -> Principal:
    """Inputs (examples, N) in the eigenbasis of their covariance, which is scaled to trace N.

    Directions in which the examples do not differ have the eigenvalue zero.
    """
    centred = np.asarray(x, dtype=np.float64) - np.mean(x, axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    # eigh sorts ascending; rounding can make zero eigenvalues slightly negative.
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    scale = values.mean()
    return Principal(values / scale, centred @ vectors / np.sqrt(scale))
