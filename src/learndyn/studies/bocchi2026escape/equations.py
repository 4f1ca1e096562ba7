"""Eqs. 33 and 34: the drift against the mean of real SGD steps, and the misprint in Eq. 34.

The quick preset averages fewer steps than the paper preset; the paper has no such figure.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.simulation import measure_drift
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import LEVEL, student_bound
from learndyn.theory.committee.dynamics import overlaps
from learndyn.theory.committee.errata import printed_eq34_noise

TITLE = "The equations of motion against the mean of real SGD steps (Eqs. 33, 34)"
DIFFERS = "the paper has no such figure"
NORMAL = "normal distribution, {entries} entries, 1 % together"
CLAIMS = {
    "dR": claim("dρ/dα is the mean of real steps, distance in standard errors", "Eq. 33",
                because=NORMAL, rate=1 - LEVEL),
    "dQ": claim("dQ/dα, all orders in η, is the mean of real steps, distance in standard errors",
                "Eq. 34", because=NORMAL, rate=1 - LEVEL)
    .erratum("{printed:.3g} standard errors away"),
}  # fmt: skip


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
    dQ = {
        "dQ": full.Q[0],
        "dQ_flow": flow.Q[0],
        "dQ_printed": flow.Q[0] + printed_eq34_noise(Q, rho, params.eta),
        "dQ_measured": measured.mean.Q[0],
        "dQ_error": measured.error.Q[0],
    }
    dR = {"dR": full.R[0], "dR_measured": measured.mean.R[0], "dR_error": measured.error.R[0]}
    table = {name: (("student", "student'"), values) for name, values in dQ.items()}
    table |= {name: (("student", "teacher"), values) for name, values in dR.items()}
    return xr.Dataset(table, attrs={"N": params.N, "eta": params.eta})


def draw(data: xr.Dataset) -> Figure:
    """Predicted against measured, entry by entry."""
    figure, axes = panels(2)
    rows = [
        (axes[0], "dR", "dR", "C0", "o", "Eq. 33"),
        (axes[1], "dQ_printed", "dQ", "C3", "x", "Eq. 34 as printed"),
        (axes[1], "dQ", "dQ", "C0", "o", "Eq. 34 corrected"),
    ]
    for axis, predicted, name, color, marker, label in rows:
        x, y = data[f"{name}_measured"].values.ravel(), data[predicted].values.ravel()
        look = {"elinewidth": 0.8, "markersize": 5, "markerfacecolor": "none", "label": label}
        error = data[f"{name}_error"].values.ravel()
        axis.errorbar(x, y, xerr=error, color=color, fmt=marker, **look)
    for axis, name in zip(axes, (r"d\rho", "dQ"), strict=True):
        axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8, zorder=0)
        axis.set_xlabel(rf"mean of real steps, ${name}/d\alpha$")
        axis.set_ylabel(rf"equation, ${name}/d\alpha$")
        legend(axis, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Corrected equations hold in standard errors; the printed bracket does not."""
    distance = lambda predicted, name: float(
        (np.abs(predicted - data[f"{name}_measured"]) / data[f"{name}_error"]).max()
    )
    noise = data["dQ"] - data["dQ_flow"]
    finite = data["dQ_flow"] + overlaps.finite_size_noise(data.attrs["N"]) * noise
    printed = distance(data["dQ_printed"], "dQ")
    claims = []
    for name, predicted in {"dR": data["dR"], "dQ": finite}.items():
        sentence = CLAIMS[name].format(entries=predicted.size, printed=printed)
        sentence = sentence.erratum(value=printed) if name == "dQ" else sentence
        bound = student_bound(np.inf, predicted.size)
        claims.append(sentence.at_most(distance(predicted, name), bound))
    return claims
