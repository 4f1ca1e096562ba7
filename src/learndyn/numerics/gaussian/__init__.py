"""Gaussian averages in closed form, one file for each activation."""

from learndyn.numerics.gaussian.base import AbstractActivation as AbstractActivation
from learndyn.numerics.gaussian.base import tabulate as tabulate
from learndyn.numerics.gaussian.erf import Erf as Erf
from learndyn.numerics.gaussian.linear import Linear as Linear
from learndyn.numerics.gaussian.named import NAMED as NAMED
from learndyn.numerics.gaussian.named import activation as activation
from learndyn.numerics.gaussian.quadratic import Quadratic as Quadratic
from learndyn.numerics.gaussian.units import Units as Units

ACTIVATIONS: dict[str, AbstractActivation] = {
    "linear": Linear(),
    "erf": Erf(),
    "quadratic": Quadratic(),
}
