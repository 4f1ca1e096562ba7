"""A table of the main probes of a network."""

import dataclasses
import math
import time
from typing import Any

import numpy as np
from rich import print as printed
from rich.console import Console
from rich.table import Table

from learndyn.models.inputs import Inputs, apart
from learndyn.numerics.vectors import as_numpy
from learndyn.probes.arguments import ArrayLike, LossLike, labelled, output_shape
from learndyn.probes.batches import inputs_of_each, is_batches, repeatable
from learndyn.probes.critical import critical_learning_rate
from learndyn.probes.curvature import hessian_top
from learndyn.probes.features import agop, effective_rank
from learndyn.probes.hessian import most_products, prepared, product_of, start_of
from learndyn.probes.kernel import ntk_spectrum, split_loss
from learndyn.problems import SquaredLoss
from learndyn.runtime.checks import positive, positive_int
from learndyn.runtime.memory import memory
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Number
from learndyn.tangent.kernel import SHARE, critical_rate

LONG = 10.0  # seconds from which a work is announced

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
        skipped: name of a field that was not computed, and is None → why.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> found = ld.summary(model, x, y)  # doctest: +ELLIPSIS
        ┏━...
        >>> round(float(found.sharpness), 6), found.skipped
        (8.0, {})
    """

    learning_rate: float | None
    rate_kernel: float
    rate_exact: float
    sharpness: float
    kernel: tuple[float, float] | None
    top_share: float | None
    spaces: int
    agop_rank: float | None
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)

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
        if field in self.skipped:
            return f"not computed: {self.skipped[field]}"
        if field == "kernel":
            return f"{value[0]:.3g}, {value[1]:.3g}"
        if field == "top_share":
            return f"{value:.1%} in {self.spaces}"
        if field.startswith("rate") and eta is not None:
            return f"{value:.3g}; η = {eta:.3g} is {eta / value:.3g} of it"
        return f"{value:.3g}"


def summary(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: LossLike = None,
    learning_rate: Number | None = None,
    s: int = 5,
) -> Summary:
    """Prints a table of a network: critical rates, sharpness, kernel, split of the loss, features.

    In a notebook the result is shown as a table instead, where it is the last value of a cell.

    What does not fit into memory, or has no meaning for the inputs or the loss, is left out, and
    the table says why. What takes more than ten seconds is announced. For outputs that depend on
    neither weights nor inputs the rates are infinite, and share and rank are NaN.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of examples: a DataLoader, another iterable of pairs (x, y),
            or a function that returns one; y is None then.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.
        learning_rate: η, to compare with the critical rates; None for no comparison.
        s: number of eigenspaces of the kernel that count as top.

    Returns:
        The numbers.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> found = ld.summary(model, x, y, learning_rate=0.1)  # doctest: +ELLIPSIS
        ┏━...
        >>> round(float(found.rate_exact), 6)
        0.25
    """
    eta = None if learning_rate is None else float(positive("learning_rate", learning_rate))
    source = repeatable(x) if y is None and is_batches(x) else None
    if source is None:
        model, x, y, loss = labelled(model, x, y, loss)
    model, batches, mean = prepared(model, x if source is None else source, y, loss)
    first = batches.first if source is not None else x
    k = math.prod(output_shape(model, first))
    skipped = _left_out(model, x, k, mean.loss, source)
    spaces = positive_int("s", s)
    _announce(model, batches, mean, k, skipped)
    given: dict[str, Any] = {"x": x, "y": y} if source is None else {"x": source}
    top = float(hessian_top(model, **given, loss=loss).values[0])
    numbers: dict[str, Any] = {"kernel": None, "top_share": None, "agop_rank": None}
    if "kernel" not in skipped:
        spectrum = ntk_spectrum(model, x)
        spaces = min(spaces, len(spectrum))
        numbers["kernel"] = float(spectrum[-1]), float(spectrum[0])
        if "top_share" not in skipped:
            numbers["top_share"] = _share(model, x, y, loss, spaces, float(spectrum[0]))
    elif source is None:  # by products, as for batches
        given = {"x": [(apart(x), y)]}
    if "agop_rank" not in skipped:
        rank = lambda factor: _rank(np.asarray(agop(model, source or x, factor=factor)), factor)
        numbers["agop_rank"] = rank(source is None)
    found = Summary(
        learning_rate=eta,
        rate_kernel=float(critical_learning_rate(model, **given, loss=loss)),
        rate_exact=float(critical_rate(top)),
        sharpness=top,
        spaces=spaces,
        skipped=skipped,
        **numbers,
    )
    if not Console().is_jupyter:  # a notebook shows the value of its last line
        printed(found.table())
    return found


def _left_out(model: Any, x: Any, k: int, loss: Any, source: Any) -> dict[str, str]:
    """Field → why it is not computed."""
    left_out = {}
    if source is not None:
        left_out["kernel"] = "the kernel is of all examples at once, not of batches"
    elif (len(x) * k) ** 2 * np.dtype(model.dtype).itemsize > memory() // SHARE:
        gib = (len(x) * k) ** 2 * np.dtype(model.dtype).itemsize / 2**30
        left_out["kernel"] = f"the kernel of {len(x) * k} rows would take {gib:.3g} GiB"
    if not isinstance(loss, SquaredLoss):
        left_out["top_share"] = "needs a squared loss"
    elif "kernel" in left_out:
        left_out["top_share"] = left_out["kernel"]
    first = next(inputs_of_each(source)) if source is not None else x
    if isinstance(first, Inputs) or not np.issubdtype(first.dtype, np.floating):
        left_out["agop_rank"] = "needs one array of floats as inputs"
    else:
        d, rows = first[0].size, len(x) * k if source is None else 0
        numbers = d * (rows or d)
        if numbers * np.dtype(model.dtype).itemsize > memory() // SHARE:
            left_out["agop_rank"] = f"the gradients by {d} inputs would not fit into memory"
    return left_out


def _announce(model: Any, x: Any, mean: Any, k: int, skipped: dict[str, str]) -> None:
    """Says what will be computed if that takes long, judged by the time of one Hessian product."""
    product, v = product_of(model, x, mean), start_of(model)
    as_numpy(product(v)[:1])  # compiles
    clock = time.perf_counter()
    as_numpy(product(v)[:1])
    took, most = time.perf_counter() - clock, most_products(model)
    works = [f"at most {most} Hessian products of {took:.2g} s"]
    if "kernel" not in skipped:
        works.append(f"a kernel of {len(x) * k} rows, by {k} backward passes")
    else:
        works.append(f"at most {most} Gauss-Newton products")
    if "agop_rank" not in skipped:
        works.append(f"gradients by the inputs, by {k} backward passes")
    if most * took > LONG:
        printed(f"This computes {'; '.join(works)}.")


def _share(model: Any, x: ArrayLike, y: ArrayLike, loss: Any, s: int, largest: float) -> float:
    if largest == 0:  # a kernel of zeros has no top eigenspaces
        return math.nan
    top, rest = map(float, split_loss(model, x, y, loss=loss, s=s))
    return top / (top + rest) if top + rest else math.nan


def _rank(matrix: np.ndarray, factor: bool) -> float:
    """The effective rank of a matrix FᵀF, or of that of its factor F.

    F Fᵀ and FᵀF have the same eigenvalues: the smaller one is formed.
    """
    if factor:
        matrix = matrix @ matrix.T if len(matrix) < matrix.shape[1] else matrix.T @ matrix
    return float(effective_rank(matrix)) if np.any(matrix) else math.nan
