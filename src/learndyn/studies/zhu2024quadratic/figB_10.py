"""Figs. B.10-B.13: best test loss and accuracy with the activations tanh and swish.

Two layers, as in App. B.14 in the preset `paper`. The preset `quick` has narrow networks on
scikit-learn's digits 3 and 5 in place of the thesis's data. The notes of `fig3_4` say what was
chosen after trials.
"""

import xarray as xr

from learndyn.studies.claims import Claim
from learndyn.studies.zhu2024quadratic import _generalisation
from learndyn.studies.zhu2024quadratic._generalisation import SMALL, Params, name_of, with_files

TITLE = "Tanh and swish: catapults improve networks and their quadratic twins alike"
DIFFERS = "SVHN (Fig. B.13) is not run; all else as in fig3_4"
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
PRESETS = {
    "quick": Params(("digits fc2 swish gd", "digits fc2 tanh gd"), width=512, **SMALL),
    "paper": Params(with_files(PANELS)),
}
CLAIMS = _generalisation.CLAIMS
_TANH = "quadratic twins of tanh networks diverge at 1.8 η_crit, below 2 η_crit"
FAILS = {
    "quick": {
        name_of("converge", "digits fc2 tanh gd"): _TANH,
        name_of("smaller", "digits fc2 tanh gd", "f_quad"): _TANH,
        name_of("accuracy", "digits fc2 tanh gd", "f_quad"): _TANH,
    }
}
PARTS = _generalisation.PARTS
compute, draw = _generalisation.compute, _generalisation.draw


def check(data: xr.Dataset) -> list[Claim]:
    """The observations of Section 3.4, panel by panel."""
    return _generalisation.check(data, PANELS)
