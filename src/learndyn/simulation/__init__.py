"""`simulate`: trains the real network."""

from learndyn.simulation.simulate import simulate as simulate
from learndyn.simulation.simulate import update as update
