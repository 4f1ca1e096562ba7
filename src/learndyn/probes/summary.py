"""A table of the main probes of a network."""

import dataclasses
import math
from typing import Any

import numpy as np
from rich import print as printed
from rich.console import Console
from rich.table import Table

from learndyn.probes.arguments import ArrayLike, labelled
from learndyn.probes.critical import critical_learning_rate
from learndyn.probes.curvature import hessian_top
from learndyn.probes.features import agop, effective_rank
from learndyn.probes.kernel import ntk_spectrum, split_loss
from learndyn.problems import AbstractLoss, SquaredLoss
from learndyn.runtime.checks import positive, positive_int
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Number

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
        "Gradient descent raises it to about 2/η; it then stays near that value.",
        "cohen2021stability",
    ),
    "kernel": (
        "kernel λ_min, λ_max",
        "λ_min > 0 is the PL* condition: descent reaches zero loss nearby. Their ratio is that of "
        "the fastest and slowest rates at which parts of the residual are learned.",
        "zhu2024linearity, ch. 2",
    ),
    "top_share": (
        "loss in the top eigenspaces",
        "Spikes of the loss occur in this part; the other part keeps decreasing.",
        "zhu2024catapults, ch. 4",
    ),
    "agop_rank": (
        "effective rank of the AGOP",
        "tr[G]²/tr[G²]: how many directions of the inputs the outputs depend on; it decreases "
        "as features are learned.",
        "zhu2024catapults, Eq. 4.5",
    ),
}


@shown_as_table
@dataclasses.dataclass(frozen=True)
class Summary:
    """The numbers that `summary` prints.

    Attributes:
        learning_rate: η, or None.
        rate_kernel: η_crit from the tangent kernel.
        rate_exact: η_crit from the Hessian.
        sharpness: the Hessian's largest eigenvalue.
        kernel: the smallest and the largest eigenvalue of the tangent kernel.
        top_share: the share of a squared loss in the top eigenspaces, or None for other losses.
        spaces: the number of these eigenspaces.
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
        """The numbers as a table, one row each."""
        table = self._shown().text()
        table.show_lines = True
        return table

    def _shown(self) -> Shown:
        rows = [
            (name, self._value(field), f"{meaning} ({reference})")
            for field, (name, meaning, reference) in MEANINGS.items()
        ]
        return Shown("", rows, ("quantity", "value", "meaning"))

    def _value(self, field: str) -> str:
        value, eta = getattr(self, field), self.learning_rate
        if field == "kernel":
            return f"{value[0]:.3g}, {value[1]:.3g}"
        if field == "top_share":
            return "needs a squared loss" if value is None else f"{value:.1%} in {self.spaces}"
        if field.startswith("rate") and eta is not None:
            return f"{value:.3g}; η = {eta:.3g} is {eta / value:.3g} of it"
        return f"{value:.3g}"


def summary(
    model: Any,
    x: ArrayLike,
    y: ArrayLike,
    *,
    loss: AbstractLoss | None = None,
    learning_rate: Number | None = None,
    s: int = 5,
) -> Summary:
    """Prints a table of a network: critical rates, sharpness, kernel, split of the loss, features.

    In a notebook the result is shown as a table instead, where it is the last value of a cell.

    The kernel of all examples is stored: give as many as fit into memory. For outputs that depend
    on neither weights nor inputs the rates are infinite, and share and rank are NaN.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        learning_rate: η, to compare with the critical rates; None for no comparison.
        s: number of eigenspaces of the kernel that count as top.

    Returns:
        The numbers.
    """
    eta = None if learning_rate is None else float(positive("learning_rate", learning_rate))
    model, x, y, loss = labelled(model, x, y, loss)
    spectrum = ntk_spectrum(model, x)
    spaces = min(positive_int("s", s), len(spectrum))
    numbers = Summary(
        learning_rate=eta,
        rate_kernel=float(critical_learning_rate(model, x, y, loss=loss)),
        rate_exact=float(critical_learning_rate(model, x, y, loss=loss, exact=True)),
        sharpness=float(hessian_top(model, x, y, loss=loss).values[0]),
        kernel=(float(spectrum[-1]), float(spectrum[0])),
        top_share=_share(model, x, y, loss, spaces, float(spectrum[0])),
        spaces=spaces,
        agop_rank=_rank(np.asarray(agop(model, x, factor=True))),
    )
    if not Console().is_jupyter:  # a notebook shows the value of its last line
        printed(numbers.table())
    return numbers


def _share(
    model: Any, x: ArrayLike, y: ArrayLike, loss: AbstractLoss, s: int, largest: float
) -> float | None:
    if not isinstance(loss, SquaredLoss):
        return None
    if largest == 0:  # a kernel of zeros has no top eigenspaces
        return math.nan
    top, rest = map(float, split_loss(model, x, y, loss=loss, s=s))
    return top / (top + rest) if top + rest else math.nan


def _rank(factor: np.ndarray) -> float:
    """The effective rank, from the smaller of F Fᵀ and FᵀF, which have the same eigenvalues."""
    few = len(factor) < factor.shape[1]
    matrix = factor @ factor.T if few else factor.T @ factor
    return float(effective_rank(matrix)) if np.any(matrix) else math.nan
