"""What probes are given: a model, examples and a loss, in the precision of the weights."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Model, Probed, as_model, forward
from learndyn.networks.base import Weights
from learndyn.networks.model import inputs_of
from learndyn.numerics.checks import a_kind, finite, instance, positive_int
from learndyn.numerics.precision import compiled_in_float64
from learndyn.numerics.types import Array
from learndyn.problems import AbstractLoss
from learndyn.problems.losses import loss_given

Nodes = dict[str, Array]
Given = Any  # what a user may give for examples: an array of NumPy or JAX, a tensor of PyTorch


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

    def __init__(self, model: Any, x: Array, y: Array, loss: AbstractLoss | None):
        self.model, self.x = with_nodes(model), checked_inputs("x", x)
        self.y, self.loss = checked_targets(y, len(self.x)), loss_given(loss, None)
        self.model.outputs_each(self.x)

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


def with_nodes(model: Any) -> Model:
    """A model whose nodes are marked, which only JAX's can be, or a one-line error."""
    return instance("model", as_model(model), Model, "a JAX network, whose nodes `tap` marks")


def square(tree: Any) -> Array:
    """The sum of squares of all entries."""
    return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


class MeanLoss(eqx.Module):
    """The loss of the outputs of given examples, averaged over them.

    Args:
        loss: of one example.
        y: targets or labels.
    """

    loss: AbstractLoss
    y: Array

    def __call__(self, output: Array) -> Array:
        y = jnp.asarray(self.y)
        y = y.astype(output.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else y
        return jnp.mean(self.loss.each(output, y, output.ndim - 1))

    @compiled_in_float64
    def gradient(self, output: Array) -> Array:
        """∂loss/∂output, of the outputs' shape."""
        return jax.grad(self)(output)


def as_array(name: str, given: Any) -> Array:
    """What was given as an array of JAX or NumPy; PyTorch's tensors as well."""
    found = given
    if not isinstance(given, jax.Array | np.ndarray):
        try:
            found = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        except Exception as error:  # objects that refuse to be read
            why = str(error).strip().partition("\n")[0]
            allowed = "allowed is one of real numbers"
            raise ValueError(f"{name}: got what is no array ({why}); {allowed}") from None
    real = (jnp.floating, jnp.integer, jnp.bool_)
    if not any(jnp.issubdtype(found.dtype, kind) for kind in real):
        came = a_kind(given) if found.dtype == object else found.dtype
        raise ValueError(f"{name}: got {came}; allowed is an array of real numbers")
    return found


def checked_inputs(name: str, x: Any) -> Array:
    """Inputs as an array with an axis of examples, or a one-line error."""
    x = as_array(name, x)
    if x.ndim == 0 or len(x) == 0:
        raise ValueError(f"{name}: got shape {x.shape}; allowed is (examples, …), at least one")
    return x


def checked_targets(y: Any, examples: int) -> Array:
    """Targets, one an example, or a one-line error."""
    y = as_array("y", y)
    if y.ndim == 0 or len(y) != examples:
        raise ValueError(f"y: got shape {y.shape}; allowed is one target for {examples} examples")
    return y


def is_traced(*given: Any) -> bool:
    """Whether something is being traced, by `simulate` for instance."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given))


def untraced(found: Array) -> Array:
    """What was found, as NumPy unless it is being traced."""
    return found if is_traced(found) else np.asarray(found)


def known(model: Probed, name: str, found: Array) -> Array:
    """What was found, or, where it is not finite, an error that names the cause."""
    if not is_traced(found) and not np.all(np.isfinite(found)):
        finite("weights", np.asarray(model.vector()))
        finite(name, np.asarray(found))
    return found


def part_of(name: str, k: Any, size: int, what: str) -> int:
    """A number of eigenvalues up to `size`, or a one-line error; None is all."""
    if k is None:
        return size
    if positive_int(name, k) > size:
        raise ValueError(f"{name}: got {k}; allowed are up to {size} {what}, the size of the space")
    return int(k)
