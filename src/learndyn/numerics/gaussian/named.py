"""Activations by name, and from what users give."""

from typing import Any

from learndyn.numerics.gaussian.activation import Activation
from learndyn.numerics.gaussian.base import AbstractActivation
from learndyn.numerics.gaussian.erf import Erf
from learndyn.numerics.gaussian.erf_sums import Sigmoid, Tanh
from learndyn.numerics.gaussian.linear import Linear
from learndyn.numerics.gaussian.quadratic import Quadratic
from learndyn.numerics.gaussian.ramps import Ramp
from learndyn.numerics.gaussian.sign import Sign
from learndyn.numerics.gaussian.sine import Sine
from learndyn.numerics.gaussian.smooth import Gelu, Softplus, Swish
from learndyn.runtime.checks import one_of, shown

NAMED: dict[str, AbstractActivation] = {
    "linear": Linear(),
    "erf": Erf(),
    "quadratic": Quadratic(),
    "relu": Ramp(0.0),
    "leaky_relu": Ramp(0.01),
    "abs": Ramp(-1.0),
    "tanh": Tanh(),
    "sigmoid": Sigmoid(),
    "gelu": Gelu(),
    "softplus": Softplus(),
    "swish": Swish(),
    "sine": Sine(),
    "sign": Sign(),
}


def activation(name: str, value: Any, teacher: bool = False) -> AbstractActivation:
    """The activation that an argument stands for, or a one-line error.

    Args:
        name: the argument, for the error message.
        value: a name among `NAMED`, an `Activation`, or a JAX function of a number.
        teacher: whether it need not learn, as "sign" cannot.

    Returns:
        The activation.
    """
    if isinstance(value, AbstractActivation):
        found = value
    elif callable(value) and not isinstance(value, type):
        try:
            found = Activation(value)
        except ValueError as error:
            raise ValueError(str(error).replace("function:", f"{name}:", 1)) from error
    else:
        found = NAMED[one_of(name, value, NAMED)]
    if not teacher and not found.trainable:
        allowed = "allowed for teachers only, since it cannot learn"
        raise ValueError(f"{name}: got {shown(value)}; {allowed}")
    return found
