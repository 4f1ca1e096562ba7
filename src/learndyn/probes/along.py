"""The learning rate above which one given update raises the loss, from forward passes alone."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.probes.arguments import ArrayLike, LossLike, as_array
from learndyn.probes.batches import Batches
from learndyn.probes.hessian import prepared
from learndyn.runtime.checks import a_kind, finite, positive
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Number

PASSES = 10  # forward passes, the one at the weights included
FIRST = 1e-2  # length of the first step, relative to the weights
WIDER = 8.0  # by how much a search grows at most, or shrinks, while only one side is known
INSIDE = 0.05  # a guess keeps this share of the interval away from its ends


@dataclasses.dataclass(frozen=True)
class CriticalRateAlong:
    """The smallest learning rate at which an update raises the loss.

    Attributes:
        value: the rate; infinite if no tried rate raises the loss, 0 if all do.
        low: the largest rate tried at which the loss is not above that at the weights.
        high: the smallest one at which it is.
        passes: number of forward passes.
        convention: the loss in words.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> found = ld.probes.critical_rate_along(model, x, y, update=np.array([2.0, 16.0]))
        >>> found.low <= found.value <= found.high, found.passes <= 10
        (True, True)
    """

    value: float
    low: float
    high: float
    passes: int
    convention: str

    @property
    def sharpness(self) -> float:
        """2/value, the curvature of a quadratic loss along its gradient at that rate."""
        return 2 / self.value if self.value else math.inf

    def __float__(self) -> float:
        return self.value


def critical_rate_along(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: LossLike = None,
    update: Any,
    guess: Number | None = None,
) -> CriticalRateAlong:
    """The smallest η for which loss(w − η u) > loss(w), by at most ten passes over the examples.

    For a quadratic loss with Hessian H and u its gradient, η = 2 |u|²/(uᵀHu) ≥ 2/λ_max(H), with
    equality if u is along the top eigenvector. For an update of another optimiser it is
    2 uᵀg/(uᵀHu). It needs no derivatives and no memory beyond a forward pass, at any size. The
    model is checked on two examples before.

    Rates are searched by factors of up to 8 until both sides are known, then between them, guided
    by the parabola through the last three losses.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of examples: a DataLoader, another iterable of pairs (x, y),
            or a function that returns one; y is None then.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.
        update: u; a pytree like the weights, or name → tensor for PyTorch, in the direction of the
            gradient: weights are moved to w − η u.
        guess: where to begin, such as the last result; None is a hundredth of |w|/|u|.

    Returns:
        The rate with the interval in which it lies.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> x, y = 2 * np.eye(4), np.zeros(4)  # the loss is |w|²/8
        >>> rate = ld.probes.critical_rate_along(model, x, y, update=np.full((1, 4), 0.25))
        >>> bool(rate.low <= 8.0 <= rate.high)
        True
    """
    model, x, mean = prepared(model, x, y, loss)
    direction = _direction(model, update)
    size, weights = float(np.linalg.norm(direction)), finite("weights", np.asarray(model.vector()))
    if not size:
        raise ValueError("update: got zero; allowed is a direction in which the weights move")
    scale = float(np.linalg.norm(weights)) or 1.0
    begin = FIRST * scale / size if guess is None else float(positive("guess", guess))
    along = model.on_device(direction)

    def at(eta: float) -> float:
        with full_precision():
            moved = model.moved(-eta * along) if eta else model
            of = lambda x, mean: float(mean(jnp.asarray(moved.outputs(x))))
            return x.mean(of) if isinstance(x, Batches) else of(x, mean)

    low, high, passes = _bracket(at, begin)
    middle = high if high == math.inf else math.sqrt(low * high)
    over = f"{mean.loss} averaged over {len(x)} examples, along the given update"
    return CriticalRateAlong(middle, low, high, passes, over)


def _bracket(at: Callable[[float], float], eta: float) -> tuple[float, float, int]:
    """The largest rate tried that does not raise the loss, the smallest that does, the passes."""
    losses = {0.0: at(0.0)}
    if not math.isfinite(losses[0.0]):
        raise ValueError(f"model: got the loss {losses[0.0]}; allowed is a finite one")
    above = lambda eta: not losses[eta] <= losses[0.0]  # a loss that is not a number is above
    low, high = 0.0, math.inf
    for _ in range(PASSES - 1):
        losses[eta] = at(eta)
        low, high = (low, min(high, eta)) if above(eta) else (max(low, eta), high)
        eta = _next(losses, low, high)
    return low, high, len(losses)


def _next(losses: dict[float, float], low: float, high: float) -> float:
    """Where to look next: where the parabola through the last losses is back at the first."""
    root = _root(losses, low, high)
    if high == math.inf:
        return min(max(root, 2 * low), WIDER * low)
    if low == 0.0:
        return max(min(root, high / 2), high / WIDER)
    edge = INSIDE * (high - low)
    return min(max(root, low + edge), high - edge)


def _root(losses: dict[float, float], low: float, high: float) -> float:
    """The parabola is through (0, loss), and through the nearest rates with finite losses."""
    middle = (low + high) / 2 if high < math.inf else 2 * low
    near = [eta for eta in losses if eta and math.isfinite(losses[eta])]
    near.sort(key=lambda eta: abs(math.log(eta / (middle or eta))))
    if len(near) < 2:
        return middle
    # (loss − loss₀)/η is a line for a parabola; its root is what we look for.
    (a, fa), (b, fb) = ((eta, (losses[eta] - losses[0.0]) / eta) for eta in near[:2])
    slope = (fb - fa) / (b - a)
    root = a - fa / slope if slope > 0 else math.nan
    return root if math.isfinite(root) and root > 0 else middle


def _direction(model: Any, update: Any) -> np.ndarray:
    """The update as a vector in the order of the weights."""
    weights, of_torch = model.weights, hasattr(model, "parameters")
    if of_torch:
        if not isinstance(update, dict) or set(update) != set(weights):
            came = sorted(update) if isinstance(update, dict) else a_kind(update)
            raise ValueError(f"update: got {came}; allowed is name → tensor for {sorted(weights)}")
        update = [as_array(f"update[{name!r}]", update[name]) for name in weights]
        weights = list(weights.values())
    update = jax.tree.map(lambda leaf: as_array("update", leaf), update)
    shapes = lambda tree: [tuple(np.shape(leaf)) for leaf in jax.tree.leaves(tree)]
    same = of_torch or jax.tree.structure(update) == jax.tree.structure(weights)
    if not same or shapes(update) != shapes(weights):
        came = f"{a_kind(update)} of shapes {shapes(update)}"
        raise ValueError(f"update: got {came}; allowed are shapes {shapes(weights)} as the weights")
    with full_precision():
        vector = np.asarray(ravel_pytree(jax.tree.map(jnp.asarray, update))[0], model.dtype)
    return finite("update", vector)
