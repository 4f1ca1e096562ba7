"""How parameters change: gradient estimator × preconditioner × step."""

from learndyn.rules.base import AbstractDeterministicRule as AbstractDeterministicRule
from learndyn.rules.base import AbstractRule as AbstractRule
from learndyn.rules.gradient import SGD as SGD
from learndyn.rules.gradient import GradientDescent as GradientDescent
from learndyn.rules.natural import NaturalGradient as NaturalGradient
from learndyn.rules.population import map_loss as map_loss
