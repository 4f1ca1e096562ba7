"""Activations by name."""

from typing import Any

from learndyn.numerics.gaussian.base import AbstractActivation
from learndyn.numerics.gaussian.erf import Erf
from learndyn.numerics.gaussian.linear import Linear
from learndyn.numerics.gaussian.quadratic import Quadratic
from learndyn.runtime.checks import one_of

NAMED: dict[str, AbstractActivation] = {
    "linear": Linear(),
    "erf": Erf(),
    "quadratic": Quadratic(),
}


def activation(name: str, value: Any) -> AbstractActivation:
    """The activation that an argument stands for, or a one-line error.

    Args:
        name: the argument, for the error message.
        value: a name among `NAMED`, an `Activation`, or a JAX function of a number.

    Returns:
        The activation.
    """
    if isinstance(value, AbstractActivation):
        return value
    return NAMED[one_of(name, value, NAMED)]
