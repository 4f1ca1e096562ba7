"""Figs. 3.2 (b), 3.4 and B.5-B.7: best test loss and accuracy against the learning rate.

Two layers, relu, as App. B.14 has them in the preset `paper`. The preset `quick` has narrow
networks on scikit-learn's digits 3 and 5 in place of the thesis's data.
"""

import xarray as xr
from matplotlib.figure import Figure

from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024quadratic import _generalisation
from learndyn.studies.zhu2024quadratic._generalisation import Params

TITLE = "Catapults improve the test loss of networks and their quadratic twins alike"
PANELS = {
    "mnist fc2 relu gd": "Figs. 3.2 (b), 3.4, B.5 (a)",
    "agnews fc2 relu gd": "Figs. 3.4, B.5 (b)",
    "cifar10 fc2 relu sgd": "Figs. 3.4, B.6 (a)",
    "cifar10 cnn relu gd": "Figs. 3.4, B.7 (b)",
    "fsdd fc2 relu gd": "Figs. 3.4, B.7 (a)",
    "svhn cnn relu gd": "Figs. 3.4, B.6 (b)",
}
QUICK = "digits fc2 relu gd", "digits fc2 relu sgd", "digits cnn relu gd"
PRESETS = {
    "quick": Params(QUICK, width=512, channels=32, test=300, steps=100, readings=20,
                    rates=(0.6, 0.9, 1.2, 1.5, 2.4)),
    "paper": Params(tuple(name for name in PANELS if "svhn" not in name)),
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
