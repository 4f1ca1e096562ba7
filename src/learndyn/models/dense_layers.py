"""The dense layers of equinox modules."""

from typing import Any

import equinox as eqx

from learndyn.networks.parts.affine import Affine
from learndyn.networks.parts.dense_layers import DenseLayers, kind_of

ALLOWED = "a chain of dense layers: DeepLinear, MLP, eqx.nn.MLP, torch.nn.Sequential"


def no_dense_layers(name: str) -> ValueError:
    """The error for a model that is not a chain of dense layers; `name` is that of its class."""
    return ValueError(f"model: got a {name}; allowed is {ALLOWED}")


def module_layers(module: Any) -> DenseLayers:
    """The dense layers that an equinox module applies one after the other.

    Raises:
        ValueError: for a module with any other part.
    """
    parts = _parts(module)
    if parts is None:
        raise no_dense_layers(type(module).__name__)
    return DenseLayers.from_parts(parts)


def _parts(module: Any) -> list[Any] | None:
    """Layers and kinds of activations, in order; None if the module has other parts."""
    # These classes are equinox's own, so that they cannot state a capability as our networks do.
    affine = lambda layer: Affine(layer.weight, layer.bias)
    if isinstance(module, eqx.nn.MLP):
        inner, last = kind_of(module.activation), kind_of(module.final_activation)
        kinds = [inner] * (len(module.layers) - 1) + [last]
        pairs = zip(module.layers, kinds, strict=True)
        return [part for layer, kind in pairs for part in (affine(layer), kind)]
    if isinstance(module, eqx.nn.Linear):
        return [affine(module)]
    if isinstance(module, eqx.nn.Lambda):
        return [kind_of(module.fn)]
    if isinstance(module, eqx.nn.Identity):
        return []
    if isinstance(module, eqx.nn.Sequential):
        each = [_parts(layer) for layer in module.layers]
        return None if None in each else [part for parts in each if parts for part in parts]
    return None
