"""Figs. B.8 and B.9: best test accuracy and loss of networks of three layers.

Relu, gradient descent, 100 examples to train and 500 to test (App. B.14). The thesis does
not say the width: 1000 in the preset `paper`. The preset `quick` has scikit-learn's digits 3 and 5
in place of the thesis's data. The notes of `fig3_4` say what was chosen after trials.
"""

import xarray as xr

from learndyn.studies.claims import Claim
from learndyn.studies.zhu2024quadratic import _generalisation
from learndyn.studies.zhu2024quadratic._generalisation import SMALL, Params, with_files

TITLE = "Three layers: catapults improve networks and their quadratic twins alike"
DIFFERS = (
    "the width is not stated, here 1000; 100 to train, 500 to test and 5 runs are the thesis's; "
    "SVHN (Fig. B.8 b) is not run"
)
PANELS = {
    "cifar10 fc3 relu gd": "Fig. B.8 (a)",
    "fsdd fc3 relu gd": "Fig. B.9 (a)",
    "agnews fc3 relu gd": "Fig. B.9 (b)",
    "svhn fc3 relu gd": "Fig. B.8 (b)",
}
PRESETS = {
    "quick": Params(("digits fc3 relu gd",), width=384, **SMALL),
    "paper": Params(with_files(PANELS), width=1000, examples=100, test=500),
}
CLAIMS = _generalisation.CLAIMS
PARTS = _generalisation.PARTS
compute, draw = _generalisation.compute, _generalisation.draw


def check(data: xr.Dataset) -> list[Claim]:
    """The observations of Section 3.4, panel by panel."""
    return _generalisation.check(data, PANELS)
