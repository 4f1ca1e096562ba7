"""Eqs. 33 and 34: the drift against the mean of real SGD steps, and the misprint in Eq. 34.

The quick preset averages fewer steps than the paper preset; the paper has no such figure.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.simulation import measure_drift
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, Sentence, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import student_bound
from learndyn.theory.committee.dynamics import overlaps
from learndyn.theory.committee.errata import printed_eq34_noise

TITLE = "The equations of motion against the mean of real SGD steps (Eqs. 33, 34)"
LEVEL = 0.01  # chance of a false alarm in each claim
ERRORS = "distance in standard errors"


@dataclasses.dataclass(frozen=True)
class Params:
    """A state far from any symmetry, and how many steps to average."""

    p: int = 3
    p_star: int = 2
    eta: float = 0.3
    N: int = 400
    trials: int = 100_000
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(trials=1_000_000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Drift by theory (corrected and as printed) and by brute force, at one state."""
    system = quadratic_system(params.p, params.p_star, params.eta, params.N)
    rng = np.random.default_rng(params.key)
    rho = 0.4 * rng.standard_normal((params.p, params.p_star))
    extra = 0.5 * rng.standard_normal((params.p, params.p))
    Q = rho @ rho.T + extra @ extra.T + 0.2 * np.eye(params.p)
    start = ld.start(system, state=ld.Overlaps(Q, rho, np.eye(params.p_star)))
    theory = ld.theory_of(system)
    full, flow = theory.drift(start.state), theory.drift(start.state, order="flow")
    report(0.1)
    measured = measure_drift(system, start, trials=params.trials, key=params.key)
    report(1.0)
    printed = flow.Q[0] + printed_eq34_noise(Q, rho, params.eta)
    square, rectangle = ("student", "student'"), ("student", "teacher")
    return xr.Dataset(
        {
            "dQ": (square, full.Q[0]),
            "dQ_flow": (square, flow.Q[0]),
            "dQ_printed": (square, printed),
            "dQ_measured": (square, measured.mean.Q[0]),
            "dQ_error": (square, measured.error.Q[0]),
            "dR": (rectangle, full.R[0]),
            "dR_measured": (rectangle, measured.mean.R[0]),
            "dR_error": (rectangle, measured.error.R[0]),
        },
        attrs={"N": params.N, "eta": params.eta},
    )


def draw(data: xr.Dataset) -> Figure:
    """Predicted against measured, entry by entry."""
    figure, axes = panels(2)
    _scatter(axes[0], data, "dR", "dR", color="C0", fmt="o", label="Eq. 33")
    _scatter(axes[1], data, "dQ_printed", "dQ", color="C3", fmt="x", label="Eq. 34 as printed")
    _scatter(axes[1], data, "dQ", "dQ", color="C0", fmt="o", label="Eq. 34 corrected")
    for axis, name in zip(axes, (r"d\rho", "dQ"), strict=True):
        axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8, zorder=0)
        axis.set_xlabel(rf"mean of real steps, ${name}/d\alpha$")
        axis.set_ylabel(rf"equation, ${name}/d\alpha$")
        legend(axis, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure


def _scatter(axis: Axes, data: xr.Dataset, predicted: str, name: str, **look) -> None:
    x, error = (data[f"{name}_{what}"].values.ravel() for what in ("measured", "error"))
    look |= {"elinewidth": 0.8, "markersize": 5, "markerfacecolor": "none"}
    axis.errorbar(x, data[predicted].values.ravel(), xerr=error, **look)


def check(data: xr.Dataset) -> list[Claim]:
    """Corrected equations hold in standard errors; the printed bracket does not."""
    noise = data["dQ"] - data["dQ_flow"]
    finite = data["dQ_flow"] + overlaps.finite_size_noise(data.attrs["N"]) * noise
    printed = _distance(data["dQ_printed"], data, "dQ")
    first = claim(f"dρ/dα is the mean of real steps, {ERRORS}", "Eq. 33")
    all_orders = claim(f"dQ/dα, all orders in η, is the mean of real steps, {ERRORS}", "Eq. 34")
    second = all_orders.erratum(f"{printed:.3g} standard errors away", printed)
    return [_ended(first, data["dR"], data, "dR"), _ended(second, finite, data, "dQ")]


def _ended(said: Sentence, predicted: xr.DataArray, data: xr.Dataset, name: str) -> Claim:
    bound = student_bound(np.inf, predicted.size, LEVEL)
    because = f"normal law, {predicted.size} entries, {LEVEL:.0%} together"
    distance = _distance(predicted, data, name)
    return said.at_most(distance, bound, because=because, rate=1 - LEVEL)


def _distance(predicted: xr.DataArray, data: xr.Dataset, name: str) -> float:
    return float((np.abs(predicted - data[f"{name}_measured"]) / data[f"{name}_error"]).max())
