"""Figs. 3.2 (b), 3.4 and B.5-B.7: best test loss and accuracy against the learning rate.

Two layers, relu, as in App. B.14 in the preset `paper`. The preset `quick` has narrow networks on
scikit-learn's digits 3 and 5 in place of the thesis's data.

Notes: docs/results/zhu2024quadratic/fig3_4/notes.md.
"""

import xarray as xr

from learndyn.studies.claims import Claim
from learndyn.studies.zhu2024quadratic import _generalisation
from learndyn.studies.zhu2024quadratic._generalisation import SMALL, Params, name_of, with_files

TITLE = "Catapults improve the test loss of networks and their quadratic twins alike"
DIFFERS = (
    "SVHN is not run; widths, examples and 5 runs are the thesis's, but FSDD has 344 tests "
    "instead of 2000; steps and most classes are not stated, here 500 at η_crit"
)
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
    "quick": Params(QUICK, width=512, channels=32, **SMALL),
    "paper": Params(with_files(PANELS)),
}
CLAIMS = _generalisation.CLAIMS
FAILS = {
    "quick": {
        name_of("converge", "digits cnn relu gd"):
            "some networks of 32 channels diverge at 1.8 η_crit; the thesis has 1000",
    }
}  # fmt: skip
PARTS = _generalisation.PARTS
compute, draw = _generalisation.compute, _generalisation.draw


def check(data: xr.Dataset) -> list[Claim]:
    """The observations of Section 3.4, panel by panel."""
    return _generalisation.check(data, PANELS)
