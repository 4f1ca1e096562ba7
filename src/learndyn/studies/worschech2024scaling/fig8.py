"""Fig. 8: at a usual learning rate (η = 0.01) order 0 of Euler-Maclaurin is enough.

Both presets are at the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _linear

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
    form = lambda beta: _linear.sums(alpha, params.L, beta, params.eta, params.sigma_J)
    return xr.concat([form(beta) for beta in cases(params.betas, report)], "panel")


def draw(data: xr.Dataset) -> Figure:
    """The sum, the integral, and the integral with order 0."""
    figure, axes = panels(data.sizes["panel"])
    for axis, one in zip(axes, _linear.each_panel(data), strict=True):
        ends = one["integral"] + one["ends"]
        rows = {"integral, Eq. 50": one["integral"], "integral + order 0": ends}
        _linear.draw_sums(axis, one, rows)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Order 0 is enough; without it the integral is low at first and right later."""
    rows = _linear.each_panel(data)
    both = lambda one: (_linear.enough_claim(one), _linear.ends_claim(one), *_alone(one))
    return [found for one in rows for found in both(one)]


def _alone(one: xr.Dataset) -> list[Claim]:
    """At ten times the beginning of the window f(1) is gone."""
    at, said = _linear.at(one, 10.0), "integral alone over sum, ten times 1/(2ηλ₊) on"
    name, source = f"{_linear.label(one)}: {said}", "App. B.2, before Eq. 50"
    ratio = float(at["integral"] / at["sum"])
    return [
        claim(f"{name}, approximates", source).equals(
            ratio, 1.0, within=_linear.CLOSE, because=_linear.HIDDEN
        ),
        claim(name, source, kind="theorem").equals(
            ratio,
            1.0,
            within=(at["ends"] + at["remainder"]) / at["sum"],
            because="order 0, (f(1) + f(L))/2, and the next, ∫|f''|/8",
        ),
    ]
