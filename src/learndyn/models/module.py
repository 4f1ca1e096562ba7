"""Equinox modules as models."""

import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models.dense_layers import module_layers
from learndyn.models.inputs import applied, chosen
from learndyn.models.model import Model
from learndyn.models.probeable import Probeable
from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.parts.dense_layers import DenseLayers
from learndyn.runtime.checks import a_kind, one_of
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array, Weights

PRECISIONS = ("float32", "float64")


class ModuleNetwork(AbstractNetwork):
    """An equinox module as a function of its weights.

    Args:
        weights: the module with everything but its weights removed.
        rest: the module with its weights removed.
        batched: whether the module takes a batch; otherwise it takes one example.
        output: what counts of several outputs, see `models.inputs.chosen`.
    """

    rest: Any
    batched: bool = eqx.field(static=True)
    output: Any = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, weights: Any, rest: Any, *, batched: bool = False, output: Any = None):
        leaves, self.structure = jax.tree.flatten(weights)
        self.shapes = tuple(np.shape(leaf) for leaf in leaves)
        self.rest, self.batched, self.output = rest, batched, output

    # Any, since a module may return anything; `Model.outputs_each` refuses what is not one array.
    def __call__(self, weights: Weights, x: Any) -> Any:
        module = eqx.combine(weights, self.rest)
        function = lambda x: chosen(applied(module, x), self.output)
        return function(x) if self.batched else jax.vmap(function)(x)

    def dense_layers(self, weights: Weights) -> DenseLayers | None:
        return module_layers(eqx.combine(weights, self.rest))

    @property
    def input_shape(self) -> Shape | None:
        return None

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        structs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in self.shapes]
        example = jax.ShapeDtypeStruct((1, *input_shape), dtype)
        weights = jax.tree.unflatten(self.structure, structs)
        with full_precision():  # as in `Network.output_shape`
            return tuple(eqx.filter_eval_shape(self, weights, example).shape[1:])

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        raise ValueError("weights: got none for a module; allowed is start(system, weights=…)")

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        structs = [jax.ShapeDtypeStruct(shape, np.float64) for shape in self.shapes]
        return jax.tree.unflatten(self.structure, structs)


def as_model(
    module: Any, *, batched: bool = False, trainable: Any = None, output: Any = None
) -> Any:
    """A model of an equinox or PyTorch module; a model is returned as it is.

    The module's arrays of floats are its weights, all of one precision. Arrays in an
    `eqx.nn.State`, such as running statistics, are not weights; `trainable` excludes others. The
    outputs of an example must depend on its own input alone: freeze batch statistics and dropout
    first (`eqx.nn.inference_mode`).

    Args:
        module: a `Model`, a callable `eqx.Module`, or a `torch.nn.Module`, which is not changed,
            and whose weights are the parameters that require gradients.
        batched: whether an equinox module takes a batch; by convention it takes one example.
        trainable: which arrays of an equinox module are weights: a function of one, or a pytree of
            bools, as `eqx.partition` takes them; None for all.
        output: which of several outputs to use: a key, the name of an attribute, an index, or a
            function of what the module returns; None takes "logits" if there is one.

    Returns:
        The model.

    Raises:
        ValueError: for anything else, and for weights that are not all float32 or all float64.

    Example:
        >>> import equinox as eqx, jax, numpy as np
        >>> import learndyn as ld
        >>> model = ld.as_model(eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0)))
        >>> model.size, model(np.ones((5, 3))).shape
        (50, (5, 2))
    """
    one_of("batched", batched, (False, True))
    ready = isinstance(module, AbstractNetwork | Model | Probeable) or is_torch(module)
    if trainable is not None and ready:
        raise ValueError(
            f"trainable: got one for {a_kind(module)}; allowed is None, except for equinox modules "
            "(weights of a PyTorch module are the parameters with requires_grad)"
        )
    if output is not None and ready and not is_torch(module):
        raise ValueError(
            f"output: got one for {a_kind(module)}; allowed is None, except for equinox and "
            "PyTorch modules"
        )
    if isinstance(module, AbstractNetwork) and module.fixed_weights is not None:
        module = Model(module, module.fixed_weights)
    if isinstance(module, AbstractNetwork):
        raise ValueError(
            f"model: got the network {type(module).__name__} without weights; allowed is "
            "Model(network, weights)"
        )
    if is_torch(module):
        # Imported only here: PyTorch is an optional dependency.
        from learndyn.models.pytorch.model import TorchModel

        return TorchModel(module, output=output)
    # A `Model` is `Probeable` too, but the precision of its weights has yet to be checked.
    if not isinstance(module, Model) and isinstance(module, Probeable):
        return module
    if not isinstance(module, Model):
        if not (isinstance(module, eqx.Module) and callable(module)):
            raise ValueError(
                f"model: got {a_kind(module)}; allowed is Model(network, weights), a "
                "callable equinox module or a PyTorch module"
            )
        weights, rest = _parts(module, trainable)
        module = Model(ModuleNetwork(weights, rest, batched=batched, output=output), weights)
    _check_precision(module.weights)
    return module


def is_module(value: Any) -> bool:
    """Whether a value is a model or module for `as_model`, rather than a plain function."""
    return isinstance(value, eqx.Module | Probeable) or is_torch(value)


def is_torch(value: Any) -> bool:
    """Whether a value is a PyTorch module."""
    torch = sys.modules.get("torch")  # if it was never imported, nothing can be a module of it
    return torch is not None and isinstance(value, torch.nn.Module)


def _parts(module: Any, trainable: Any) -> tuple[Any, Any]:
    """A module's weights, and the rest of it."""
    is_state = lambda node: isinstance(node, eqx.nn.State | eqx.nn.StateIndex)
    learns = lambda node: not is_state(node) and _is_weight(node)
    weights = eqx.filter(module, jax.tree.map(learns, module, is_leaf=is_state))
    if trainable is not None:
        try:
            weights = eqx.filter(weights, trainable)
        except Exception as error:  # the function fails, or the pytree has another structure
            why = str(error).strip().partition("\n")[0]
            allowed = "a function of an array, or a pytree of bools like the module"
            raise ValueError(f"trainable: it fails ({why}); allowed is {allowed}") from None
    # `trainable` may have removed weights, which then belong to the rest.
    is_weight = jax.tree.map(lambda w: w is not None, weights, is_leaf=lambda w: w is None)
    return weights, eqx.filter(module, is_weight, inverse=True)


def _is_weight(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return is_array and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _check_precision(weights: Weights) -> None:
    leaves = jax.tree.leaves(weights)
    came = sorted({str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves})
    if len(came) != 1 or came[0] not in PRECISIONS:
        kinds = " and ".join(came) if came else "none"
        raise ValueError(f"weights: got {kinds}; allowed is one precision, float32 or float64")
