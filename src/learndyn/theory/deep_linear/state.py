"""The state of a deep linear network: singular modes, layer by layer."""

from typing import Any

import equinox as eqx
import numpy as np

from learndyn.numerics.precision import as_float64
from learndyn.numerics.types import Array

ROUNDING = 1e-13  # of a layer's norm: what it stretches a vector by less counts as zero


class Modes(eqx.Module):
    """Strengths sigma[mode, layer] along the singular vectors of the target.

    The product over layers is the map's own entry, L_*ᵀ w̄ R_*, of that mode.

    Args:
        sigma: (modes, layers), modes in the order of the target's singular values.
    """

    sigma: Array = eqx.field(converter=as_float64)

    def __check_init__(self):
        if self.sigma.ndim != 2:
            raise ValueError(f"sigma: got shape {self.sigma.shape}; allowed is (modes, layers)")


def checked(state: Any, modes: int, layers: int) -> Modes:
    """The modes, or a ValueError that names what is wrong with them."""
    if not isinstance(state, Modes):
        raise ValueError(f"state: got a {type(state).__name__}; allowed is a Modes")
    if state.sigma.shape != (modes, layers):
        came, allowed = state.sigma.shape, (modes, layers)
        raise ValueError(f"state: got sigma of shape {came}; allowed is {allowed}")
    if not np.all(np.isfinite(state.sigma)):
        raise ValueError("state: sigma has entries that are not finite; allowed are numbers")
    return state


def project(weights: tuple[np.ndarray, ...], target: np.ndarray) -> np.ndarray:
    """Strengths (modes, layers) of given layers along the target's singular vectors.

    A right singular vector is sent through the layers and renormalised after each; what a
    layer stretches it by is its strength, and the last layer takes the component along the
    left singular vector, with its sign. Where a layer sends it to zero, the strengths
    behind come from the left singular vector, sent backwards.
    """
    left, _, right = np.linalg.svd(target, full_matrices=False)
    pairs = zip(left.T, right, strict=True)
    return np.array([_strengths(weights, u, v) for u, v in pairs])


def off_diagonal(weights: tuple[np.ndarray, ...], target: np.ndarray) -> float:
    """How far from aligned: what of WᵀW and the map the modes do not carry, relative."""
    sigma = project(weights, target)
    total = sum(float(np.sum(w**2)) for w in weights)
    return abs(total - float(np.sum(sigma**2))) / max(total, 1e-300)


def _strengths(weights: tuple[np.ndarray, ...], u: np.ndarray, v: np.ndarray) -> list[float]:
    forward: list[float] = []
    for w in weights[:-1]:
        v = w @ v
        size = float(np.linalg.norm(v))
        if size <= ROUNDING * np.linalg.norm(w):
            return _behind(weights, u, forward)
        forward.append(size)
        v = v / size
    return [*forward, float(u @ weights[-1] @ v)]


def _behind(weights: tuple[np.ndarray, ...], u: np.ndarray, forward: list[float]) -> list[float]:
    """Completes the strengths of a mode that layer number len(forward) sends to zero."""
    backward: list[float] = []
    for w in weights[: len(forward) : -1]:
        u = w.T @ u
        size = float(np.linalg.norm(u))
        size = size if size > ROUNDING * np.linalg.norm(w) else 0.0
        backward.append(size)
        u = u / size if size else 0 * u
    return [*forward, 0.0, *backward[::-1]]
