"""A function with its weights, which is what probes look at: ours, of equinox or of PyTorch."""

from learndyn.models.model import Model as Model
from learndyn.models.module import as_model as as_model
from learndyn.models.probeable import Probeable as Probeable
from learndyn.models.taylor import Taylor as Taylor
from learndyn.models.taylor import linearise as linearise
from learndyn.models.taylor import quadratic as quadratic
