"""The learning rate above which gradient descent does not converge."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from learndyn.models import as_model
from learndyn.numerics import dense
from learndyn.numerics.lanczos import Product, eigen, largest_eigenvalue
from learndyn.numerics.vectors import as_numpy
from learndyn.probes.arguments import (
    ArrayLike,
    LossLike,
    checked_inputs,
    is_traced,
    known,
    labelled,
    loss_for,
    mean_of,
    output_shape,
    part_of,
)
from learndyn.probes.batches import Batches, is_batches, progressing
from learndyn.probes.curvature import hessian_top
from learndyn.probes.hessian import convention_of, most_products, prepared, product_of, start_of
from learndyn.probes.kernel import ntk
from learndyn.probes.optimisers import Response, response_of
from learndyn.problems import AbstractLoss, CrossEntropy, SquaredLoss
from learndyn.runtime.checks import finite, flag, non_negative, number, seed
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.progress import check_progress
from learndyn.runtime.types import Array, Number
from learndyn.tangent.kernel import as_matrix, critical_rate

GRADIENT_DESCENT = Response(np.ones(1), np.zeros(1), 1.0, "gradient descent")


@dataclasses.dataclass(frozen=True)
class CriticalLearningRate:
    """2/λ_max(H), or the same for another optimiser, with the convention of loss and Hessian.

    Attributes:
        value: the learning rate; with an optimiser whose weights have different rates, `factor`.
        convention: the loss and the meaning of H, in words.
        factor: with an optimiser, by how much all its rates may grow (below 1: they must fall).
        batches: with `batch`, the value for every batch.
        residual: of Lanczos iteration, |H v − λ v|/|λ|: an eigenvalue is within this relative
            distance of λ; None where it was not used.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> found = ld.critical_learning_rate(model, x, y)
        >>> round(float(found), 6)
        0.25
        >>> found.convention  # doctest: +ELLIPSIS
        '2/λ_max(H) for SquaredLoss(scale=0.5) averaged over 2 examples; H the Gauss-Newton part...'
    """

    value: Any
    convention: str
    factor: float | None = None
    batches: np.ndarray | None = None
    residual: float | None = None

    @property
    def median(self) -> float:
        """The median over batches."""
        return float(np.median(self._batches))

    def share_above(self, learning_rate: Number) -> float:
        """The share of batches whose critical rate a learning rate exceeds."""
        return float(np.mean(float(number("learning_rate", learning_rate)) > self._batches))

    @property
    def _batches(self) -> np.ndarray:
        if self.batches is None:
            raise ValueError("batches: got none; allowed is a result of batch=…")
        return self.batches

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype)

    def __jax_array__(self) -> Any:
        return jnp.asarray(self.value)


def critical_learning_rate(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: LossLike = None,
    exact: bool = False,
    optimiser: Any = None,
    batch: int | None = None,
    tolerance: Number = 1e-3,
    key: int = 0,
    progress: Any = False,
) -> CriticalLearningRate:
    """The learning rate 2/λ_max(H) above which full-batch gradient descent leaves a minimum.

    By default H is the Gauss-Newton matrix (1/n) Jᵀ A J with A = ∂²loss/∂output², which has the
    nonzero eigenvalues of A^½ K A^½/n with the tangent kernel K: the rate is n/(scale · λ_max(K))
    for `SquaredLoss(scale)`. For a network that is linear in its weights this is the whole Hessian.
    With `exact=True`, H is the Hessian of the mean loss, by Lanczos iteration on its device.

    With an optimiser, the rate is that at which its own step becomes unstable on the quadratic loss
    with this H, at the preconditioner of its state: 2(1 + β)/λ_max with momentum, 2(1 + β)/((1 +
    2β) λ_max) with Nesterov's, (2 + 2β₁)/((1 − β₁) λ_max(P^(-½) H P^(-½))) for Adam with P = √v̂ + ε
    (`optimisers/response.py`). Gradient clipping does not count.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of examples: a DataLoader, another iterable of pairs (x, y),
            or a function that returns one; y is None then.
        y: targets or labels; needed for `exact=True`, and for your own loss.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.
        exact: whether to use the Hessian rather than the kernel.
        optimiser: None for gradient descent; `(optax transformation, its state)`, or a
            `torch.optim.Optimizer` (SGD, Adam, AdamW, RMSprop, Adagrad), as it is.
        batch: also compute the rate of random batches of this size, which together have all
            examples once; a smaller last batch is left out.
        tolerance: relative tolerance of the eigenvalue for `exact=True` and with an optimiser; 0 is
            machine precision.
        key: seed of the batches.
        progress: whether to show progress of Lanczos iteration, or a function of the fraction done.

    Returns:
        The rate, infinite if λ_max ≤ 0; `float()` converts it.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> ld.probes.critical_learning_rate(model, np.eye(4)).value  # 2 n/λ_max(K), K = I/4
        32.0
    """
    flag("exact", exact)
    check_progress(progress)
    tolerance = float(non_negative("tolerance", tolerance))
    if y is None and is_batches(x):
        if batch is not None:
            raise ValueError(f"batch: got {batch} beside batches; allowed is None")
        return _of_batches(model, x, loss, exact, optimiser, tolerance, progress)
    if y is None:
        model, x = as_model(model), checked_inputs("x", x)
        loss = loss_for(model, loss)
        output_shape(model, x)
    else:
        model, x, y, loss = labelled(model, x, y, loss)
    if exact and y is None:
        raise ValueError("y: got None; allowed are targets, on which the exact Hessian depends")
    if y is None and not isinstance(loss, SquaredLoss | CrossEntropy):
        raise ValueError("y: got None; allowed are targets, on which the loss's curvature depends")
    if optimiser is not None and is_traced(model, x, y):
        raise ValueError("optimiser: got one while tracing; allowed is None inside `simulate`")
    response = None if optimiser is None else response_of(model, optimiser)
    of = lambda x, y: _critical(model, x, y, loss, exact, response, tolerance, progress)
    whole = of(x, y)
    if batch is None:
        return whole
    pairs = _batches(x, y, part_of("batch", batch, len(x), "examples"), seed("key", key))
    return dataclasses.replace(whole, batches=np.array([float(of(*pair)) for pair in pairs]))


def _critical(
    model: Any,
    x: Any,
    y: Array | None,
    loss: Any,
    exact: bool,
    response: Response | None,
    tolerance: float,
    progress: Any,
) -> CriticalLearningRate:
    over = f"for {loss} averaged over {len(x)} examples"
    gauss_newton = "H the Gauss-Newton part, from the tangent kernel"
    if response is not None:
        product, how = _product(model, x, y, loss, exact)
        with progressing(product, x, progress, "Lanczos", most_products(model)) as product:
            top, residual = _top(product, response, model, tolerance)
        return _of_response(response, top, residual, over, how)
    if exact:
        assert y is not None
        top, residual, convention = _exact(model, x, y, loss, tolerance, progress)
        text, relative = f"2/λ_max(H) {over}; {convention}", _relative(residual, top)
        return CriticalLearningRate(_rate(top), text, residual=relative)
    top = largest_eigenvalue(_gauss_newton(model, x, y, loss))
    return CriticalLearningRate(_rate(top), f"2/λ_max(H) {over}; {gauss_newton}")


def _of_batches(
    model: Any, x: Any, loss: Any, exact: bool, optimiser: Any, tolerance: float, progress: Any
) -> CriticalLearningRate:
    """The same from batches, always by Lanczos iteration."""
    model, x, mean = prepared(model, x, None, loss)
    response = None if optimiser is None else response_of(model, optimiser)
    product, how = _curvature(model, x, mean, exact)
    over = f"for {mean.loss} averaged over {len(x)} examples"
    with progressing(product, x, progress, "Lanczos", most_products(model)) as product:
        top, residual = _top(product, response, model, tolerance)
    if response is not None:
        return _of_response(response, top, residual, over, how)
    return CriticalLearningRate(
        _rate(top), f"2/λ_max(H) {over}; {how}", residual=_relative(residual, top)
    )


def _of_response(
    response: Response, top: float, residual: float, over: str, how: str
) -> CriticalLearningRate:
    value, same = float(critical_rate(top)), np.isfinite(response.rate)
    unit = "learning rate" if same else "factor of all learning rates"
    text = f"{unit} at which {response.name} becomes unstable {over}; {how}; without clipping"
    factor = value / response.rate if same and response.rate else np.inf if same else value
    return CriticalLearningRate(value, text, factor, residual=_relative(residual, top))


def _batches(x: Any, y: Array | None, size: int, key: int) -> Iterator[tuple[Array, Array | None]]:
    order = np.random.default_rng(key).permutation(len(x))
    for first in range(0, len(x) - size + 1, size):
        rows = order[first : first + size]
        yield x[rows], None if y is None else y[rows]


def _product(model: Any, x: Any, y: Array | None, loss: Any, exact: bool) -> tuple[Product, str]:
    """v ↦ H v, and which H it is in words."""
    if y is None:  # the curvature is the same for all targets
        y, loss = _any_targets(model, x, loss)
    return _curvature(*prepared(model, x, y, loss), exact)


def _curvature(model: Any, x: Any, mean: Any, exact: bool) -> tuple[Product, str]:
    """v ↦ H v of what `prepared` returns, and which H it is in words."""
    if exact:
        return product_of(model, x, mean), convention_of(model, x, mean)

    def product(v: Any, x: Any, mean: Any, outputs: Any) -> Any:
        u = as_numpy(model.jvp(x, v)).reshape(outputs.shape)
        bent = mean.curvature(outputs, u).reshape(len(outputs), -1)
        return model.vjp(x, model.on_device(bent))

    if isinstance(x, Batches):
        part = lambda v: lambda x, mean: product(v, x, mean, model.outputs(x))
        return lambda v: x.mean(part(v)), "H the Gauss-Newton part"
    outputs = model.outputs(x)
    return lambda v: product(v, x, mean, outputs), "H the Gauss-Newton part"


def _top(
    product: Product, response: Response | None, model: Any, tolerance: float
) -> tuple[float, float]:
    """λ_max(S^½ H S^½ + G), or λ_max(H) of gradient descent, and the residual."""
    model = model.placed()
    if response is None:
        response = GRADIENT_DESCENT
    root = model.on_device(np.sqrt(np.maximum(response.scale, 0)))
    shift = model.on_device(np.broadcast_to(response.shift, root.shape))
    whole = lambda v: root * product(root * v) + shift * v
    found = eigen(whole, start_of(model), tolerance=tolerance)
    if np.isnan(found.values[0]):
        finite("weights", np.asarray(model.vector()))  # the usual cause
        raise ValueError("model: got products with H that are not finite; allowed are finite ones")
    return float(found.values[0]), float(found.residuals[0])


def _relative(residual: float | None, top: Any) -> float | None:
    return None if residual is None or not top else float(residual / abs(top))


def _rate(top: Any) -> Any:
    rate = critical_rate(top)
    return rate if is_traced(rate) else float(rate)


def _any_targets(model: Any, x: Any, loss: AbstractLoss) -> tuple[Array, AbstractLoss]:
    """Targets for a loss whose second derivative is the same for all of them."""
    shape = output_shape(model, x)
    if isinstance(loss, SquaredLoss):
        return np.zeros((len(x), *shape), model.dtype), loss
    return np.zeros((len(x), *shape[:-1]), np.int32), CrossEntropy()


def _gauss_newton(model: Any, x: ArrayLike, y: ArrayLike | None, loss: Any) -> Array:
    """A^½ K A^½ as a matrix, with the second derivative A of the mean loss by the outputs."""
    kernel = as_matrix(ntk(model, x))
    if isinstance(loss, SquaredLoss):
        scale = jnp.asarray(loss.scale) if is_traced(kernel) else loss.scale
        return (kernel * (2 * scale / len(x))).astype(kernel.dtype)
    y, loss = _any_targets(model, x, loss) if y is None else (y, loss)
    blocks = mean_of(loss, y).blocks(model.outputs(x))
    return weighted(kernel, curvature_roots(blocks))


@compiled_in_float64
def curvature_roots(blocks: Array) -> Array:
    """A^½ of every example, (n, k, k)."""
    # A is positive semidefinite for convex losses, up to rounding, which is cut off.
    values, vectors = dense.eigh(blocks)
    roots = jnp.sqrt(jnp.maximum(values, 0))
    return jnp.einsum("nij,nj,nkj->nik", vectors, roots, vectors)


def weighted(kernel: Array, roots: Array) -> Array:
    """A^½ K A^½ as a matrix."""
    n, k, _ = roots.shape
    rows = (roots @ kernel.reshape(n, k, n * k)).reshape(n * k, n, k)
    columns = rows.transpose(1, 2, 0)
    return as_matrix((roots @ columns).reshape(n * k, n * k))


def _exact(
    model: Any, x: ArrayLike, y: ArrayLike, loss: Any, tolerance: float, progress: Any
) -> tuple[Any, float | None, str]:
    if is_traced(model, x, y):  # Lanczos iteration stops by the values, which are not known here
        top = hessian_top(model, x, y, loss=loss)
        return top.values[0], None, top.convention
    model, x, mean = prepared(model, x, y, loss)
    product = product_of(model, x, mean)
    with progressing(product, x, progress, "Hessian", most_products(model)) as product:
        found = eigen(product, start_of(model), tolerance=tolerance)
    top = float(known(model, "Hessian", found.values)[0])
    return top, found.residuals[0], convention_of(model, x, mean)
