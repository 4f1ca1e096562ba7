"""Losses: of an output and a target, summed over outputs."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.numerics.checks import instance, positive
from learndyn.numerics.types import Array, Number
from learndyn.numerics.values import Value


class AbstractLoss(Value):
    """A loss of outputs and targets.

    Targets are numbers of the outputs' shape, or integer labels, one an example. With a single
    output, labels 0 and 1 stand for −1 and +1.
    """

    @abc.abstractmethod
    def each(self, output: Array, target: Array, axes: int) -> Array:
        """The loss of every example, summed over outputs.

        Args:
            output: (examples, *output shape); the examples' axes may be any number.
            target: of the same shape, or labels (examples).
            axes: the length of the output shape.

        Returns:
            The losses, (examples).
        """

    def check_network(self, network: AbstractNetwork) -> None:
        """Raises a ValueError where the network's outputs do not suit the loss."""

    def __call__(self, output: Array, target: Array, axes: int) -> Array:
        """The mean over the examples."""
        return jnp.mean(self.each(output, target, axes))


class SquaredLoss(AbstractLoss):
    """scale · |target − output|²; labels are one-hot.

    Args:
        scale: the factor, 1/2 by default.
    """

    scale: np.ndarray

    def __init__(self, scale: Number = 0.5):
        self.scale = positive("scale", scale)

    def each(self, output: Array, target: Array, axes: int) -> Array:
        squared = (_targets(output, target, axes) - output) ** 2
        summed = jnp.sum(squared, axis=tuple(range(-axes, 0))) if axes else squared
        return jnp.asarray(self.scale).astype(output.dtype) * summed


class CrossEntropy(AbstractLoss):
    """−log of the probability that the softmax of the outputs gives to the label.

    Targets may also be probabilities of all classes. A single output is the logit of label 1.
    """

    def each(self, output: Array, target: Array, axes: int) -> Array:
        if axes == 0 or output.shape[-1] == 1:
            single = _targets(output, target, axes)
            found = jax.nn.softplus(-single * output)
            return found if axes == 0 else found[..., 0]
        logs = jax.nn.log_softmax(output)
        if is_labels(target):
            return -jnp.take_along_axis(logs, target[..., None], axis=-1)[..., 0]
        return -jnp.sum(target * logs, axis=-1)

    def check_network(self, network: AbstractNetwork) -> None:
        if not network.gives_logits:
            raise ValueError(
                "loss: got CrossEntropy, which has a softmax of its own, for outputs that have "
                "one; allowed is output='identity'"
            )


def is_labels(target: Any) -> bool:
    """Whether targets are integer labels."""
    return jnp.issubdtype(target.dtype, jnp.integer)


def is_right(output: Array, labels: Array) -> Array:
    """Whether the largest output, or the sign of the only one, is the label, (examples,)."""
    flat = output.reshape(len(labels), -1)
    said = flat[:, 0] > 0 if flat.shape[1] == 1 else jnp.argmax(flat, axis=1)
    return said == labels


def _targets(output: Array, target: Array, axes: int) -> Array:
    """Targets as numbers of the output's shape."""
    if not is_labels(target):
        return target.reshape(output.shape)
    if axes == 0 or output.shape[-1] == 1:
        return (2 * target - 1).astype(output.dtype).reshape(output.shape)
    return jax.nn.one_hot(target, output.shape[-1], dtype=output.dtype)


def loss_given(loss: AbstractLoss | None, loss_scale: Number | None) -> AbstractLoss:
    """The loss that two arguments mean: a loss itself, or the scale of a squared one."""
    if loss is not None and loss_scale is not None:
        raise ValueError("loss_scale: got one beside `loss`; allowed is one of the two")
    if loss is None:
        return SquaredLoss(0.5 if loss_scale is None else _scale(loss_scale))
    return instance("loss", loss, AbstractLoss, "SquaredLoss(scale) or CrossEntropy()")


def _scale(loss_scale: Number) -> np.ndarray:
    return positive("loss_scale", loss_scale)
