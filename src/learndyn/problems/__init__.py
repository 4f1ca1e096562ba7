"""Problems: where examples and their labels come from, and the loss."""

from learndyn.problems.base import AbstractProblem as AbstractProblem
from learndyn.problems.base import MapStatistics as MapStatistics
from learndyn.problems.dataset import Dataset as Dataset
from learndyn.problems.examples import Examples as Examples
from learndyn.problems.inputs import Gaussian as Gaussian
from learndyn.problems.losses import AbstractLoss as AbstractLoss
from learndyn.problems.losses import CrossEntropy as CrossEntropy
from learndyn.problems.losses import SquaredLoss as SquaredLoss
from learndyn.problems.mixture import Commuting as Commuting
from learndyn.problems.mixture import LabelledMixture as LabelledMixture
from learndyn.problems.mixture import Mixture as Mixture
from learndyn.problems.spectra import Isotropic as Isotropic
from learndyn.problems.spectra import PowerLaw as PowerLaw
from learndyn.problems.spectra import Spectrum as Spectrum
from learndyn.problems.teacher_student import TeacherStudent as TeacherStudent
from learndyn.problems.teacher_student import map_loss as map_loss
