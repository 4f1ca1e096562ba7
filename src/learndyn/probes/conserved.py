"""What gradient flow conserves between layers."""

from typing import Any

from learndyn.networks import as_model
from learndyn.networks.affine import Affine
from learndyn.numerics.types import Array
from learndyn.probes.examples import untraced


def conserved(model: Any) -> tuple[Array, ...]:
    """What gradient flow on any loss leaves as it is, for every pair of neighbouring layers.

    With h_l = W_l g(h_{l−1}) + b_l: where g is linear, W_{l+1}ᵀ W_{l+1} − W_l W_lᵀ − b_l b_lᵀ, a
    matrix; where it is relu or leaky, its diagonal, neuron by neuron. A factor in front of W_l, as
    in the parameterisation "ntk", does not enter. A step of rate η moves it by O(η²).

    Args:
        model: a chain of dense layers: `DeepLinear`, `MLP`, `eqx.nn.MLP`, `torch.nn.Sequential`.

    Returns:
        One array for every hidden layer: (units, units), or (units,).

    Raises:
        ValueError: for other activations and other networks.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.DeepLinear([2, 1, 1]), (np.array([[1.0, 2.0]]), np.array([[3.0]])))
        >>> ld.probes.conserved(model)[0].tolist()
        [[4.0]]
    """
    layers, kinds = as_model(model).chain()
    if len(layers) < 2:
        raise ValueError(f"model: got {len(layers)} layer(s); allowed are at least two")
    if "other" in kinds[:-1]:
        at = kinds.index("other") + 1
        raise ValueError(
            f"model: got an activation behind layer {at} that is not positively homogeneous; "
            "allowed are linear layers, relu and leaky relu, where something is conserved"
        )
    pairs = zip(layers[:-1], layers[1:], kinds[:-1], strict=True)
    return tuple(untraced(_difference(*pair)) for pair in pairs)


def _difference(before: Affine, after: Affine, kind: str) -> Array:
    W, b, V = before.weight, before.bias, after.weight
    if kind == "linear":
        outer = 0 if b is None else b[:, None] * b
        return V.T @ V - W @ W.T - outer
    return (V**2).sum(0) - (W**2).sum(1) - (0 if b is None else b**2)
