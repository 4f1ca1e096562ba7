"""The arguments of probes, checked: a model, examples and a loss."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from learndyn.models import Model, Probeable, as_model
from learndyn.models.inputs import Inputs, joined
from learndyn.models.model import inputs_of
from learndyn.models.module import is_torch
from learndyn.problems import AbstractLoss
from learndyn.problems.losses import loss_given
from learndyn.problems.own_loss import OwnLoss
from learndyn.problems.targets import checked_targets
from learndyn.runtime.checks import a_kind, finite, instance, positive_int
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Weights
from learndyn.tangent import forward

Nodes = dict[str, Array]
# A loss of ours; a function of outputs and targets that returns one loss per example; for PyTorch
# modules also a loss of `torch.nn` with reduction="mean"; None for SquaredLoss(0.5).
LossLike = Any
ArrayLike = Any  # a NumPy or JAX array, or a PyTorch tensor; inputs may be several, see `Inputs`


class Local(NamedTuple):
    """Derivatives at one example, by node.

    Attributes:
        at_nodes: ∂loss/∂node.
        gradient: ∂loss/∂weights.
        pull: cotangents of nodes → cotangents of weights, at fixed inputs of every node.
    """

    at_nodes: Nodes
    gradient: Weights
    pull: Any


class LabelledModel(eqx.Module):
    """A model with labelled examples and a loss.

    Args:
        model: the network with its weights.
        x: inputs, (examples, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
    """

    model: Model
    x: Any
    y: Array
    loss: AbstractLoss

    def __init__(self, model: Any, x: Any, y: Array, loss: AbstractLoss | None):
        self.model, self.x, self.y, self.loss = labelled(with_nodes(model), x, y, loss)

    def losses(self, output: Array, y: Array) -> Array:
        """The loss of every example."""
        return self.loss.each(output, y, output.ndim - 1)

    def mean_loss(self, weights: Weights) -> Array:
        """The loss, averaged over all examples."""
        x, y = self.arrays()
        output = self.model.network(weights, x)
        return self.loss(output, y, output.ndim - 1)

    def arrays(self) -> tuple[Array, Array]:
        """All examples; inputs and targets that are floats have the precision of the weights."""
        return inputs_of(self.model, self.x), inputs_of(self.model, self.y)

    def local(self, x: Any, y: Array) -> Local:
        """The derivatives at one example that node perturbation estimates."""
        network, weights = self.model.network, self.model.weights
        x, y = x[None], y[None]
        nodes, pull = jax.vjp(lambda w: forward(network, w, x, local=True)[1], weights)
        loss = lambda taps: self.losses(forward(network, weights, x, taps)[0], y)[0]
        at_nodes = jax.grad(loss)(jax.tree.map(jnp.zeros_like, nodes))
        return Local(at_nodes, pull(at_nodes)[0], lambda cotangents: pull(cotangents)[0])


def with_nodes(model: Any) -> Model:
    """A JAX model, whose nodes are marked by `tap`, or a one-line error for other models."""
    return instance("model", as_model(model), Model, "a JAX network, whose nodes `tap` marks")


def square(tree: Any) -> Array:
    """The sum of squares of all entries."""
    return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


class MeanLoss(eqx.Module):
    """The loss as a function of the outputs for given examples, averaged over them.

    Args:
        loss: of one example.
        y: targets or labels.
    """

    loss: AbstractLoss
    y: Array

    def __call__(self, output: Array) -> Array:
        y = jnp.asarray(self.y)
        y = y.astype(output.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else y
        return self.loss(output, y, output.ndim - 1)

    @property
    def terms(self) -> int:
        """The number of terms of the mean."""
        return self.loss.terms(self.y)

    @compiled_in_float64
    def gradient(self, output: Array) -> Array:
        """∂loss/∂output, of the outputs' shape."""
        return jax.grad(self)(output)

    @compiled_in_float64
    def curvature(self, output: Array, u: Array) -> Array:
        """∂²loss/∂output² u, of the outputs' shape."""
        return jax.jvp(jax.grad(self), (output,), (u,))[1]

    @compiled_in_float64
    def blocks(self, output: Array) -> Array:
        """∂²loss/∂output² of every example, (n, k, k); examples are independent of each other."""
        bend = lambda u: jax.jvp(jax.grad(self), (output,), (u,))[1]
        units = jnp.eye(output[0].size, dtype=output.dtype)
        rows = jax.vmap(lambda unit: bend(jnp.broadcast_to(unit, (len(output), len(units)))
                                          .reshape(output.shape)))(units)  # fmt: skip
        return jnp.moveaxis(rows.reshape(len(units), len(output), -1), 0, 1)


def mean_of(loss: Any, y: Any) -> Any:
    """The mean loss as a function of the outputs: `MeanLoss`, or that of another library."""
    return MeanLoss(loss, y) if isinstance(loss, AbstractLoss) else loss.mean(y)


def as_array(name: str, value: Any) -> Array:
    """A value as a JAX or NumPy array; also from PyTorch tensors."""
    array = value
    if not isinstance(value, jax.Array | np.ndarray):
        try:
            array = np.asarray(_on_host(value) if hasattr(value, "detach") else value)
        except Exception as error:  # some objects raise when they are converted
            why = str(error).strip().partition("\n")[0]
            allowed = "allowed is an array of real numbers"
            raise ValueError(
                f"{name}: got something that is not an array ({why}); {allowed}"
            ) from None
    real = (jnp.floating, jnp.integer, jnp.bool_)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in real):
        came = a_kind(value) if array.dtype == object else array.dtype
        raise ValueError(f"{name}: got {came}; allowed is an array of real numbers")
    return array


