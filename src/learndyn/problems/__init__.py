"""Where examples come from and what they are called."""

from learndyn.problems.base import AbstractProblem as AbstractProblem
from learndyn.problems.base import MapStatistics as MapStatistics
from learndyn.problems.dataset import Dataset as Dataset
from learndyn.problems.inputs import Gaussian as Gaussian
from learndyn.problems.spectra import Isotropic as Isotropic
from learndyn.problems.spectra import PowerLaw as PowerLaw
from learndyn.problems.spectra import Spectrum as Spectrum
from learndyn.problems.teacher_student import TeacherStudent as TeacherStudent
