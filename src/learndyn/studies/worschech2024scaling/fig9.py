"""Fig. 9: the second gamma function of Eq. 50 is negligible after the beginning (Eq. 52).

Both presets are at the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling import _sums
from learndyn.theory.committee.power_law import learning_curve

TITLE = "Sum, two gamma functions (Eq. 50) and one (Eq. 52), for β = 1 and 0.01"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure; α goes from 1 to `last`, the fit over 2ηλ₊α inside `fit`."""

    L: int = 128
    betas: tuple[float, ...] = (1.0, 0.01)
    eta: float = 0.01
    sigma_J: float = 1.0
    last: float = 60.0
    fit: tuple[float, float] = (10.0, 20.0)
    points: int = 800


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """One panel for each β."""
    alpha, found = np.geomspace(1.0, params.last, params.points), []
    for beta in params.betas:
        found.append(_sums.panel(params.L, beta, params.eta, params.sigma_J, alpha))
        report(len(found) / len(params.betas))
    return _sums.stack(found).assign_attrs(fit=params.fit)


def draw(data: xr.Dataset) -> Figure:
    """The sum and both integrals."""
    figure, axes = panels(data.sizes["panel"])
    for number, axis in enumerate(axes):
        one = data.isel(panel=number)
        rows = [
            (one["integral"], "two gamma functions, Eq. 50"),
            (one["first_gamma"], "the first only, Eq. 52"),
        ]
        _sums.draw_panel(axis, one, rows)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The second gamma function decays as exp(−2ηλ₊α), and Eq. 52 is the sum soon."""
    claims, fit = [], (float(data.attrs["fit"][0]), float(data.attrs["fit"][1]))
    for number in range(data.sizes["panel"]):
        one = data.isel(panel=number)
        claims += [_decay(one, fit), _one_gamma(one, fit[0])]
    return claims


def _decay(one: xr.Dataset, fit: tuple[float, float]) -> Claim:
    """Γ(s, x) x^-s = e^-x/x (1 − (1−s)/x + …): its logarithm, with ln x added, is a line."""
    x = (one["alpha"] / one["alpha_min"]).values
    inside = (x >= fit[0]) & (x <= fit[1])
    second = (one["first_gamma"] - one["integral"]).values * x
    s = learning_curve.exponent(float(one["beta"]))
    return Claim(
        statement=f"{_sums.label(one)}: rate at which the second gamma decays, per 2ηλ₊α",
        source="App. B.2, before Eq. 52",
        relation="=",
        expected=1.0,
        measured=-ld.analysis.fit_line(x[inside], np.log(second[inside])).slope,
        tolerance=(1 - s) / fit[0] ** 2,
        tolerance_from="next order of Γ(s, x), (1−s)/x², at the first point of the fit",
    )


def _one_gamma(one: xr.Dataset, x: float) -> Claim:
    at = _sums.at(one, x)
    return Claim(
        statement=f"{_sums.label(one)}: Eq. 52 over the sum, at 2ηλ₊α = {x:g}",
        source="Eq. 52",
        relation="=",
        expected=1.0,
        measured=float(at["first_gamma"] / at["sum"]),
        tolerance=float((at["ends"] + at["remainder"]) / at["sum"]) + float(np.exp(-x)),
        tolerance_from="Euler-Maclaurin's order 0 and ∫|f''|/8, and exp(−2ηλ₊α)",
    )
