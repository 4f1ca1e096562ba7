"""One linear layer: the error falls by a constant factor per step (Eqs. 101-104).

δW = −η E x xᵀ for SGD and −η ξ ξᵀ E x xᵀ for node perturbation multiply ⟨‖E‖²⟩ by
1 − 2η + K η², where K is exactly L_x + 2 and (L_x + 2)(L_y + 2), by fourth moments of normal
numbers. The paper has the values for large sizes, L_x and L_x L_y; the exact one is 22 % larger for
node perturbation at 100-10. In T_np of Eq. 104 it prints the inverse argument of the logarithm
(`errata.printed_eq104`). Equation numbers are those of hiratani2022perturbation.
"""

import numpy as np

from learndyn.runtime.checks import one_of
from learndyn.runtime.types import Array, Scalar

RULES = ("sgd", "node perturbation")


def noise(L_x: Scalar, L_y: Scalar, rule: str, *, exact: bool = True) -> Array:
    """K of the factor 1 − 2η + K η² (Eq. 102).

    Args:
        L_x: number of inputs.
        L_y: number of outputs.
        rule: "sgd" or "node perturbation".
        exact: whether K is exact for this size, or for large sizes as in the paper.

    Returns:
        K.

    Examples:
        >>> float(noise(100, 10, "node perturbation"))
        1224.0
        >>> float(noise(100, 10, "node perturbation", exact=False))
        1000.0
    """
    one_of("rule", rule, RULES)
    plus = 2.0 if exact else 0.0
    return np.asarray((L_x + plus) * (1.0 if rule == "sgd" else L_y + plus))


def error_factor(eta: Scalar, K: Scalar) -> Array:
    """The factor of the mean error per step, 1 − 2η + K η² (Eq. 102)."""
    return np.asarray(1 - 2 * eta + K * eta**2)


def training_time(eta: Scalar, K: Scalar, target: Scalar) -> Array:
    """Steps until the error is `target` times the initial one (Eq. 103); infinite for η ≥ 2/K."""
    factor = error_factor(eta, K)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(factor < 1, np.log(target) / np.log(factor), np.inf)


def optimal_learning_rate(K: Scalar) -> Array:
    """1/K: 1/L_x and 1/(L_x L_y) for large sizes (before Eq. 104)."""
    return np.asarray(1 / K)


def critical_learning_rate(K: Scalar) -> Array:
    """2/K, at and above which the error does not fall: 2/L_x and 2/(L_x L_y) (after Eq. 104)."""
    return np.asarray(2 / K)


def minimal_time(K: Scalar, target: Scalar) -> Array:
    """Steps at the optimal rate, log(target)/log(1 − 1/K), about K log(1/target) (Eq. 104).

    Examples:
        >>> round(float(minimal_time(noise(100, 10, "node perturbation"), 1e-4)), 2)
        11268.85
    """
    return np.asarray(np.log(target) / np.log1p(-1 / K))
