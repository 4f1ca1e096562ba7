"""Quantities that gradient flow conserves between layers."""

from typing import Any

from learndyn.models import as_model
from learndyn.networks.parts.affine import Affine
from learndyn.probes.arguments import untraced
from learndyn.runtime.types import Array


def conserved(model: Any) -> tuple[Array, ...]:
    """The quantities that gradient flow conserves for any loss, per pair of neighbouring layers.

    With h_l = W_l g(h_{l−1}) + b_l this is the matrix W_{l+1}ᵀ W_{l+1} − W_l W_lᵀ − b_l b_lᵀ if g
    is linear, and only its diagonal, one number per neuron, if g is relu or leaky relu. A factor in
    front of W_l, as in the parameterisation "ntk", does not enter. A step with learning rate η
    changes it by O(η²).

    Args:
        model: a chain of dense layers: `DeepLinear`, `MLP`, `eqx.nn.MLP`, `torch.nn.Sequential`.

    Returns:
        One array per hidden layer: (units, units), or (units,).

    Raises:
        ValueError: for other activations and other networks.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.DeepLinear([2, 1, 1]), (np.array([[1.0, 2.0]]), np.array([[3.0]])))
        >>> ld.probes.conserved(model)[0].tolist()
        [[4.0]]
    """
    layers, kinds = as_model(model).dense_layers()
    if len(layers) < 2:
        raise ValueError(f"model: got {len(layers)} layer(s); allowed are at least two")
    if "other" in kinds[:-1]:
        at = kinds.index("other") + 1
        raise ValueError(
            f"model: got an activation after layer {at} that is not positively homogeneous; "
            "allowed are linear layers, relu and leaky relu"
        )
    pairs = zip(layers[:-1], layers[1:], kinds[:-1], strict=True)
    return tuple(untraced(_difference(*pair)) for pair in pairs)


def _difference(before: Affine, after: Affine, kind: str) -> Array:
    W, b, V = before.weight, before.bias, after.weight
    if kind == "linear":
        outer = 0 if b is None else b[:, None] * b
        return V.T @ V - W @ W.T - outer
    return (V**2).sum(0) - (W**2).sum(1) - (0 if b is None else b**2)
