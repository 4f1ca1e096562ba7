"""`solve`: integrates a theory."""

from learndyn.solving.solve import solve as solve
from learndyn.solving.suggesting import suggest_times as suggest_times
