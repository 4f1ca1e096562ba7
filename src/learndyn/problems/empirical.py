"""Real inputs in the eigenbasis of their own covariance."""

from typing import NamedTuple

import numpy as np


class Principal(NamedTuple):
    """Centred inputs in the eigenbasis of their covariance.

    Attributes:
        values: eigenvalues, descending, with mean 1 as the spectra of the theory have.
        coordinates: (examples, N), scaled alike: their second moments are `values`.
    """

    values: np.ndarray
    coordinates: np.ndarray


def principal(x: np.ndarray) -> Principal:
    """Turns inputs (examples, N) into the eigenbasis of their covariance, trace N.

    Directions in which the examples do not differ at all keep the eigenvalue zero.
    """
    centred = np.asarray(x, dtype=np.float64) - np.mean(x, axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    scale = values.mean()
    return Principal(values / scale, centred @ vectors / np.sqrt(scale))
