"""The cosine between updates of node perturbation and the gradient.

For one example let g = ∂loss/∂nodes, J = ∂nodes/∂w at fixed inputs of each node, and ∇ = Jᵀ g the
gradient. With noise ξ at the nodes, in the limit sigma → 0, the update is −η Jᵀ ξ (ξ·g), and

    ⟨Jᵀ ξ (ξ·g)⟩ = ∇,    ⟨|Jᵀ ξ (ξ·g)|²⟩ = |g|² |J|² + 2 |∇|²,

for each array of the weights separately. For a dense layer |J|² = L_k |x_{k−1}|², which gives
Eqs. 25 of hiratani2022perturbation; the general form also covers biases and convolutions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from learndyn.numerics.random import Source, key_of_run
from learndyn.probes.arguments import LabelledModel, square
from learndyn.problems import AbstractLoss
from learndyn.rules import NodePerturbation
from learndyn.runtime.checks import positive_int, seed
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Number, Weights

CHUNK = 16  # number of examples or draws in memory at the same time


class UpdateCosine(NamedTuple):
    """Predicted cosine between the updates of node perturbation and SGD, by array of weights.

    Attributes:
        mean: the mean cosine, up to relative corrections of order 1/(nodes of a layer).
        printed: the published formula, Eq. 28: (mean of the product) / (root mean squares).

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.ones((2, 50))), np.ones((1, 2)), np.zeros((1, 50))
        >>> found = ld.probes.update_cosine(model, x, y)
        >>> round(float(found.mean), 3), round(float(found.printed), 3)
        (0.113, 0.139)
    """

    mean: Weights
    printed: Weights


class MeasuredCosine(NamedTuple):
    """Mean cosine over draws of the noise and its standard error, by array of weights.

    Attributes:
        mean: the mean cosine, one number per array of the weights.
        error: its standard error, likewise.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.ones((2, 50))), np.ones((1, 2)), np.zeros((1, 50))
        >>> found = ld.probes.measured_update_cosine(model, x, y, draws=100)
        >>> expected = np.sqrt(2 / np.pi / 50)
        >>> bool(abs(found.mean - expected) < 4 * found.error)
        True
    """

    mean: Weights
    error: Weights


def update_cosine(
    model: Any,
    x: Array,
    y: Array,
    *,
    loss: AbstractLoss | None = None,
    perturbations: int = 1,
    draws: int = 1,
    key: int = 0,
) -> UpdateCosine:
    """The cosine between the updates of node perturbation and SGD on one batch, predicted.

    Eq. 28 divides the mean product by root mean squares. The cosine of a single draw is
    sign(s) ξ_k·g_k / (|ξ_k| |g_k|), whose mean is smaller by √(2/π); a mean over n independent
    draws of equal size is smaller by ⟨χ_n⟩/√n. Here n is the effective number of examples,
    (Σ a_b)²/Σ a_b² with a_b = |g_b|² |J_b|², times `perturbations`. The term 2|∇|² above
    does not occur in the cosine of a single draw; its part 1/n is therefore left out.

    Args:
        model: a `Model`, or an equinox module.
        x: the inputs of the batch, each with its own noise.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        perturbations: noise draws per example.
        draws: number of random sign vectors for the estimate of |J|². One is exact for dense layers
            and their biases; layers that share weights between nodes need more.
        key: seed of the random signs.

    Returns:
        The predictions.

    Raises:
        ValueError: for a model without nodes, and for inputs or targets that do not fit it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> weights = (np.ones((100, 3)),)
        >>> model = ld.Model(ld.DeepLinear([3, 100]), weights)
        >>> cosine = ld.probes.update_cosine(model, np.ones((1, 3)), np.zeros((1, 100)))
        >>> round(float(cosine.mean[0]), 4), round(float(cosine.printed[0]), 4)
        (0.0798, 0.099)
    """
    counts = positive_int("perturbations", perturbations), positive_int("draws", draws)
    return _predicted(LabelledModel(model, x, y, loss), *counts, seed("key", key))


def measured_update_cosine(
    model: Any,
    x: Array,
    y: Array,
    *,
    loss: AbstractLoss | None = None,
    sigma: Number | None = None,
    perturbations: int = 1,
    shared: bool = False,
    draws: int = 100,
    key: int = 0,
) -> MeasuredCosine:
    """The cosine between the updates of node perturbation and SGD on one batch, measured.

    Args:
        model: a `Model`, or an equinox module.
        x: the inputs of the batch.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        sigma: as in `NodePerturbation`.
        perturbations: as in `NodePerturbation`.
        shared: as in `NodePerturbation`.
        draws: number of updates over which the cosine is averaged, at least 2.
        key: seed.

    Returns:
        Mean and standard error.

    Raises:
        ValueError: for a model without nodes, and for inputs or targets that do not fit it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: ld.tap("node", x @ w))
        >>> model, x, y = ld.Model(network, np.ones((2, 50))), np.ones((1, 2)), np.zeros((1, 50))
        >>> found = ld.probes.measured_update_cosine(model, x, y, draws=100)
        >>> predicted = ld.probes.update_cosine(model, x, y).mean
        >>> bool(abs(found.mean - predicted) < 4 * found.error)
        True
    """
    rule = NodePerturbation(1.0, sigma=sigma, perturbations=perturbations, shared=shared)
    draws = positive_int("draws", draws)
    if draws < 2:
        raise ValueError(f"draws: got {draws}; allowed is 2 or more")
    return _measured(LabelledModel(model, x, y, loss), rule, draws, seed("key", key))


@compiled_in_float64
def _predicted(
    labelled_model: LabelledModel, perturbations: int, draws: int, key: int
) -> UpdateCosine:
    gradient = jax.grad(labelled_model.mean_loss)(labelled_model.model.weights)
    x, y = labelled_model.arrays()
    index = jnp.arange(len(x))
    each = lambda at: _sizes(labelled_model, at[0], at[1], at[2], draws, key)
    noise, single = jax.lax.map(each, (x, y, index), batch_size=CHUNK)
    parts = jax.tree.map(lambda f, a, b: _cosine(f, a, b, perturbations), gradient, noise, single)
    split = lambda i: jax.tree.map(lambda _, pair: pair[i], gradient, parts)
    return UpdateCosine(split(0), split(1))


def _sizes(
    labelled_model: LabelledModel, x: Array, y: Array, index: Array, draws: int, key: int
) -> Any:
    """|g|² |J|² and |∇|² of one example, by array of weights."""
    here = labelled_model.local(x, y)

    def signs(draw: Array) -> Weights:
        # Every example and draw has its own key, however examples are divided into chunks.
        own_key = jax.random.fold_in(jax.random.fold_in(jax.random.key(key), index), draw)
        keys = jax.random.split(own_key, len(here.at_nodes))
        nodes = zip(here.at_nodes.items(), keys, strict=True)
        return {n: jax.random.rademacher(k, g.shape, g.dtype) for (n, g), k in nodes}

    squares = lambda tree: jax.tree.map(lambda leaf: jnp.sum(leaf**2), tree)
    # For random signs u, ⟨|Jᵀ u|²⟩ = |J|²: the Jacobian itself is not formed.
    jacobian = jax.lax.map(lambda d: squares(here.pull(signs(d))), jnp.arange(draws))
    at_nodes = square(here.at_nodes)
    noise = jax.tree.map(lambda j: at_nodes * jnp.mean(j), jacobian)
    return noise, squares(here.gradient)


def _cosine(gradient: Array, noise: Array, single: Array, perturbations: int):
    """Mean and published cosine of one array, from noise and |∇|² of every example."""
    draws = len(noise) ** 2 * perturbations
    signal = jnp.sum(gradient**2)
    effective = perturbations * jnp.sum(noise) ** 2 / jnp.sum(noise**2)
    printed = jnp.sum(noise + single) / draws + signal
    size = printed - 2 * jnp.sum(single) / (draws * effective)
    return _chi(effective) * jnp.sqrt(signal / size), jnp.sqrt(signal / printed)


def _chi(n: Array) -> Array:
    """⟨χ_n⟩/√n, √(2/π) for n = 1."""
    return jnp.exp(gammaln((n + 1) / 2) - gammaln(n / 2)) * jnp.sqrt(2 / n)


@compiled_in_float64
def _measured(
    labelled_model: LabelledModel, rule: NodePerturbation, draws: int, key: int
) -> MeasuredCosine:
    weights, network = labelled_model.model.weights, labelled_model.model.network
    gradient = jax.grad(labelled_model.mean_loss)(weights)
    x, y = labelled_model.arrays()
    losses = lambda output: labelled_model.losses(output, y)

    def cosines(step: Array) -> Weights:
        source = Source(key_of_run(key, 0), step)
        update = rule.gradient(network, weights, x, losses, source)
        size = lambda a: jnp.sqrt(jnp.sum(a**2))
        return jax.tree.map(lambda a, b: jnp.sum(a * b) / (size(a) * size(b)), update, gradient)

    every = jax.lax.map(cosines, jnp.arange(draws), batch_size=CHUNK)
    error = lambda c: jnp.std(c, ddof=1) / np.sqrt(draws)
    return MeasuredCosine(jax.tree.map(jnp.mean, every), jax.tree.map(error, every))
