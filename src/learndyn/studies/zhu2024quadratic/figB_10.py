"""Figs. B.10-B.13: best test loss and accuracy with the activations tanh and swish.

Two layers, as App. B.14 has them in the preset `paper`. The preset `quick` has narrow networks on
scikit-learn's digits 3 and 5 in place of the thesis's data.
"""

import xarray as xr
from matplotlib.figure import Figure

from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024quadratic import _generalisation
from learndyn.studies.zhu2024quadratic._generalisation import Params

TITLE = "Tanh and swish: catapults improve networks and their quadratic twins alike"
PANELS = {
    f"{data} {network} {activation} gd": f"Fig. {figure} ({part})"
    for data, network, figure in (
        ("agnews", "fc2", "B.10"),
        ("fsdd", "fc2", "B.11"),
        ("cifar10", "cnn", "B.12"),
        ("svhn", "cnn", "B.13"),
    )
    for activation, part in (("swish", "a"), ("tanh", "b"))
}
QUICK = "digits fc2 swish gd", "digits fc2 tanh gd"
PRESETS = {
    "quick": Params(QUICK, width=512, test=300, steps=100, readings=20,
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
