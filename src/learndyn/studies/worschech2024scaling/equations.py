"""Printed equations that are wrong: printed, corrected and measured.

Each is measured by something that does not contain it: trained students, single SGD steps, samples
of the pre-activations, dense algebra, Newton and autodiff on the equations of motion. The paper has
no such figure; the quick preset averages less than the paper preset. Eqs. 84, 96 and the exponent
of Eq. 115 are in fig15 and plateau_exact. At T = 1, as in the paper's figures, the printed
prefactor of Eq. 115 is right: T and ((1+T)/2)² are both 1, and only the factor 2 in the exponent is
missing. Here T is not 1. The steps for Eq. 18 have η = 20, at which no student would learn: the
scatter of the part ∝ η is small beside the part ∝ η².

Notes: docs/results/worschech2024scaling/equations/notes.md.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.printed import finish, rows_figure, table
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._misprints import MEASUREMENTS, Params

TITLE = "Misprints: printed, corrected and measured values of twelve equations"
DIFFERS = "the paper has no such figure"
LEFT, EXACT = 1e-13, 2e-13  # end of the figure's axis; below, deviations are drawn as arrows
QUANTITIES = {  # of the equations, with the sizes that they are measured at
    "6": "ε_g of a linear student, η = 0.5, α = 2",
    "11": "ε_g with N_l = 50 of L = 1000 directions trained, α = 100",
    "17, 122": "largest decay rate over a λ₁, M = 3",
    "18, dR": "dR^(0)_11/dα over η, K = 2, M = 3",
    "18, dQ": "part η² of dQ^(0)_11/dα over η², K = 2, M = 3",
    "19": "ε_g, K = 2, M = 3",
    "25": "dR^(L−1)/dα of a linear student",
    "44": "(A₄⁻¹)₁₁, L = 4, η = 1",
    "91": "I4 = E[g'(z₁) g'(z₂) g(z₃) g(z₄)]",
    "98": "R*^(2) on the plateau",
    "99": "ε* on the plateau",
    "115": "ε* − ε_g where R_ii = R* + r₀",
    "120": "growth rate beyond η_c, M = 3",
}
CLAIMS = {
    equation: claim(f"Eq. {equation}: {what}", f"Eq. {equation}",
                    because="uncertainty of the measurement: {how}")
    .erratum("{printed:.4g}, off by {off:.2g}")
    for equation, what in QUANTITIES.items()
}  # fmt: skip
PRESETS = {"quick": Params(), "paper": Params(runs=2000, trials=1_000_000, samples=4_000_000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All rows, each with what its measurement may be off by."""
    rows = [row for part in cases(MEASUREMENTS, report) for row in part(params)]
    rows.sort(key=lambda row: [*QUANTITIES].index(row.equation))
    return table([row._replace(what=QUANTITIES[row.equation] + row.what) for row in rows])


def draw(data: xr.Dataset) -> Figure:
    """Relative deviations from the measurement, with what the measurement may be off by."""
    figure, axis, place = rows_figure(data, [f"Eq. {row}" for row in data["row"].values], 0.36)
    error = np.maximum(abs(data["error"] / data["measured"]), 10 * LEFT)
    axis.barh(place, error, left=LEFT, color="0.88", label="uncertainty of the measurement")
    looks = (("printed", "x", "C3", "as printed"), ("corrected", "o", "C0", "corrected"))
    for name, marker, color, label in looks:
        off = abs(data[name] / data["measured"] - 1)
        seen = off > EXACT
        look = {"ls": "", "color": color, "ms": 6, "mfc": "none", "mew": 1.5}
        axis.plot(off[seen], place[seen], marker, label=label, **look)
        axis.plot(np.full(int((~seen).sum()), EXACT), place[~seen], "<", **look)
    exact = f"corrected, below {EXACT:.0e} (rounding)"
    axis.plot([], [], "<", color="C0", mfc="none", mew=1.5, label=exact)
    axis.set(xscale="log", xlim=(LEFT, 100), xlabel="relative deviation from the measured value")
    finish(axis, 2)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The corrected form holds within the measurement's uncertainty; the printed one does not."""
    return [_erratum(data.sel(row=row)) for row in data["row"].values]


def _erratum(one: xr.Dataset) -> Claim:
    printed, measured = float(one["printed"]), float(one["measured"])
    fields = {"how": one["how"].item(), "printed": printed, "off": abs(printed / measured - 1)}
    sentence = CLAIMS[one["row"].item()].format(**fields).erratum(value=printed)
    return sentence.equals(measured, one["corrected"], one["error"])
