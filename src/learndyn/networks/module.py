"""Equinox modules as models."""

import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape, Weights
from learndyn.networks.model import Model
from learndyn.networks.probed import Probed
from learndyn.numerics.checks import a_kind, one_of
from learndyn.numerics.types import Array

PRECISIONS = ("float32", "float64")


class ModuleNetwork(AbstractNetwork):
    """The function that an equinox module is, apart from its weights.

    Args:
        module: callable; its arrays of floats are the weights.
        batched: whether it takes a batch; else one example.
    """

    rest: Any  # the module with its weights taken out
    batched: bool = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, module: Any, *, batched: bool = False):
        weights, self.rest = eqx.partition(module, _is_weight)
        leaves, self.structure = jax.tree.flatten(weights)
        self.shapes = tuple(np.shape(leaf) for leaf in leaves)
        self.batched = one_of("batched", batched, (False, True))

    def __call__(self, weights: Weights, x: Array) -> Any:  # what a model of it may refuse
        module = eqx.combine(weights, self.rest)
        return module(x) if self.batched else jax.vmap(module)(x)

    @property
    def input_shape(self) -> Shape | None:
        return None

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        structs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in self.shapes]
        example = jax.ShapeDtypeStruct((1, *input_shape), dtype)
        weights = jax.tree.unflatten(self.structure, structs)
        return tuple(eqx.filter_eval_shape(self, weights, example).shape[1:])

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        raise ValueError("weights: got none for a module; allowed is start(system, weights=…)")

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        structs = [jax.ShapeDtypeStruct(shape, np.float64) for shape in self.shapes]
        return jax.tree.unflatten(self.structure, structs)


def as_model(module: Any, *, batched: bool = False) -> Any:
    """A model of what is one already, of an equinox or of a PyTorch module.

    The module's arrays of floats are its weights, all of one precision. Outputs of an example
    must depend on its own input alone: batch statistics and dropout are to be frozen before
    (`eqx.nn.inference_mode`).

    Args:
        module: a `Model`, a callable `eqx.Module`, or a `torch.nn.Module`, whose weights are its
            parameters that require gradients, and which is left as it was.
        batched: whether an equinox module takes a batch; by custom it takes one example.

    Returns:
        The model.

    Raises:
        ValueError: for anything else, and for weights of several or other precisions than float32
            and float64.

    Example:
        >>> import equinox as eqx, jax, numpy as np
        >>> import learndyn as ld
        >>> model = ld.as_model(eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0)))
        >>> model.size, model(np.ones((5, 3))).shape
        (50, (5, 2))
    """
    one_of("batched", batched, (False, True))
    if isinstance(module, AbstractNetwork) and module.fixed_weights is not None:
        module = Model(module, module.fixed_weights)
    if isinstance(module, AbstractNetwork):
        raise ValueError(
            f"model: got the network {type(module).__name__} without weights; allowed is "
            "Model(network, weights)"
        )
    if is_torch(module):
        from learndyn.networks.pytorch.model import TorchModel

        return TorchModel(module)
    if not isinstance(module, Model) and isinstance(module, Probed):
        return module
    if not isinstance(module, Model):
        if not (isinstance(module, eqx.Module) and callable(module)):
            raise ValueError(
                f"model: got {a_kind(module)}; allowed is Model(network, weights), a "
                "callable equinox module or a PyTorch module"
            )
        network = ModuleNetwork(module, batched=batched)
        module = Model(network, eqx.filter(module, _is_weight))
    _check_precision(module.weights)
    return module


def is_module(given: Any) -> bool:
    """Whether `as_model` is for it, rather than a plain function."""
    return isinstance(given, eqx.Module | Probed) or is_torch(given)


def is_torch(given: Any) -> bool:
    """Whether it is a PyTorch module, which nothing is where PyTorch was not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


def _is_weight(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return is_array and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _check_precision(weights: Weights) -> None:
    leaves = jax.tree.leaves(weights)
    came = sorted({str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in leaves})
    if len(came) != 1 or came[0] not in PRECISIONS:
        said = " and ".join(came) if came else "none"
        raise ValueError(f"weights: got {said}; allowed is one precision, float32 or float64")