def _on_host(tensor: Any) -> Any:
    """A tensor of PyTorch on the host; NumPy has no bfloat16."""
    tensor = tensor.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def checked_inputs(name: str, x: Any) -> Any:
    """Inputs as an array whose first axis is that of the examples, or a one-line error.

    A dict or a tuple of such arrays becomes one `Inputs`.
    """
    x = joined(x)
    if isinstance(x, Inputs):
        return _several(name, x)
    x = as_array(name, x)
    if x.ndim == 0 or len(x) == 0:
        raise ValueError(
            f"{name}: got shape {x.shape}; allowed is (examples, …) with at least one example"
        )
    return x


def _several(name: str, x: Inputs) -> Inputs:
    paths = jax.tree_util.tree_flatten_with_path(x.arrays)[0]
    arrays = [checked_inputs(f"{name}{jax.tree_util.keystr(path)}", each) for path, each in paths]
    lengths = sorted({len(array) for array in arrays})
    if len(lengths) != 1:
        came = f"arrays of {' and '.join(map(str, lengths))} examples" if lengths else "no arrays"
        raise ValueError(f"{name}: got {came}; allowed are arrays of the same examples")
    return Inputs(jax.tree.unflatten(jax.tree.structure(x.arrays), arrays), x.output)


def labelled(model: Any, x: ArrayLike, y: ArrayLike, loss: Any) -> tuple[Any, Any, Array, Any]:
    """A model, inputs, targets and a loss that fit each other, or a one-line error.

    Examples that the loss ignores are removed.
    """
    model, x = as_model(model), checked_inputs("x", x)
    loss, y = loss_for(model, loss), as_array("y", y)
    if y.ndim == 0 or len(y) != len(x):
        raise ValueError(
            f"y: got shape {y.shape}; allowed is one target for each of {len(x)} examples"
        )
    x, y = fitted(model, x, y, loss, output_shape(model, x))
    if is_own(loss) and not mean_of(loss, y).terms:
        raise ValueError(f"y: got only labels that {loss} ignores; allowed is at least one other")
    return model, x, y, loss


def fitted(model: Any, x: Any, y: Array, loss: Any, shape: tuple[int, ...]) -> tuple[Any, Array]:
    """Inputs and targets that fit a loss, for outputs of a given shape per example."""
    if is_own(loss):
        loss.check(model.outputs(x[:2]), y[:2])
        return x, y
    y = checked_targets("y", y, loss, shape)
    counted = loss.counted(y)
    if counted is None:
        return x, y
    if is_traced(y):
        raise ValueError(f"y: got labels that are being traced; allowed with {loss} are known ones")
    keep = np.asarray(counted).reshape(len(y), -1).any(1)
    return x[keep], y[keep]


def is_own(loss: Any) -> bool:
    """Whether a loss is a user's function, or of another library."""
    return not isinstance(loss, AbstractLoss) or isinstance(loss, OwnLoss)


