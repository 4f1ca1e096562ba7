"""The state of two linear layers: a Gram matrix, and the few traces that the equations follow."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.linalg import smallest_eigenvalue
from learndyn.runtime.checks import a_kind
from learndyn.runtime.precision import float64
from learndyn.runtime.types import Array


class Gram(eqx.Module):
    """The Gram matrix G = UᵀU of U = (W_2ᵀ, W_1) in y = W_2 W_1 x, and the teacher's matrix A.

    Args:
        M: W_2 W_2ᵀ, (L_y, L_y).
        N: W_1ᵀ W_1, (L_x, L_x).
        P: W_2 W_1, (L_y, L_x).
        A: the teacher's matrix, (L_y, L_x).

    Raises:
        ValueError: for matrices whose shapes do not fit each other.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> W_1, W_2, A = np.ones((4, 3)), np.ones((2, 4)), np.ones((2, 3))
        >>> gram = ld.Gram(M=W_2 @ W_2.T, N=W_1.T @ W_1, P=W_2 @ W_1, A=A)
        >>> gram.E.tolist()
        [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]
    """

    M: Array = eqx.field(converter=float64("M"))
    N: Array = eqx.field(converter=float64("N"))
    P: Array = eqx.field(converter=float64("P"))
    A: Array = eqx.field(converter=float64("A"))

    def __check_init__(self):
        if self.P.ndim != 2:
            raise ValueError(f"P: got shape {self.P.shape}; allowed is (outputs, inputs)")
        (L_y, L_x) = self.P.shape
        allowed = {"M": (L_y, L_y), "N": (L_x, L_x), "A": (L_y, L_x)}
        for name, shape in allowed.items():
            came = getattr(self, name).shape
            if came != shape:
                raise ValueError(
                    f"{name}: got shape {came}; allowed beside P {self.P.shape} is {shape}"
                )

    @property
    def E(self) -> Array:
        """The error of the map, P − A (Eq. 43)."""
        return self.P - self.A

    @property
    def matrix(self) -> Array:
        """G, (L_y + L_x, L_y + L_x), outputs first."""
        block = np.block if isinstance(self.P, np.ndarray) else jnp.block
        return block([[self.M, self.P], [self.P.T, self.N]])


def _optional(name: str) -> Callable[[Any], Any]:
    return lambda value: None if value is None else float64(name)(value)


class Traces(eqx.Module):
    """The order parameters of Eq. 44.

    Args:
        alpha: α = tr N / L_x, squared norm of the input weights.
        beta: β = tr M / L_y, squared norm of the output weights.
        epsilon: ε = tr EᵀE / (L_x L_y), the error.
        phi: φ = −tr PᵀE / (L_x L_y), the projection of the map on its error.
        alpha2: α₂ = tr N² / L_x (Eq. 61), used by order "finite" only; None means its mean for
            normal weights with this α.
        target: ‖A‖² / (L_x L_y), which gives ψ (Eq. 66); None means that of the teacher, or its
            mean if the teacher is random.

    Example:
        >>> import learndyn as ld
        >>> float(ld.Traces(alpha=1.0, beta=0.5, epsilon=0.2, phi=-0.1).epsilon)
        0.2
    """

    alpha: Array = eqx.field(converter=float64("alpha"))
    beta: Array = eqx.field(converter=float64("beta"))
    epsilon: Array = eqx.field(converter=float64("epsilon"))
    phi: Array = eqx.field(converter=float64("phi"))
    alpha2: Array | None = eqx.field(converter=_optional("alpha2"), default=None)
    target: Array | None = eqx.field(converter=_optional("target"), default=None)


def traces_of(state: Gram) -> Traces:
    """The order parameters of a Gram matrix (Eqs. 44, 61)."""
    xp = np if isinstance(state.P, np.ndarray) else jnp
    (L_y, L_x), E = state.P.shape, state.E
    n = L_x * L_y
    return Traces(
        alpha=xp.trace(state.N) / L_x,
        beta=xp.trace(state.M) / L_y,
        epsilon=xp.sum(E**2) / n,
        phi=-xp.sum(state.P * E) / n,
        alpha2=xp.sum(state.N**2) / L_x,
        target=xp.sum(state.A**2) / n,
    )


def checked(state: Any, inputs: int, outputs: int, teacher: np.ndarray | None) -> Gram | Traces:
    """The state, or a ValueError that says what is wrong with it.

    Args:
        state: what the user passed.
        inputs: L_x.
        outputs: L_y.
        teacher: the teacher's matrix, if the problem fixes it.

    Returns:
        The same state.

    Raises:
        ValueError: for a wrong type or shape, NaN, or a state that no weights can have.
    """
    if isinstance(state, Traces):
        return _checked_traces(state)
    if not isinstance(state, Gram):
        raise ValueError(f"state: got {a_kind(state)}; allowed is a Gram or Traces")
    if state.P.shape != (outputs, inputs):
        allowed = (outputs, inputs)
        raise ValueError(f"state: got P of shape {state.P.shape}; allowed is {allowed}")
    G = np.asarray(state.matrix)
    if not (np.all(np.isfinite(G)) and np.all(np.isfinite(state.A))):
        raise ValueError("state: got entries that are not finite; allowed are finite numbers")
    if not np.allclose(G, G.T, rtol=1e-9, atol=1e-12):
        raise ValueError("state: got M or N that is not symmetric; allowed are symmetric ones")
    lowest = smallest_eigenvalue(G)
    if lowest < -1e-9 * max(np.trace(G), 1e-300):
        raise ValueError(
            f"state: (M, P; Pᵀ, N) has the eigenvalue {lowest:.3g}; "
            "allowed is a positive semidefinite matrix"
        )
    if teacher is not None and not np.allclose(state.A, teacher, rtol=1e-6, atol=1e-9):
        raise ValueError("state: got another A than the teacher's; allowed is the teacher's matrix")
    return state


def _checked_traces(state: Traces) -> Traces:
    for name in ("alpha", "beta", "epsilon", "phi", "alpha2", "target"):
        value = getattr(state, name)
        if value is None:
            continue
        if np.ndim(value) or not np.isfinite(value) or (name != "phi" and value < 0):
            allowed = "a number" if name == "phi" else "a non-negative number"
            raise ValueError(f"state: got {name} = {value}; allowed is {allowed}")
    return state
