"""Analyses of records: comparisons, fits, plateaus, escape times, catapults."""

from learndyn.analysis.catapults import Catapults as Catapults
from learndyn.analysis.catapults import Excess as Excess
from learndyn.analysis.catapults import Match as Match
from learndyn.analysis.catapults import Spike as Spike
from learndyn.analysis.catapults import find_catapults as find_catapults
from learndyn.analysis.compare import compare as compare
from learndyn.analysis.compare import mean_and_error as mean_and_error
from learndyn.analysis.correlation import partial_correlation as partial_correlation
from learndyn.analysis.escape import escape_time as escape_time
from learndyn.analysis.escape import fall_time as fall_time
from learndyn.analysis.fits import Fit as Fit
from learndyn.analysis.fits import doubling_rate as doubling_rate
from learndyn.analysis.fits import fit_line as fit_line
from learndyn.analysis.fits import fit_minimum as fit_minimum
from learndyn.analysis.fits import fit_parabola as fit_parabola
from learndyn.analysis.fits import fit_rate as fit_rate
from learndyn.analysis.fits import proportional as proportional
from learndyn.analysis.plateau import Plateau as Plateau
from learndyn.analysis.plateau import find_plateau as find_plateau
from learndyn.analysis.power_laws import CutPowerLaw as CutPowerLaw
from learndyn.analysis.power_laws import cut_power_law_tolerance as cut_power_law_tolerance
from learndyn.analysis.power_laws import fit_cut_power_law as fit_cut_power_law
from learndyn.analysis.power_laws import fit_power_law as fit_power_law
from learndyn.theory.committee.invariant_observables import invariants as invariants
