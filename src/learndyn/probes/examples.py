"""What probes are given: a model, examples and a loss, in the precision of the weights."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.networks import Model, forward
from learndyn.networks.base import Weights
from learndyn.numerics.checks import instance
from learndyn.numerics.types import Array
from learndyn.problems import AbstractLoss
from learndyn.problems.losses import loss_given

Nodes = dict[str, Array]


def checked_model(model: Any) -> Model:
    """Returns `model`, or says what it must be."""
    return instance("model", model, Model, "Model(network, weights)")


def inputs_of(model: Model, x: Array) -> Array:
    """Inputs in the precision of the weights; integers stay."""
    x = jnp.asarray(x)
    dtype = jax.tree.leaves(model.weights)[0].dtype
    return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x


class Local(NamedTuple):
    """One example, node by node.

    Attributes:
        at_nodes: ∂loss/∂node.
        gradient: ∂loss/∂weights.
        pull: cotangents of nodes → of weights, the inputs of every node held.
    """

    at_nodes: Nodes
    gradient: Weights
    pull: Any


class Setting(eqx.Module):
    """A model with labelled examples and a loss.

    Args:
        model: the network with its weights.
        x: inputs, (examples, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
    """

    model: Model
    x: Array
    y: Array
    loss: AbstractLoss

    def __init__(self, model: Model, x: Array, y: Array, loss: AbstractLoss | None):
        self.model = checked_model(model)
        self.x, self.y, self.loss = x, y, loss_given(loss, None)

    def losses(self, output: Array, y: Array) -> Array:
        """The loss of every example."""
        return self.loss.each(output, y, output.ndim - 1)

    def mean_loss(self, weights: Weights) -> Array:
        """The loss, averaged over all examples."""
        x, y = self.arrays()
        return jnp.mean(self.losses(self.model.network(weights, x), y))

    def arrays(self) -> tuple[Array, Array]:
        """All examples; targets that are numbers in the precision of the weights."""
        return inputs_of(self.model, self.x), inputs_of(self.model, self.y)

    def local(self, x: Array, y: Array) -> Local:
        """What node perturbation sees of one example."""
        network, weights = self.model.network, self.model.weights
        x, y = x[None], y[None]
        nodes, pull = jax.vjp(lambda w: forward(network, w, x, local=True)[1], weights)
        loss = lambda taps: self.losses(forward(network, weights, x, taps)[0], y)[0]
        at_nodes = jax.grad(loss)(jax.tree.map(jnp.zeros_like, nodes))
        return Local(at_nodes, pull(at_nodes)[0], lambda cotangents: pull(cotangents)[0])


def square(tree: Any) -> Array:
    """The sum of squares of all entries."""
    return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))
