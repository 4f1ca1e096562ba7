"""How parameters change: gradient estimator × preconditioner × step."""

from learndyn.rules.base import AbstractRule as AbstractRule
from learndyn.rules.gradient import SGD as SGD
from learndyn.rules.gradient import GradientDescent as GradientDescent
