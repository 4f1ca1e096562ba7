"""Losses of outputs and targets, summed over outputs."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.checks import instance, integer, positive
from learndyn.runtime.types import Array, Number
from learndyn.runtime.values import Value

# √ε of float32: by how much probabilities may differ from 1, as in `numpy.random.choice`.
ROUNDING = 3.5e-4


class AbstractLoss(Value):
    """A loss of outputs and targets.

    Targets are numbers in the shape of the outputs, or integer labels, one per example. For a
    single output, labels 0 and 1 stand for −1 and +1.
    """

    @abc.abstractmethod
    def each(self, output: Array, target: Array, axes: int) -> Array:
        """The loss of every example, summed over outputs.

        Args:
            output: (examples, *output shape), with any number of axes for examples.
            target: of the same shape, or labels (examples,).
            axes: the number of axes of the output shape.

        Returns:
            The losses, (examples,).
        """

    def check_network(self, network: AbstractNetwork) -> None:
        """Raises a ValueError if the network's outputs do not fit the loss."""

    def check_outputs(self, shape: tuple[int, ...]) -> None:
        """Raises a ValueError if the outputs of an example, of this shape, do not fit the loss."""

    def check_numbers(self, name: str, target: np.ndarray) -> None:
        """Raises a ValueError if numbers, (examples, …), are not valid targets of the loss."""

    @property
    def counts_all(self) -> bool:
        """Whether the mean is over all examples, independent of their labels."""
        return True

    def counted(self, target: Array) -> Array | None:
        """Which labels enter the mean, as bools of their shape; None if all do."""
        return None

    def positions(self, shape: tuple[int, ...]) -> int:
        """The number of terms that one example has in the mean, by the shape of its outputs."""
        return 1

    def terms(self, target: Array) -> int:
        """The number of terms of the mean."""
        return len(target)

    def label_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one example's labels, by that of its outputs."""
        return ()

    def __call__(self, output: Array, target: Array, axes: int) -> Array:
        """The mean over the examples that count; 0 if there are none."""
        losses, counted = self.each(output, target, axes), self.counted(target)
        if counted is None:
            positions = self.positions(output.shape[output.ndim - axes :])
            return jnp.mean(losses) if positions == 1 else jnp.mean(losses) / positions
        return jnp.sum(losses) / jnp.maximum(jnp.sum(counted), 1).astype(losses.dtype)


@bounded(scale=POSITIVE)
class SquaredLoss(AbstractLoss):
    """scale · |target − output|²; labels are one-hot encoded.

    Args:
        scale: the factor, 1/2 by default.

    Raises:
        ValueError: if `scale` is not positive.

    Example:
        >>> import learndyn as ld
        >>> ld.SquaredLoss(1 / 3)  # PyTorch's mean over three outputs
        SquaredLoss(scale=0.3333333333333333)
    """

    scale: np.ndarray

    def __init__(self, scale: Number = 0.5):
        self.scale = positive("scale", scale)

    def each(self, output: Array, target: Array, axes: int) -> Array:
        squared = (as_outputs(output, target, axes) - output) ** 2
        summed = jnp.sum(squared, axis=tuple(range(-axes, 0))) if axes else squared
        return jnp.asarray(self.scale).astype(output.dtype) * summed


