"""The state of a deep linear network: singular modes, layer by layer."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.checks import a_kind
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array

ROUNDING = 1e-13  # a layer that stretches a vector by less, relative to its norm, sends it to zero


class Modes(eqx.Module):
    """Strengths sigma[mode, layer] along the singular vectors of the target.

    The product over layers is the diagonal entry of L_*ᵀ w̄ R_* for that mode.

    Args:
        sigma: (modes, layers), modes in the order of the target's singular values.

    Raises:
        ValueError: for an array without two axes.

    Example:
        >>> import learndyn as ld
        >>> ld.Modes([[0.1, 0.1], [0.2, 0.2]]).sigma.shape  # (modes, layers)
        (2, 2)
    """

    sigma: Array = eqx.field(converter=float64("sigma"))

    def __check_init__(self):
        if self.sigma.ndim != 2:
            raise ValueError(f"sigma: got shape {self.sigma.shape}; allowed is (modes, layers)")


def checked(state: Any, modes: int, layers: int) -> Modes:
    """The modes, or a ValueError that says what is wrong with them."""
    if not isinstance(state, Modes):
        raise ValueError(f"state: got {a_kind(state)}; allowed is a Modes")
    if state.sigma.shape != (modes, layers):
        shape, allowed = state.sigma.shape, (modes, layers)
        raise ValueError(f"state: got sigma of shape {shape}; allowed is {allowed}")
    if not np.all(np.isfinite(state.sigma)):
        raise ValueError("state: sigma has entries that are not finite; allowed are finite numbers")
    return state


def project(weights: tuple[Array, ...], left: Array, right: Array) -> Array:
    """Strengths (modes, layers) of these layers along the target's singular vectors.

    A right singular vector is sent through the layers and normalised after each. The strength of
    a layer is the factor by which it stretches the vector; that of the last layer is the
    component along the left singular vector, with its sign. If a layer sends the vector to zero,
    the strengths of the layers after it come from the left singular vector, sent backwards.

    Args:
        weights: the layers, the first one at the inputs.
        left: left singular vectors of the target as columns, (outputs, modes).
        right: right singular vectors as rows, (modes, inputs).

    Returns:
        The strengths.
    """
    u, v = jnp.asarray(left).T, jnp.asarray(right)
    sizes, v = _sent(weights[:-1], v)
    last = jnp.sum(u * (v @ weights[-1].T), axis=1)
    forward = jnp.stack([*sizes, last], axis=1)
    backward = jnp.stack(_sent([w.T for w in weights[::-1]], u)[0][::-1], axis=1)
    # Counts the layers before each that sent the vector to zero.
    before = jnp.cumsum(jnp.stack([0 * last, *(1.0 * (s == 0) for s in sizes)], axis=1), axis=1)
    return jnp.where(before > 0, backward, forward)


def off_diagonal(weights: tuple[np.ndarray, ...], state: Modes) -> float:
    """How far the weights are from aligned: the share of Σ ‖w‖² that the modes do not carry."""
    total = sum(float(np.sum(w**2)) for w in weights)
    return abs(total - float(np.sum(np.square(state.sigma)))) / max(total, 1e-300)


def _sent(weights: Sequence[Array], v: Array) -> tuple[list[Array], Array]:
    """Sends unit vectors (modes, n) through layers: the stretch by each, and the last vectors.

    A stretch that is zero up to rounding is set to zero, and so are all that follow.
    """
    sizes = []
    for w in weights:
        v = v @ w.T
        size = jnp.sqrt(jnp.sum(v**2, axis=1))
        size = jnp.where(size > ROUNDING * jnp.sqrt(jnp.sum(w**2)), size, 0.0)
        sizes.append(size)
        v = jnp.where(size[:, None] > 0, v / jnp.where(size > 0, size, 1.0)[:, None], 0.0)
    return sizes, v
