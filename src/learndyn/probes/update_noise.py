"""The noise of updates of SGD and of node perturbation, and its effect on the loss."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from learndyn.probes.arguments import LabelledModel
from learndyn.problems import AbstractLoss
from learndyn.runtime.checks import positive, positive_int
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Number


class UpdateCovariance(NamedTuple):
    """Covariances of −δw/η for one drawn example, (weights, weights).

    Rows are in the order of `jax.flatten_util.ravel_pytree(weights)`.

    Attributes:
        sgd: Eq. 30.
        perturbation: Eq. 36a, one draw of the noise in the limit sigma → 0.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> covariance = ld.probes.update_covariance(model, x, y)
        >>> covariance.sgd.tolist()  # of the gradients (4, 0) and (0, 32)
        [[4.0, -32.0], [-32.0, 256.0]]
    """

    sgd: Array
    perturbation: Array

    def of_batch(self, batch: int, perturbations: int = 1) -> "UpdateCovariance":
        """Covariances of a mean over several examples.

        Args:
            batch: number of examples, drawn with replacement.
            perturbations: number of noise draws for each of them.

        Returns:
            The covariances.

        Raises:
            ValueError: for numbers that are not positive integers.
        """
        batch = positive_int("batch", batch)
        perturbations = positive_int("perturbations", perturbations)
        extra = (self.perturbation - self.sgd) / (batch * perturbations)
        return UpdateCovariance(self.sgd / batch, self.sgd / batch + extra)


class LossChange(NamedTuple):
    """The mean change of the loss in one step, to second order in the learning rate.

    Attributes:
        sgd: under SGD.
        perturbation: under node perturbation.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> change = ld.probes.loss_change(model, x, y, learning_rate=0.01)
        >>> bool(change.sgd < change.perturbation < 0)
        True
    """

    sgd: Array
    perturbation: Array


def update_covariance(
    model: Any, x: Array, y: Array, *, loss: AbstractLoss | None = None
) -> UpdateCovariance:
    """The covariance of updates over drawn examples and noise, exact in the limit sigma → 0.

    With g = ∂loss/∂nodes, J = ∂nodes/∂w (at fixed inputs of each node) and ∇ = Jᵀ g of one example,
    C_sgd = ⟨∇∇ᵀ⟩ − ⟨∇⟩⟨∇⟩ᵀ and C_np = 2 C_sgd + ⟨∇⟩⟨∇⟩ᵀ + ⟨|g|² JᵀJ⟩: Eqs. 30 and 36a of
    hiratani2022perturbation for any network with nodes, with the order of indices of Eq. 30. It
    needs memory for (weights)² numbers, so it is meant for small networks.

    Args:
        model: a `Model`, or an equinox module.
        x: the inputs from which examples are drawn.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.

    Returns:
        Both covariances.

    Raises:
        ValueError: for a model without nodes, and for inputs or targets that do not fit it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> covariance = ld.probes.update_covariance(model, x, y)
        >>> bool(np.all(np.diag(covariance.perturbation) > np.diag(covariance.sgd)))
        True
    """
    return _covariances(LabelledModel(model, x, y, loss))


def loss_change(
    model: Any,
    x: Array,
    y: Array,
    *,
    learning_rate: Number,
    loss: AbstractLoss | None = None,
    batch: int = 1,
    perturbations: int = 1,
) -> LossChange:
    """The mean change of the loss in one step (Eq. 39 of hiratani2022perturbation).

    −η |∇L|² + η²/2 ∇Lᵀ H ∇L + η²/2 tr[H C], with H the Hessian of the loss on all examples and C
    the covariance of `update_covariance`. It is exact if the loss is quadratic in the weights, else
    correct up to O(η³). It needs memory for (weights)² numbers.

    Args:
        model: a `Model`, or an equinox module.
        x: the inputs from which examples are drawn, and on which the loss is measured.
        y: targets or labels.
        learning_rate: η.
        loss: None is `SquaredLoss(0.5)`.
        batch: examples per step, drawn with replacement.
        perturbations: noise draws per example, in the limit sigma → 0.

    Returns:
        The changes under SGD and under node perturbation.

    Raises:
        ValueError: for a model without nodes, and for inputs or targets that do not fit it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> change = ld.probes.loss_change(model, x, y, learning_rate=0.01)
        >>> round(float(change.sgd), 4), round(float(change.perturbation), 4)
        (-2.3944, -1.9832)
    """
    counts = positive_int("batch", batch), positive_int("perturbations", perturbations)
    rate = positive("learning_rate", learning_rate)
    return _change(LabelledModel(model, x, y, loss), rate, *counts)


@compiled_in_float64
def _covariances(labelled_model: LabelledModel) -> UpdateCovariance:
    def add(total: tuple[Array, ...], example: tuple[Array, Array]):
        moments = _moments(labelled_model, *example)
        return tuple(t + f for t, f in zip(total, moments, strict=True)), None

    x, y = labelled_model.arrays()
    flat = ravel_pytree(labelled_model.model.weights)[0]
    square = jnp.zeros((flat.size, flat.size), flat.dtype)
    total, _ = jax.lax.scan(add, (jnp.zeros_like(flat), square, square), (x, y))
    mean, second, spread = (t / len(x) for t in total)
    outer = jnp.outer(mean, mean)
    return UpdateCovariance(second - outer, 2 * second - outer + spread)


def _moments(labelled_model: LabelledModel, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """∇, ∇∇ᵀ and |g|² JᵀJ of one example."""
    here = labelled_model.local(x, y)
    g, unravel = ravel_pytree(here.at_nodes)
    rows = jax.vmap(lambda unit: ravel_pytree(here.pull(unravel(unit)))[0])
    J, gradient = rows(jnp.eye(g.size, dtype=g.dtype)), ravel_pytree(here.gradient)[0]
    return gradient, jnp.outer(gradient, gradient), jnp.sum(g**2) * J.T @ J


@compiled_in_float64
def _change(
    labelled_model: LabelledModel, rate: Array, batch: int, perturbations: int
) -> LossChange:
    flat, unravel = ravel_pytree(labelled_model.model.weights)
    loss = lambda v: labelled_model.mean_loss(unravel(v))
    gradient, H = jax.grad(loss)(flat), jax.hessian(loss)(flat)
    mean = -rate * gradient @ gradient + rate**2 / 2 * gradient @ H @ gradient
    both = _covariances(labelled_model).of_batch(batch, perturbations)
    cost = lambda C: (mean + rate**2 / 2 * jnp.sum(H * C)).astype(flat.dtype)
    return LossChange(*map(cost, both))
