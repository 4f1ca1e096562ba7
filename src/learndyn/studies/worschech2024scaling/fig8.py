"""Fig. 8: at a usual learning rate (η = 0.01) order 0 of Euler-Maclaurin is enough.

Both presets have the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _sums

TITLE = "Sum and integral with corrections of order 0, for β = 0.5 and 0.01"
DIFFERS = "none known: sizes are those that the paper states"
_ALONE = "{panel}: integral alone over the sum, at ten times α = 1/(2ηλ₊)"
CLAIMS = _sums.CLAIMS | {
    "close": claim(f"{_ALONE}, approximates", "App. B.2, before Eq. 50", within=_sums.VISIBLE),
    "alone": claim(_ALONE, "App. B.2, before Eq. 50", kind="theorem",
                   because="order 0, (f(1) + f(L))/2, and the next order, ∫|f''|/8"),
}  # fmt: skip


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
    """One panel per β."""
    alpha = np.geomspace(1.0, params.last, params.points)
    form = lambda beta: _sums.sums(alpha, params.L, beta, params.eta, params.sigma_J)
    return xr.concat([form(beta) for beta in cases(params.betas, report)], "panel")


def draw(data: xr.Dataset) -> Figure:
    """The sum, the integral, and the integral with order 0."""
    return _sums.draw_sums(data, _sums.with_order_zero)


def check(data: xr.Dataset) -> list[Claim]:
    """Order 0 is enough; the integral alone is too small at first and right later."""
    return [row for one in _sums.each_panel(data) for row in _panel(one)]


def _panel(one: xr.Dataset) -> list[Claim]:
    later = _sums.at(one, 10.0)  # f(1) is gone by then
    ratio = later["integral"] / later["sum"]
    close, alone = (CLAIMS[name].format(panel=_sums.label(one)) for name in ("close", "alone"))
    return [
        _sums.enough_claim(one),
        _sums.ends_claim(one),
        close.equals(ratio, 1.0),
        alone.equals(ratio, 1.0, (later["ends"] + later["remainder"]) / later["sum"]),
    ]
