"""learndyn predicts how neural networks learn, and checks the prediction."""

from learndyn import analysis as analysis
from learndyn.analysis import compare as compare
from learndyn.networks import Committee as Committee
from learndyn.networks import Normal as Normal
from learndyn.networks import Orthonormal as Orthonormal
from learndyn.networks import Typical as Typical
from learndyn.plotting import plot as plot
from learndyn.problems import Gaussian as Gaussian
from learndyn.problems import Isotropic as Isotropic
from learndyn.problems import PowerLaw as PowerLaw
from learndyn.problems import Spectrum as Spectrum
from learndyn.problems import TeacherStudent as TeacherStudent
from learndyn.records import load as load
from learndyn.records import save as save
from learndyn.rules import SGD as SGD
from learndyn.rules import GradientDescent as GradientDescent
from learndyn.simulation import simulate as simulate
from learndyn.simulation import update as update
from learndyn.solving import solve as solve
from learndyn.start import Start as Start
from learndyn.start import start as start
from learndyn.system import System as System
from learndyn.theory import NoTheory as NoTheory
from learndyn.theory import Overlaps as Overlaps
from learndyn.theory import theory_of as theory_of
