"""Networks that are a chain of dense layers, recognised."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.affine import FUNCTIONS, Affine
from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.networks.deep_linear import DeepLinear
from learndyn.networks.mlp import MLP

POINTS = np.array([-3.7, -1.0, -0.31, 0.22, 1.0, 5.3], np.float32)
KINDS = "a chain of dense layers: DeepLinear, MLP, eqx.nn.MLP, torch.nn.Sequential"


class Chain(NamedTuple):
    """Dense layers and what stands behind each.

    Attributes:
        layers: from input to output, weight (outputs, inputs).
        kinds: of the activation behind each layer: "linear", "relu" or "other".
    """

    layers: list[Affine]
    kinds: list[str]


def kind_of(activation: Callable[[np.ndarray], Any]) -> str:
    """Its kind: "linear", "relu" for what is positively homogeneous (also leaky), or "other".

    Judged by values at several points: names and wrappers differ between libraries.
    """
    with jax.ensure_compile_time_eval():  # what an activation does is known while tracing
        found = np.asarray(activation(POINTS))
    if found.shape != POINTS.shape:
        return "other"
    if np.allclose(found, POINTS, rtol=1e-6, atol=0):
        return "linear"
    slopes = np.where(POINTS > 0, found[4], -found[1])
    return "relu" if np.allclose(found, slopes * POINTS, rtol=1e-6, atol=0) else "other"


def chain_of(network: AbstractNetwork, weights: Weights) -> Chain:
    """The chain that a network is.

    Raises:
        ValueError: for a network that is none, as far as can be seen.
    """
    if isinstance(network, DeepLinear):
        layers = [Affine(weight, None) for weight in weights]
        return Chain(layers, ["linear"] * len(layers))
    if isinstance(network, MLP):
        inner = kind_of(lambda z: FUNCTIONS[network.activation](jnp.asarray(z)))
        return Chain(list(weights), [inner] * (len(weights) - 1) + ["linear"])
    module = eqx.combine(weights, getattr(network, "rest", None)) if _is_module(network) else None
    parts = _parts(module)
    if parts is None:
        came = type(network if module is None else module).__name__
        raise ValueError(f"model: got a {came}; allowed is {KINDS}")
    return chained(parts)


def chained(parts: Sequence[Any]) -> Chain:
    """A chain from layers and activations in order; those without a layer before them are none."""
    layers: list[Affine] = []
    kinds: list[str] = []
    for part in parts:
        if isinstance(part, Affine):
            layers, kinds = [*layers, part], [*kinds, "linear"]
        elif part == "other" or not layers:
            kinds = [*kinds[:-1], "other"]
        elif part != "linear":
            kinds = [*kinds[:-1], part]
    return Chain(layers, kinds)


def _is_module(network: AbstractNetwork) -> bool:
    return hasattr(network, "rest") and hasattr(network, "structure")


def _parts(module: Any) -> list[Any] | None:
    """Layers and kinds of activations of an equinox module; None where it is no chain."""
    if isinstance(module, eqx.nn.MLP):
        inner, last = kind_of(module.activation), kind_of(module.final_activation)
        between = [inner] * (len(module.layers) - 1) + [last]
        pairs = zip(module.layers, between, strict=True)
        return [part for layer, kind in pairs for part in (_affine(layer), kind)]
    if isinstance(module, eqx.nn.Linear):
        return [_affine(module)]
    if isinstance(module, eqx.nn.Lambda):
        return [kind_of(module.fn)]
    if isinstance(module, eqx.nn.Identity):
        return []
    if isinstance(module, eqx.nn.Sequential):
        each = [_parts(layer) for layer in module.layers]
        return None if None in each else [part for parts in each if parts for part in parts]
    return None


def _affine(layer: eqx.nn.Linear) -> Affine:
    return Affine(layer.weight, layer.bias)
