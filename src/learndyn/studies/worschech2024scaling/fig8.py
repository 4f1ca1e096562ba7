"""Fig. 8: at a usual learning rate (η = 0.01) order 0 of Euler-Maclaurin is enough.

Both presets are at the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _sums

TITLE = "Sum and integral with corrections of order 0, for β = 0.5 and 0.01"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure; α goes from 1 to `last`."""

    L: int = 128
    betas: tuple[float, ...] = (0.5, 0.01)
    eta: float = 0.01
    sigma_J: float = 1.0
    last: float = 200.0
    points: int = 400


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """One panel for each β."""
    alpha = np.geomspace(1.0, params.last, params.points)
    panel = lambda beta: _sums.panel(params.L, beta, params.eta, params.sigma_J, alpha)
    return _sums.stack([panel(beta) for beta in cases(params.betas, report)])


def draw(data: xr.Dataset) -> Figure:
    """The sum, the integral, and the integral with order 0."""
    figure, axes = panels(data.sizes["panel"])
    for number, axis in enumerate(axes):
        one = data.isel(panel=number)
        ends = one["integral"] + one["ends"]
        _sums.draw_panel(
            axis, one, [(one["integral"], "integral, Eq. 50"), (ends, "integral + order 0")]
        )
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Order 0 is enough; without it the integral is low at first and right later."""
    claims = []
    for number in range(data.sizes["panel"]):
        one = data.isel(panel=number)
        claims += [_sums.ends_claim(one), _integral_alone(one)]
    return claims


def _integral_alone(one: xr.Dataset) -> Claim:
    """At ten times the beginning of the window f(1) is gone."""
    at = _sums.at(one, 10.0)
    return Claim(
        statement=f"{_sums.label(one)}: integral alone over sum, ten times 1/(2ηλ₊) on",
        source="App. B.2, before Eq. 50",
        relation="=",
        expected=1.0,
        measured=float(at["integral"] / at["sum"]),
        tolerance=float((at["ends"] + at["remainder"]) / at["sum"]),
        tolerance_from="order 0, (f(1) + f(L))/2, and the next, ∫|f''|/8",
    )
