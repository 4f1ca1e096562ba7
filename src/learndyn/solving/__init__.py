"""`solve`: integrates a theory."""

from learndyn.solving.solve import solve as solve
