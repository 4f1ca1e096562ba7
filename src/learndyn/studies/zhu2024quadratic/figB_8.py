"""Figs. B.8 and B.9: best test accuracy and loss of networks of three layers.

Relu, gradient descent, 100 examples to train and 500 to test (App. B.14). The width is not said:
1000 in the preset `paper`. The preset `quick` has scikit-learn's digits 3 and 5 in place of the
thesis's data.
"""

import xarray as xr
from matplotlib.figure import Figure

from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024quadratic import _generalisation
from learndyn.studies.zhu2024quadratic._generalisation import Params

TITLE = "Three layers: catapults improve networks and their quadratic twins alike"
PANELS = {
    "cifar10 fc3 relu gd": "Fig. B.8 (a)",
    "fsdd fc3 relu gd": "Fig. B.9 (a)",
    "agnews fc3 relu gd": "Fig. B.9 (b)",
    "svhn fc3 relu gd": "Fig. B.8 (b)",
}
PRESETS = {
    "quick": Params(("digits fc3 relu gd",), width=384, test=300, steps=100, readings=20,
                    rates=(0.6, 0.9, 1.2, 1.5, 2.4)),
    "paper": Params(tuple(name for name in PANELS if "svhn" not in name), width=1000,
                    examples=100, test=500),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Bests and outcomes of every panel, run, model and rate."""
    return _generalisation.compute(params, report)


def draw(data: xr.Dataset) -> Figure:
    """Best test losses and accuracies against the rate, a row for each panel."""
    return _generalisation.draw(data)


def check(data: xr.Dataset) -> list[Claim]:
    """The observations of Section 3.4, panel by panel."""
    return _generalisation.check(data, PANELS)
