"""Update rules: gradient estimator × preconditioner × step."""

from learndyn.rules.base import AbstractDeterministicRule as AbstractDeterministicRule
from learndyn.rules.base import AbstractGradientRule as AbstractGradientRule
from learndyn.rules.base import AbstractRule as AbstractRule
from learndyn.rules.base import AbstractSampledRule as AbstractSampledRule
from learndyn.rules.base import Bound as Bound
from learndyn.rules.catapult import CatapultSchedule as CatapultSchedule
from learndyn.rules.control import CatapultControl as CatapultControl
from learndyn.rules.control import Steering as Steering
from learndyn.rules.gradient import SGD as SGD
from learndyn.rules.gradient import GradientDescent as GradientDescent
from learndyn.rules.kfac import KFAC as KFAC
from learndyn.rules.law import StepLaw as StepLaw
from learndyn.rules.natural import NaturalGradient as NaturalGradient
from learndyn.rules.normalisation import normalise_rows as normalise_rows
from learndyn.rules.optax import Optax as Optax
from learndyn.rules.perceptron import AdaTron as AdaTron
from learndyn.rules.perceptron import Hebb as Hebb
from learndyn.rules.perceptron import Perceptron as Perceptron
from learndyn.rules.perturbation import NodePerturbation as NodePerturbation
from learndyn.rules.piecewise import Piecewise as Piecewise
