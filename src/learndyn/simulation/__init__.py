"""`simulate`: trains the real network."""

from learndyn.simulation.one_step import measure_drift as measure_drift
from learndyn.simulation.one_step import update as update
from learndyn.simulation.simulate import simulate as simulate
