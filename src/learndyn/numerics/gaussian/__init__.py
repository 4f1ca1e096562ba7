"""Activations and their Gaussian averages.

Each file of an activation says what is known of it; `units` chooses how averages are computed.
"""

from learndyn.numerics.gaussian.activation import Activation as Activation
from learndyn.numerics.gaussian.base import AbstractActivation as AbstractActivation
from learndyn.numerics.gaussian.base import AbstractClosedForm as AbstractClosedForm
from learndyn.numerics.gaussian.base import tabulate as tabulate
from learndyn.numerics.gaussian.erf import Erf as Erf
from learndyn.numerics.gaussian.linear import Linear as Linear
from learndyn.numerics.gaussian.named import NAMED as NAMED
from learndyn.numerics.gaussian.named import activation as activation
from learndyn.numerics.gaussian.quadratic import Quadratic as Quadratic
from learndyn.numerics.gaussian.units import Units as Units

# Those with closed forms of every average over one function.
ACTIVATIONS: dict[str, AbstractClosedForm] = {
    "linear": Linear(),
    "erf": Erf(),
    "quadratic": Quadratic(),
}