def loss_for(model: Any, loss: Any) -> Any:
    """The loss of a model: one of ours, or a function or module of the model's library."""
    if loss is None or isinstance(loss, AbstractLoss):
        return loss_given(loss, None)
    if not isinstance(model, Model):
        return model.own_loss(loss)
    if not callable(loss) or is_torch(loss):
        came = f"{a_kind(loss)} of PyTorch for a JAX model" if is_torch(loss) else a_kind(loss)
        raise ValueError(
            f"loss: got {came}; allowed is SquaredLoss(scale), CrossEntropy(), or a function "
            "(outputs, y) → one loss per example"
        )
    return OwnLoss(loss)


def output_shape(model: Probeable, x: Any) -> tuple[int, ...]:
    """The shape of the outputs for one example, or an error if they depend on other examples.

    Two examples are evaluated together, and each together with a copy of itself. Batches of the
    same size are rounded alike, so that the outputs differ by more than √ε only if one example
    enters the outputs of the other. (√ε rather than ε, since the order of sums may vary on
    accelerators.) While tracing, random numbers take the place of unknown ones.
    """
    if is_traced(model, x):
        model.outputs_each(x)
        with jax.ensure_compile_time_eval():
            return output_shape(*_drawn((model, x[:2] if is_traced(x) else x)))
    if not isinstance(model, Model):  # a PyTorch module may have side effects: checked first
        model.outputs_each(x)
    # An equal second example would hide a dependence: one that differs is needed.
    rows = jax.tree.map(np.asarray, x[np.array([0, len(x) // 2, len(x) - 1])])
    first, zeros = rows[0], jax.tree.map(np.zeros_like, rows[0])
    other = next((row for row in (rows[1], rows[2]) if _differ(row, first)), zeros)
    pair = lambda one, other: jax.tree.map(lambda a, b: np.stack([a, b]), one, other)
    try:
        together: Any = model.outputs(pair(first, other))
    except Exception:
        model.outputs_each(x)  # slower, but explains what is wrong
        raise
    array = isinstance(together, np.ndarray) and together.shape[:1] == (2,)
    if not array or not np.issubdtype(together.dtype, np.floating):
        model.outputs_each(x)
    for i, row in enumerate((first, other)):
        alone = model.outputs(pair(row, row))
        scale = np.max(np.abs(together[i]), initial=0, where=np.isfinite(together[i]))
        allowed = np.finfo(together.dtype).eps ** 0.5 * scale
        if not np.allclose(together[i], alone[i], rtol=0, atol=allowed, equal_nan=True):
            raise ValueError(
                "model: got outputs that depend on the other examples of the batch; allowed is a "
                "model that treats each example by itself (batch normalisation in inference mode)"
            )
    return together.shape[1:]


def _differ(x: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(x), jax.tree.leaves(other), strict=True)
    return any(np.any(a != b) for a, b in pairs)


def _drawn(tree: Any) -> Any:
    """The tree with random numbers in place of arrays that are being traced."""
    rng = np.random.default_rng(0)

    def draw(leaf: Any) -> Any:
        if not isinstance(leaf, jax.core.Tracer):
            return leaf
        # Of the size that keeps outputs of order 1; integers may be labels or indices.
        size = max(leaf.shape[-1:], default=1) ** -0.5
        floats = jnp.issubdtype(leaf.dtype, jnp.floating)
        values = rng.normal(0, size, leaf.shape) if floats else rng.integers(0, 2, leaf.shape)
        return values.astype(leaf.dtype)

    return jax.tree.map(draw, tree)


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is being traced by JAX, for example inside `simulate`."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def untraced(array: Array) -> Array:
    """An array as NumPy, unless it is being traced."""
    return array if is_traced(array) else np.asarray(array)


def known(model: Probeable, name: str, values: Array) -> Array:
    """The values if they are finite or traced, else an error that names the cause."""
    if not is_traced(values) and not np.all(np.isfinite(values)):
        # Weights come first, since values that are not finite usually follow from them.
        finite("weights", np.asarray(model.vector()))
        finite(name, np.asarray(values))
    return values


def part_of(name: str, k: Any, size: int, what: str) -> int:
    """A number of eigenvalues up to `size`, or a one-line error; None means all of them."""
    if k is None:
        return size
    if positive_int(name, k) > size:
        raise ValueError(f"{name}: got {k}; allowed are up to {size} {what}, the size of the space")
    return int(k)
