"""Affine layers, their parameterisations, activations and output maps."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import NAMED, AbstractActivation
from learndyn.numerics.gaussian import activation as activation_of
from learndyn.runtime.checks import one_of, positive
from learndyn.runtime.types import Array
from learndyn.tangent.taps import tap

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    name: function for name, function in NAMED.items() if function.trainable
}
OUTPUTS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda h: h,
    "softmax": jax.nn.softmax,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
}
PARAMETERISATIONS = ("ntk", "standard")


class Affine(NamedTuple):
    """The weights of one affine layer: (outputs, inputs), or (height, width, inputs, outputs).

    Attributes:
        weight: of the linear part.
        bias: (outputs,), or None for a layer without a bias.
    """

    weight: Array
    bias: Array | None


class Options(NamedTuple):
    """Options that networks of affine layers have in common, checked.

    Attributes:
        activation: a name among `FUNCTIONS`, an `Activation` or a JAX function of a number.
        parameterisation: "ntk" or "standard".
        bias: whether layers have biases.
        output: a name among `OUTPUTS`.
        gain: factor of the initial weights.
    """

    activation: Any
    parameterisation: str
    bias: bool
    output: str
    gain: np.ndarray


def checked(activation: Any, parameterisation: Any, bias: Any, output: Any, gain: Any) -> Options:
    """The options, or a one-line error that names the option that is not allowed."""
    if not callable(activation) or isinstance(activation, type):
        one_of("activation", activation, FUNCTIONS)
    activation_of("activation", activation)
    return Options(
        activation,
        one_of("parameterisation", parameterisation, PARAMETERISATIONS),
        one_of("bias", bias, (False, True)),
        one_of("output", output, OUTPUTS),
        positive("gain", gain),
    )


@functools.lru_cache(maxsize=256)
def function(activation: Any) -> AbstractActivation:
    """The activation that an option stands for; functions are examined once."""
    return activation_of("activation", activation)


def factor(parameterisation: str, fan_in: int) -> float:
    """The factor of the linear part: 1/√fan_in in the parameterisation "ntk", else 1."""
    return 1 / math.sqrt(fan_in) if parameterisation == "ntk" else 1.0


def draw(
    rng: np.random.Generator, shape: Sequence[int], fan_in: Array | int, parameterisation: str,
    gain: Array, bias: int | None,
) -> Affine:  # fmt: skip
    """An affine layer from its initialisation.

    "ntk": all entries are normal, with standard deviation `gain` for weights and 1 for biases.
    "standard": weights have standard deviation gain/√fan_in, biases are 0. The linear part has the
    same distribution in both.
    """
    ntk = parameterisation == "ntk"
    std = gain if ntk else gain / np.sqrt(fan_in)
    weight = std * rng.standard_normal(tuple(shape))
    if bias is None:
        return Affine(weight, None)
    return Affine(weight, rng.standard_normal(bias) if ntk else np.zeros(bias))


def like(shape: Sequence[int], bias: int | None) -> Affine:
    """The shapes of an affine layer."""
    struct = lambda *shape: jax.ShapeDtypeStruct(shape, np.float64)
    return Affine(struct(*shape), None if bias is None else struct(bias))


def node(name: str, linear: Array, bias: Array | None) -> Array:
    """The pre-activation: the linear part with its bias, marked as a node."""
    return tap(name, linear if bias is None else linear + bias)


def dense(name: str, layer: Affine, x: Array, parameterisation: str) -> Array:
    """The pre-activation (…, outputs) of a dense layer for inputs (…, inputs)."""
    scale = factor(parameterisation, layer.weight.shape[-1])
    return node(name, scale * (x @ layer.weight.T), layer.bias)


def convolution(name: str, layer: Affine, x: Array, parameterisation: str, stride: int) -> Array:
    """The pre-activation (batch, height, width, channels) of a convolution with zero padding."""
    kernel = layer.weight.shape[0]
    scale = factor(parameterisation, math.prod(layer.weight.shape[:-1]))
    around = ((kernel - 1) // 2, kernel // 2)  # so that windows are centred on their pixel
    windows = jax.lax.conv_general_dilated(
        x, layer.weight, (stride, stride), (around, around),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    return node(name, scale * windows, layer.bias)


def finish(h: Array, output: str) -> Array:
    """The output map; a last axis of length one is dropped, so that a single output is a scalar."""
    outputs = OUTPUTS[output](h)
    return outputs[..., 0] if h.shape[-1] == 1 else outputs
