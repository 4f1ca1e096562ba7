"""One table of what the probes say of a network."""

import dataclasses
import math
from typing import Any

import numpy as np
from rich import print as printed
from rich.table import Table

from learndyn.networks import as_model
from learndyn.numerics.checks import positive, positive_int
from learndyn.numerics.types import Number
from learndyn.probes.critical import critical_learning_rate
from learndyn.probes.curvature import hessian_top
from learndyn.probes.examples import Given, checked_inputs, checked_targets
from learndyn.probes.features import agop, effective_rank
from learndyn.probes.kernel import ntk_spectrum, split_loss
from learndyn.problems import AbstractLoss, SquaredLoss
from learndyn.problems.losses import loss_given

MEANINGS = {
    "rate_kernel": (
        "η_crit from the kernel",
        "Above it the linearised network diverges; up to about twice it a wide network catapults: "
        "the loss rises, then falls as the kernel shrinks.",
        "zhu2024quadratic, ch. 3",
    ),
    "rate_exact": (
        "η_crit from the Hessian",
        "Above it gradient descent leaves this point along the sharpest direction.",
        "zhu2024quadratic, ch. 3",
    ),
    "sharpness": (
        "sharpness λ_max(H)",
        "Gradient descent raises it until it is about 2/η, and then hovers there.",
        "cohen2021stability",
    ),
    "kernel": (
        "kernel λ_min, λ_max",
        "λ_min > 0 is the PL* condition: descent reaches zero loss nearby; their ratio is the "
        "spread of the speeds at which parts of the residual are learned.",
        "zhu2024linearity, ch. 2",
    ),
    "top_share": (
        "loss in the top eigenspaces",
        "Spikes of the loss live there; what is outside falls on.",
        "zhu2024catapults, ch. 4",
    ),
    "agop_rank": (
        "effective rank of the AGOP",
        "tr²/tr of the square: how many directions of the inputs the outputs depend on; it falls "
        "as features are learned.",
        "zhu2024catapults, Eq. 4.5",
    ),
}


@dataclasses.dataclass(frozen=True)
class Summary:
    """What `summary` prints.

    Attributes:
        learning_rate: η, or None.
        rate_kernel: η_crit from the tangent kernel.
        rate_exact: η_crit from the Hessian.
        sharpness: the Hessian's largest eigenvalue.
        kernel: the smallest and the largest eigenvalue of the tangent kernel.
        top_share: the share of a squared loss in the top eigenspaces, or None for other losses.
        spaces: how many of these.
        agop_rank: tr[G]²/tr[G²] of the average gradient outer product.
    """

    learning_rate: float | None
    rate_kernel: float
    rate_exact: float
    sharpness: float
    kernel: tuple[float, float]
    top_share: float | None
    spaces: int
    agop_rank: float

    def table(self) -> Table:
        """As a table, a row for each."""
        table = Table(show_lines=True)
        for column in ("what", "value", "what it means"):
            table.add_column(column)
        for field, (name, meaning, reference) in MEANINGS.items():
            table.add_row(name, self._shown(field), f"{meaning} ({reference})")
        return table

    def _shown(self, field: str) -> str:
        value, eta = getattr(self, field), self.learning_rate
        if field == "kernel":
            return f"{value[0]:.3g}, {value[1]:.3g}"
        if field == "top_share":
            return (
                "not split: no squared loss" if value is None else f"{value:.1%} in {self.spaces}"
            )
        if field.startswith("rate") and eta is not None:
            return f"{value:.3g}; η = {eta:.3g} is {eta / value:.3g} of it"
        return f"{value:.3g}"


def summary(
    model: Any,
    x: Given,
    y: Given,
    *,
    loss: AbstractLoss | None = None,
    learning_rate: Number | None = None,
    s: int = 5,
) -> Summary:
    """Prints where a network stands: rates, sharpness, kernel, loss by eigenspaces, features.

    The kernel of all examples is held: give as many as fit.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        learning_rate: η, to be held against the critical one; None for none.
        s: eigenspaces of the kernel that count as top.

    Returns:
        The numbers.
    """
    eta = None if learning_rate is None else float(positive("learning_rate", learning_rate))
    model, x, given = as_model(model), checked_inputs("x", x), loss_given(loss, None)
    y = checked_targets(y, len(x))
    spectrum = ntk_spectrum(model, x)
    spaces = min(positive_int("s", s), len(spectrum))
    found = Summary(
        learning_rate=eta,
        rate_kernel=float(critical_learning_rate(model, x, y, loss=given)),
        rate_exact=float(critical_learning_rate(model, x, y, loss=given, exact=True)),
        sharpness=float(hessian_top(model, x, y, loss=given).values[0]),
        kernel=(float(spectrum[-1]), float(spectrum[0])),
        top_share=_share(model, x, y, given, spaces),
        spaces=spaces,
        agop_rank=_rank(np.asarray(agop(model, x, factor=True))),
    )
    printed(found.table())
    return found


def _share(model: Any, x: Given, y: Given, loss: AbstractLoss, s: int) -> float | None:
    if not isinstance(loss, SquaredLoss):
        return None
    top, rest = map(float, split_loss(model, x, y, loss=loss, s=s))
    return top / (top + rest) if top + rest else math.nan


def _rank(factor: np.ndarray) -> float:
    """From the smaller of the two matrices with the AGOP's eigenvalues."""
    few = len(factor) < factor.shape[1]
    return float(effective_rank(factor @ factor.T if few else factor.T @ factor))
