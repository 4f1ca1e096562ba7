"""Node perturbation: gradients from the effect of noise at nodes on the loss."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.random import Source, Stream
from learndyn.problems import AbstractProblem
from learndyn.rules.base import AbstractSampledRule, check_counts_all, check_traced
from learndyn.rules.batches import SAMPLINGS
from learndyn.runtime.bounds import COUNT, POSITIVE, bounded
from learndyn.runtime.checks import a_kind, one_of, positive, positive_int
from learndyn.runtime.types import Array, Number, Weights
from learndyn.tangent import forward

Nodes = dict[str, Array]
Losses = Callable[[Nodes], Array]


@bounded(learning_rate=POSITIVE, sigma=POSITIVE, batch=COUNT, perturbations=COUNT)
class NodePerturbation(AbstractSampledRule):
    """w ← w − η · estimate; its mean over the noise is ∇loss in the limit sigma → 0.

    For every example, noise sigma · ξ with standard normal ξ is added at all nodes h_k (marked by
    `tap`) at once. With s = (loss with noise − loss) / sigma, the estimate is the mean over
    examples of Σ_k (∂h_k/∂w)ᵀ ξ_k s, where ∂h_k/∂w is taken at fixed inputs of the node: s ξ_k
    takes the place that ∂loss/∂h_k has in backpropagation. For a dense layer this is
    δW_k = −(η/σ) (ℓ̃ − ℓ) ξ_k x_{k−1}ᵀ and δb_k = −(η/σ) (ℓ̃ − ℓ) ξ_k, Eqs. 18 and 105 of
    hiratani2022perturbation, with the same factors of a parameterisation (1/√inputs) as the
    gradient. ℓ is the problem's loss of one example (`SquaredLoss(0.5)` in the paper); η multiplies
    the mean over the batch, as in `SGD`.

    A finite sigma causes a bias of order sigma² in the mean and of order sigma in every draw, and a
    rounding error of about ε |loss| / sigma in s: 10 % for sigma = 10⁻⁶ in float32. A good choice
    is √ε, 3·10⁻⁴ in float32 and 10⁻⁸ in float64. None has neither error, and is as fast.

    All weights must act on the loss through nodes, and the nodes of an example only on the loss of
    that example (no batch normalisation).

    Args:
        learning_rate: η.
        sigma: size of the noise; None is the limit sigma → 0, by a derivative along ξ.
        batch: number of examples per step.
        perturbations: independent draws of ξ per example and step, over which the estimate is
            averaged.
        shared: whether all examples of a step share the same ξ, each with its own s.
        sampling: how examples of a data set are drawn, as in `SGD`.

    Raises:
        ValueError: for a rate or `sigma` that is not positive, counts that are not positive
            integers, or an unknown sampling.

    Example:
        >>> import learndyn as ld
        >>> rule = ld.NodePerturbation(1e-3, sigma=0.01, perturbations=4)
        >>> rule.noise_draws, rule.samples
        (4, True)
    """

    learning_rate: np.ndarray
    sigma: np.ndarray | None
    batch: int = eqx.field(static=True)
    perturbations: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(
        self,
        learning_rate: Number,
        *,
        sigma: Number | None = None,
        batch: int = 1,
        perturbations: int = 1,
        shared: bool = False,
        sampling: str = "replacement",
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.sigma = None if sigma is None else positive("sigma", sigma)
        self.batch = positive_int("batch", batch)
        self.perturbations = positive_int("perturbations", perturbations)
        self.shared = one_of("shared", shared, (False, True))
        self.sampling = one_of("sampling", sampling, SAMPLINGS)

    @property
    def noise_draws(self) -> int:
        return self.perturbations

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        check_counts_all(self, problem)
        like = network.like(problem.input_shape)
        if like is None:
            return
        # Two examples, since an axis of length one could not be told from others of length one.
        x = jax.ShapeDtypeStruct((2, *problem.input_shape), problem.input_dtype)
        narrow = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, np.float32), like)
        check_traced(lambda w, x: check_nodes(network, w, x, (2,)), narrow, x)

    def estimate(
        self, problem: AbstractProblem, network: AbstractNetwork
    ) -> Callable[[Weights, Array, Array, Source], Weights]:
        def gradient(weights: Weights, x: Array, y: Array, source: Source) -> Weights:
            losses = lambda output: problem.losses(output, x, y)
            return self.gradient(network, weights, x, losses, source)

        return gradient

    def gradient(
        self,
        network: AbstractNetwork,
        weights: Weights,
        x: Array,
        losses: Callable[[Array], Array],
        source: Source,
    ) -> Weights:
        """The estimate for given inputs.

        Args:
            network: the student.
            weights: its weights.
            x: inputs, a batch or one example.
            losses: outputs → the loss of every example, in the shape of the batch.
            source: of random numbers.

        Returns:
            The estimate, in the shape of the weights.
        """
        noisy = lambda taps: losses(forward(network, weights, x, taps)[0])
        local = lambda w: forward(network, w, x, local=True)[1]
        nodes, pull = jax.vjp(local, weights)
        examples = jax.eval_shape(noisy, {})
        noise = self._noise(nodes, examples.ndim, source)
        slope = self._slope(noisy, noise, nodes) / examples.size
        return pull({name: self._credit(slope, xi) for name, xi in noise.items()})[0]

    def _noise(self, nodes: Nodes, axes: int, source: Source) -> Nodes:
        """ξ of every node, with a leading axis if there are several perturbations."""
        lead = () if self.perturbations == 1 else (self.perturbations,)
        noise, first = {}, 0
        for name, h in nodes.items():
            one = (1,) * axes + h.shape[axes:] if self.shared else h.shape
            drawn = source.normal((*lead, *one), h.dtype, Stream.NODES, first)
            noise[name] = jnp.broadcast_to(drawn, (*lead, *h.shape))
            first += drawn.size  # nodes use successive parts of one stream, so that they differ
        return noise

    def _slope(self, losses: Losses, noise: Nodes, nodes: Nodes) -> Array:
        """s of every perturbation and example."""
        each = (lambda f: f) if self.perturbations == 1 else jax.vmap
        if self.sigma is None:
            # Linearised once, and applied to every perturbation.
            _, push = jax.linearize(losses, jax.tree.map(jnp.zeros_like, nodes))
            return each(push)(noise)
        clean = losses({})
        sigma = jnp.asarray(self.sigma).astype(clean.dtype)
        moved = each(lambda xi: losses(jax.tree.map(lambda n: sigma * n, xi)))(noise)
        return (moved - clean) / sigma

    def _credit(self, slope: Array, noise: Array) -> Array:
        """s ξ, averaged over perturbations, which takes the place of ∂loss/∂node."""
        credit = jnp.expand_dims(slope, range(slope.ndim, noise.ndim)) * noise
        return credit if self.perturbations == 1 else jnp.mean(credit, axis=0)


def check_nodes(
    network: AbstractNetwork, weights: Weights, x: Array, examples: tuple[int, ...]
) -> None:
    """Raises a ValueError if noise at nodes does not tell how every weight acts on the loss.

    That is a network without nodes, with a node that does not begin with the axes of the batch, or
    with weights that act on the outputs past all nodes.

    Args:
        network: the student.
        weights: its weights.
        x: inputs.
        examples: the shape of the batch, the leading axes of x.
    """
    _, nodes = forward(network, weights, x)
    if not nodes:
        came = f"{a_kind(network)} without nodes"
        raise ValueError(f"network: got {came}; allowed is one with tap(name, h)")
    for name, h in nodes.items():
        if h.shape[: len(examples)] != examples:
            allowed = f"the examples' axes {examples} in front"
            raise ValueError(f"tap: got shape {h.shape} at {name!r}; allowed are {allowed}")
    for path in _past(network, weights, x):
        came = f"weights that act past all nodes, {path or 'all of them'}"
        raise ValueError(f"network: got {came}; allowed are weights before a tap(name, h)")


def _past(network: AbstractNetwork, weights: Weights, x: Array) -> Iterator[str]:
    """The weights on which outputs depend when all nodes are held fixed."""
    leaves, structure = jax.tree.flatten(weights)
    for i, (path, leaf) in enumerate(jax.tree.leaves_with_path(weights)):
        put = lambda w, i=i: jax.tree.unflatten(structure, [*leaves[:i], w, *leaves[i + 1 :]])
        if _depends(lambda w, put=put: forward(network, put(w), x, local=True)[0], leaf):
            yield jax.tree_util.keystr(path)


def _depends(function: Callable[[Array], Array], at: Array) -> bool:
    """Whether JAX finds a derivative of a function that is not a symbolic zero."""
    nonzero: list[bool] = []
    # An identity whose derivative rule records whether the tangent is a symbolic zero.
    seen = jax.custom_jvp(lambda h: h)

    def rule(primals: Any, tangents: Any) -> Any:
        (dh,) = tangents
        nonzero.append(not isinstance(dh, jax.custom_derivatives.SymbolicZero))
        return primals[0], jnp.zeros_like(primals[0])

    seen.defjvp(rule, symbolic_zeros=True)
    jax.eval_shape(lambda w: jax.jvp(lambda w: seen(function(w)), (w,), (w,)), at)
    return any(nonzero)
