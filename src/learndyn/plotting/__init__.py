"""Figures of records and of sweeps."""

from learndyn.plotting.legend import legend as legend
from learndyn.plotting.legend import shared_legend as shared_legend
from learndyn.plotting.panels import panels as panels
from learndyn.plotting.plot import curves as curves
from learndyn.plotting.plot import plot as plot
from learndyn.plotting.style import style as style
from learndyn.plotting.swept import plot_swept as plot_swept
