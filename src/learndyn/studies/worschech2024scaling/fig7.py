"""Fig. 7: the sum of Eq. 47, its integral, and the two bounds on their difference (β = 0.5).

Both presets have the paper's size. The caption gives the learning rate 1/(2λ₊) as ≈ 0.001; it is
0.0095, and this is what the left panel has.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _sums
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.theory.committee.power_law import learning_curve

TITLE = "Sum and integral: the corrections of order 0 and the worst-case bound"
DIFFERS = "the left rate is 1/(2λ₊) = 0.0095; the caption prints about 0.001 for it"
CLAIMS = _sums.CLAIMS | {
    "rate": claim("η at which order 0 is enough from α = 1 on: 1/(2λ₊)", "Fig. 7, caption",
                  within=Tolerance(5e-5, "digits of the corrected number"))
    .erratum("1/(2λ₊) ≈ 0.001", 0.001),
    "valid": claim("{panel}: order 0 is valid from α = 1/(2ηλ₊)", "Fig. 7, caption",
                   within=Tolerance(5.0, "digits of the printed number")),
    "worst": claim("sum − integral at α = 0 (η → 0), the worst case",
                   "App. B.2, bound before Eq. 49", within=Tolerance(1e-12, "rounding"))
    .erratum("L^-(1+β) in the bracket, not half of it: {worst:.8f}"),
    "bound": claim("{panel}: sum − integral over the worst-case bound, largest",
                   "App. B.2, bound before Eq. 49", kind="theorem", because="a bound"),
    "no bound": claim("{panel}: order 0 is close but no upper bound: sum over it, largest",
                      "Fig. 7, caption", because="a bound would leave 1 or less")
    .erratum("the upper bound is given by the 0th order corrections"),
    "orders": claim("{panel}: |sum − integral| over (f(1) + f(L))/2 + ∫|f''|/8", "Eq. 49",
                    because="a bound")
    .erratum("f(1) exp(−2ηλ₊α) as the bound; exceeded from 2ηλ₊α = {first:.1f} on"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The right panel's learning rate; α goes from 1 to `last` in each panel."""

    L: int = 128
    beta: float = 0.5
    sigma_J: float = 1.0
    small_eta: float = 1e-5
    last: tuple[float, ...] = (60.0, 5000.0)
    points: int = 400


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Left: η = 1/(2λ₊). Right: a learning rate far below."""
    L, beta = params.L, params.beta
    edge, _ = learning_curve.window(**units(L, beta, eta=1.0))
    rows = [
        _sums.sums(np.geomspace(1.0, last, params.points), L, beta, eta, params.sigma_J)
        for eta, last in cases([*zip((edge, params.small_eta), params.last, strict=True)], report)
    ]
    return xr.concat(rows, "panel")


def draw(data: xr.Dataset) -> Figure:
    """As in the paper, with the worst-case bound at the small learning rate."""
    worst = lambda one: {"integral + worst-case bound": one["integral"] + one["worst_bound"]}
    right = lambda one: worst(one) if one["eta"] < data["eta"].max() else {}
    return _sums.draw_sums(data, lambda one: _sums.with_order_zero(one) | right(one))


def check(data: xr.Dataset) -> list[Claim]:
    """The learning rate of the caption, the worst case, and both panels' bounds."""
    left, right = _sums.each_panel(data)
    large, small, worst = _sums.label(left), _sums.label(right), float(right["worst_bound"])
    # As printed, order 0 decays as exp(−2ηλ₊α); f(L)/2 and the higher orders do not.
    part = _sums.late(left)
    gap, order_zero = abs(_sums.gap(part)), part["integral"] + part["ends"]
    first = (part["alpha"] / part["alpha_min"])[np.argmax((gap > part["printed_bound"]).values)]
    orders = CLAIMS["orders"].format(panel=large, first=float(first))
    return [
        CLAIMS["rate"].equals(left["eta"], 0.0095),
        CLAIMS["valid"].format(panel=small).equals(right["alpha_min"], 950.0),
        CLAIMS["worst"].format(worst=worst).erratum(value=worst)
        .equals(right["gap_at_zero"], right["initial_gap"]),
        CLAIMS["bound"].format(panel=small).at_most((_sums.gap(right) / worst).max(), 1.0),
        _sums.enough_claim(left),
        _sums.ends_claim(left),
        _sums.ends_claim(right),
        CLAIMS["no bound"].format(panel=large).at_least((part["sum"] / order_zero).max(), 1.0),
        orders.at_most((gap / (part["ends"] + part["remainder"])).max(), 1.0),
    ]  # fmt: skip