class CrossEntropy(AbstractLoss):
    """−log of the probability that the softmax of the outputs gives to the label.

    Targets may also be probabilities of all classes. A single output is the logit of label 1;
    targets that are floats are then −1 and +1. Classes are the last axis of outputs with several
    axes, (examples, tokens, classes); each of the others has its own label, and the mean is over
    all labels.

    Args:
        ignore_index: a label whose examples are ignored: their loss is 0, and the mean is over the
            others, as in PyTorch. A batch of only such examples has loss 0. None ignores nothing.

    Raises:
        ValueError: for an `ignore_index` that is not an integer.

    Example:
        >>> import learndyn as ld
        >>> ld.CrossEntropy(ignore_index=-100)
        CrossEntropy(ignore_index=-100)
    """

    ignore_index: int | None = eqx.field(static=True)

    def __init__(self, ignore_index: int | None = None):
        self.ignore_index = None if ignore_index is None else integer("ignore_index", ignore_index)

    @property
    def counts_all(self) -> bool:
        return self.ignore_index is None

    def counted(self, target: Array) -> Array | None:
        return None if self.counts_all or not is_labels(target) else target != self.ignore_index

    def positions(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[:-1])

    def terms(self, target: Array) -> int:
        counted = self.counted(target)
        if counted is not None:
            return int(counted.sum())
        several = is_labels(target) or target.ndim < 2  # numbers have an axis of classes besides
        return target.size if several else math.prod(target.shape[:-1])

    def label_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:-1]

    def each(self, output: Array, target: Array, axes: int) -> Array:
        counted = self.counted(target)
        if counted is None:
            losses = self._each(output, target, axes)
        else:
            # Ignored labels may be out of range, −100 for instance: 0 is used as an index.
            inside = jnp.where(counted, target, 0)
            losses = jnp.where(counted, self._each(output, inside, axes), 0)
        return jnp.sum(losses, axis=tuple(range(1 - axes, 0))) if axes > 1 else losses

    def _each(self, output: Array, target: Array, axes: int) -> Array:
        if axes == 0 or output.shape[-1] == 1:
            single = as_outputs(output, target, axes)
            losses = jax.nn.softplus(-single * output)  # log(1 + exp(−y·f)) without overflow
            return losses if axes == 0 else losses[..., 0]
        logs = jax.nn.log_softmax(output)
        if is_labels(target):
            return -jnp.take_along_axis(logs, target[..., None], axis=-1)[..., 0]
        return -jnp.sum(target * logs, axis=-1)

    def check_numbers(self, name: str, target: np.ndarray) -> None:
        if target.ndim == 1 or target.shape[-1] == 1:
            other = target[abs(target) != 1]
            if other.size:
                raise ValueError(
                    f"{name}: got {other[0]:g} for one output; allowed with CrossEntropy are "
                    "integer labels 0 and 1, or −1 and +1 as floats"
                )
            return
        sums = target.sum(axis=-1, dtype=np.float64)
        worst = sums.flat[np.argmax(abs(sums - 1))]
        if target.min() < -ROUNDING or abs(worst - 1) > ROUNDING:
            came = f"the entry {target.min():g}" if target.min() < -ROUNDING else f"a sum {worst:g}"
            raise ValueError(
                f"{name}: got {came}; allowed with CrossEntropy are integer labels, or "
                "probabilities of all classes, which sum to 1"
            )

    def check_network(self, network: AbstractNetwork) -> None:
        if not network.gives_logits:
            raise ValueError(
                "loss: got CrossEntropy, which applies a softmax itself, for a network with an "
                "output map; allowed is output='identity'"
            )


def is_labels(target: Any) -> bool:
    """Whether targets are integer labels."""
    return jnp.issubdtype(target.dtype, jnp.integer)


def is_right(output: Array, labels: Array) -> Array:
    """Whether the largest output, or the sign of a single one, gives the label, (examples,)."""
    flat = output.reshape(len(labels), -1)
    predicted = flat[:, 0] > 0 if flat.shape[1] == 1 else jnp.argmax(flat, axis=1)
    return predicted == labels


def as_outputs(output: Array, target: Array, axes: int) -> Array:
    """Targets as numbers in the shape of the output."""
    if not is_labels(target):
        return target.reshape(output.shape)
    if axes == 0 or output.shape[-1] == 1:
        return (2 * target - 1).astype(output.dtype).reshape(output.shape)
    return jax.nn.one_hot(target, output.shape[-1], dtype=output.dtype)


def loss_given(loss: Any, loss_scale: Number | None) -> AbstractLoss:
    """The loss from two arguments: a loss, or the scale of a squared loss."""
    if loss is not None and loss_scale is not None:
        raise ValueError("loss_scale: got a number as well as `loss`; allowed is one of the two")
    if loss is None:
        return SquaredLoss(0.5 if loss_scale is None else positive("loss_scale", loss_scale))
    return instance("loss", loss, AbstractLoss, "SquaredLoss(scale) or CrossEntropy()")
