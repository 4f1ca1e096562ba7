"""Inputs in coordinates of their span: exact for what a first layer learns from them.

Gradients of a fully connected first layer lie in the span of the training inputs. A network on
coordinates in an orthonormal basis of this span has the same outputs, kernels and descent, with
fewer weights; normal weights of it are those of the wide one, projected.
"""

import numpy as np


def basis_of(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of inputs (n, d), as columns (d, n): n must not exceed d."""
    return np.linalg.qr(np.asarray(x, float).T)[0]


def coordinates(x: np.ndarray) -> np.ndarray:
    """Inputs (n, d) in coordinates of their span, (n, n); unchanged if n exceeds d.

    They are scaled so that a first layer in the NTK parameterisation, which divides by the root of
    the number of its inputs, gives what it gave.
    """
    n, d = x.shape
    return x if n >= d else np.asarray(x, float) @ basis_of(x) * np.sqrt(n / d)
