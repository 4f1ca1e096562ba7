"""How an optimiser responds to small gradients, and when it becomes unstable on a quadratic loss.

Near a minimum with the Hessian H, an optimiser with at most one momentum m per weight, whose
preconditioner is held fixed, is the linear map

    m' = p m + q g + r w,    w' = w + a m + b g + c w,    g = H w,

with one number p, q, r, a, b, c per weight; r and c are weight decay. If all learning rates are
multiplied by f, so are a q, a r, b and c. The map loses its stability where it has the
eigenvalue −1, that is, where f · λ_max(S^½ H S^½ + G) = 2 with

    S = −b + a q/(1 + p),    G = −c + a r/(1 + p).

Examples, for learning rate η: gradient descent S = η; heavy ball η/(1 + β), with dampening d
times 1 − d; Nesterov η (1 + 2β)/(1 + β); Adam η (1 − β₁)/(1 + β₁)/P with P = √v̂ + ε including the
bias corrections. Decay that is added to the gradient, γ w, has G = γ S; decoupled decay G = η γ.

No other eigenvalue z leaves the unit circle at a smaller f, even where weights have different p: it
has g = D w with a diagonal matrix D, and for complex z on the circle the imaginary parts of all
entries of D have the same sign, so that wᴴ H w = wᴴ D w would not be real.
"""

from typing import Any, NamedTuple

import numpy as np


class NoState(ValueError):
    """Nothing is known of an optimiser now, such as its preconditioner before the first step."""


class Response(NamedTuple):
    """S and G of the module's docstring, one number per weight, and what is known of the rates.

    Attributes:
        scale: S, at a learning rate of 1 if all weights have the same, else at their own.
        shift: G, likewise.
        rate: the learning rate in use; NaN if weights have different ones.
        name: the optimiser in words.
    """

    scale: np.ndarray
    shift: np.ndarray
    rate: float
    name: str


class Coefficients(NamedTuple):
    """a, b, c, a q, a r and p of the module's docstring, numbers or one number per weight."""

    b: Any
    c: Any
    aq: Any = 0.0
    ar: Any = 0.0
    p: Any = 0.0

    def scale_and_shift(self) -> tuple[Any, Any]:
        """S and G."""
        return -self.b + self.aq / (1 + self.p), -self.c + self.ar / (1 + self.p)


def common_rate(rates: np.ndarray) -> float:
    """The learning rate that all weights have, or NaN."""
    low, high = float(np.min(rates)), float(np.max(rates))
    # Rates of optax are learned from responses in single precision.
    return high if high - low <= 1e-4 * abs(high) else float("nan")


def response_of(model: Any, optimiser: Any) -> Response:
    """The response of the optimiser that trains a model.

    Args:
        model: a `Model` or `TorchModel`.
        optimiser: `(optax transformation, its state)` for the former, a `torch.optim.Optimizer`
            for the latter.

    Returns:
        Its response.

    Raises:
        ValueError: for another kind of optimiser, one that cannot be read, one without a state
            yet, or a state of another model.
    """
    if hasattr(optimiser, "param_groups"):
        from learndyn.probes.optimisers import pytorch

        return pytorch.response_of(model, optimiser)
    from learndyn.probes.optimisers import optax

    return optax.response_of(model, optimiser)
