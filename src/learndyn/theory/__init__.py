"""Closed macroscopic descriptions of learning, one folder per limit."""

from learndyn.theory.base import AbstractTheory as AbstractTheory
from learndyn.theory.base import Coverage as Coverage
from learndyn.theory.base import NoTheory as NoTheory
from learndyn.theory.base import Reference as Reference
from learndyn.theory.base import Variable as Variable
from learndyn.theory.committee.general.theory import (
    GeneralCommitteeTheory as GeneralCommitteeTheory,
)
from learndyn.theory.committee.state import Overlaps as Overlaps
from learndyn.theory.committee.theory import CommitteeTheory as CommitteeTheory
from learndyn.theory.deep_linear.state import Modes as Modes
from learndyn.theory.deep_linear.theory import DeepLinearTheory as DeepLinearTheory
from learndyn.theory.dynamics import Clock as Clock
from learndyn.theory.dynamics import Flow as Flow
from learndyn.theory.dynamics import Map as Map
from learndyn.theory.dynamics import Noise as Noise
from learndyn.theory.dynamics import Refused as Refused
from learndyn.theory.dynamics import Spread as Spread
from learndyn.theory.infinite_width.network import InfiniteNetwork as InfiniteNetwork
from learndyn.theory.infinite_width.network import infinite as infinite
from learndyn.theory.linearised.batches import LinearisedBatchTheory as LinearisedBatchTheory
from learndyn.theory.linearised.moments import Moments as Moments
from learndyn.theory.linearised.state import Outputs as Outputs
from learndyn.theory.linearised.theory import LinearisedTheory as LinearisedTheory
from learndyn.theory.online.theory import OnlineTheory as OnlineTheory
from learndyn.theory.perturbation.state import Gram as Gram
from learndyn.theory.perturbation.state import Traces as Traces
from learndyn.theory.perturbation.theory import PerturbationTheory as PerturbationTheory
from learndyn.theory.quadratic_model.state import Residuals as Residuals
from learndyn.theory.quadratic_model.theory import QuadraticModelTheory as QuadraticModelTheory
from learndyn.theory.registry import THEORIES as THEORIES
from learndyn.theory.registry import clock_of as clock_of
from learndyn.theory.registry import find_theory as find_theory
from learndyn.theory.registry import register as register
from learndyn.theory.registry import theories as theories
from learndyn.theory.registry import theory_of as theory_of
