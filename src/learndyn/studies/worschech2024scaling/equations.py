"""Printed equations that are wrong: printed, corrected and measured.

Each is measured by something that does not contain it: students really trained, single SGD steps,
samples of the pre-activations, dense algebra, Newton and autodiff on the equations of motion. The
paper has no such figure; the quick preset averages less than the other one. Eqs. 84, 96 and the
exponent of 115 are in fig15 and plateau_exact.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling import _measured
from learndyn.studies.worschech2024scaling._measured import Row

TITLE = "Misprints: printed, corrected and measured values of twelve equations"
NUMBERS = ("measured", "error", "corrected", "printed")


@dataclasses.dataclass(frozen=True)
class Params:
    """Linear students trained, SGD steps averaged, samples of the pre-activations."""

    runs: int = 200
    trials: int = 40_000
    samples: int = 400_000
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(runs=2000, trials=1_000_000, samples=4_000_000),
}
_NOISY = "the η² part is a difference of means over steps; the print misses by four tolerances only"
FAILS = {"quick": {"Eq. 18, dQ: η² part of dQ^(0)_11/dα, K = 2, M = 3": _NOISY}}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All rows, each with what its measurement may be off by."""
    key = params.key
    parts = (
        lambda: _measured.linear_error(params.runs, key),
        _measured.feature_error,
        lambda: _measured.steps(params.trials, key),
        lambda: [_measured.samples(params.samples, key)],
        lambda: [_measured.fourth_average(), _measured.inverse()],
        _measured.plateau,
        _measured.late,
    )
    rows: list[Row] = []
    for done, part in enumerate(parts, 1):
        rows += part()
        report(done / len(parts))
    rows.sort(key=lambda row: float(row.equation.split(",")[0]))
    texts = {name: ("row", [getattr(r, name) for r in rows]) for name in ("what", "how")}
    numbers = {name: ("row", [float(getattr(r, name)) for r in rows]) for name in NUMBERS}
    return xr.Dataset({**texts, **numbers}, {"row": [r.equation for r in rows]})


def draw(data: xr.Dataset) -> Figure:
    """Relative deviations from the measurement, with what the measurement may be off by."""
    figure, (axis,) = panels(1, size=(7.0, 0.36 * data.sizes["row"] + 1.2))
    place, measured = np.arange(data.sizes["row"]), data["measured"]
    error = np.maximum(abs(data["error"] / measured), 1e-12)
    axis.barh(place, error, left=1e-13, color="0.88", label="uncertainty of the measurement")
    looks = (("printed", "x", "C3", "as printed"), ("corrected", "o", "C0", "corrected"))
    for name, marker, color, label in looks:
        off = np.maximum(abs(data[name] / measured - 1), 2e-13)
        axis.plot(off, place, marker, color=color, ms=6, mfc="none", mew=1.5, label=label)
    axis.set(xscale="log", xlim=(1e-13, 100), xlabel="relative deviation from the measured value")
    names = [f"Eq. {row}" for row in data["row"].values]
    axis.set_yticks(place, names)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The corrected form holds within the measurement's uncertainty; the print is shown."""
    return [_erratum(data.sel(row=row)) for row in data["row"].values]


def _erratum(one: xr.Dataset) -> Claim:
    printed, measured = float(one["printed"]), float(one["measured"])
    return Claim(
        statement=f"Eq. {one['row'].item()}: {one['what'].item()}",
        source=f"Eq. {one['row'].item()}",
        relation="=",
        expected=float(one["corrected"]),
        measured=measured,
        tolerance=float(one["error"]),
        tolerance_from=f"uncertainty of the measurement: {one['how'].item()}",
        kind="erratum",
        printed=f"{printed:.4g}, off by {abs(printed / measured - 1):.2g}",
        printed_value=printed,
    )
