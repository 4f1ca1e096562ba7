"""Losses of classification into two classes: functions of the margin label × output."""

import abc

import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.problems.losses import AbstractLoss, as_outputs
from learndyn.runtime.bounds import NON_NEGATIVE, bounded
from learndyn.runtime.checks import non_negative
from learndyn.runtime.types import Array, Number


class AbstractMarginLoss(AbstractLoss):
    """A function of the margin, the output times the label −1 or +1.

    The label is the sign of the target: Gaussian noise on the targets of a teacher that gives ±1
    turns a label with the probability Φ(−1/label_noise). Networks have a single output.
    """

    @abc.abstractmethod
    def of_margin(self, margin: Array) -> Array:
        """The loss of every margin, elementwise."""

    @property
    def jump(self) -> Array | None:
        """The margin at which the slope jumps; None if it is continuous."""
        return None

    def each(self, output: Array, target: Array, axes: int) -> Array:
        losses = self.of_margin(output * jnp.sign(as_outputs(output, target, axes)))
        return jnp.sum(losses, axis=tuple(range(-axes, 0))) if axes else losses

    def check_outputs(self, shape: tuple[int, ...]) -> None:
        if int(np.prod(shape)) != 1:
            raise ValueError(
                f"loss: got {type(self).__name__} for {int(np.prod(shape))} outputs; allowed is one"
            )

    def check_numbers(self, name: str, target: np.ndarray) -> None:
        if not np.all(target):
            raise ValueError(f"{name}: got 0, which has no sign; allowed are other numbers")

    def check_network(self, network: AbstractNetwork) -> None:
        if not network.gives_logits:
            raise ValueError(
                f"loss: got {type(self).__name__} for a network with an output map; allowed is "
                "output='identity'"
            )


class Logistic(AbstractMarginLoss):
    """log(1 + exp(−label · output)), with the sign of the target as the label.

    For labels ±1 it is `CrossEntropy` of a single output.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> round(float(ld.Logistic()(np.zeros(1), np.ones(1), 0)), 4)
        0.6931
    """

    def of_margin(self, margin: Array) -> Array:
        return jnp.logaddexp(0.0, -margin)


@bounded(margin=NON_NEGATIVE)
class Hinge(AbstractMarginLoss):
    """max(0, margin − label · output), with the sign of the target as the label.

    Args:
        margin: the margin from which on an example costs nothing; 0 is the loss of the perceptron.

    Raises:
        ValueError: for a negative margin.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> float(ld.Hinge()(np.array([0.25]), np.array([1.0]), 0))
        0.75
    """

    margin: np.ndarray

    def __init__(self, margin: Number = 1.0):
        self.margin = non_negative("margin", margin)

    @property
    def jump(self) -> Array | None:
        return self.margin

    def of_margin(self, margin: Array) -> Array:
        kappa = jnp.asarray(self.margin).astype(margin.dtype)
        # At the kink itself the slope is −1: a perceptron with zero weights learns.
        return jnp.where(margin <= kappa, kappa - margin, 0.0)


class HebbianLoss(AbstractMarginLoss):
    """−label · output, whose gradient is Hebb's rule."""

    def of_margin(self, margin: Array) -> Array:
        return -margin


class AdaTronLoss(AbstractMarginLoss):
    """(label · output)²/2 of examples with the wrong sign, whose gradient is the AdaTron rule."""

    def of_margin(self, margin: Array) -> Array:
        return jnp.where(margin < 0, margin**2 / 2, 0.0)
