"""Fig. 7: the sum of Eq. 47, its integral, and the two bounds on their gap (β = 0.5).

Both presets are at the paper's size. The caption's learning rate 1/(2λ₊) ≈ 0.001 is 0.0095,
and this is what the left panel has.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _linear
from learndyn.theory.committee.power_law import learning_curve

TITLE = "Sum and integral: the corrections of order 0 and the worst-case bound"


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
    edge, _ = learning_curve.window(**_linear.units(params.L, params.beta, eta=1.0))
    rows = [
        _linear.sums(
            np.geomspace(1.0, last, params.points), params.L, params.beta, eta, params.sigma_J
        )
        for eta, last in cases([*zip((edge, params.small_eta), params.last, strict=True)], report)
    ]
    return xr.concat(rows, "panel")


def draw(data: xr.Dataset) -> Figure:
    """As in the paper, with the worst-case bound in the right panel."""
    figure, axes = panels(2)
    for axis, one in zip(axes, _linear.each_panel(data), strict=True):
        rows = {
            "integral, Eq. 50": one["integral"],
            "integral + order 0": one["integral"] + one["ends"],
        }
        if axis is axes[1]:
            rows["integral + worst-case bound"] = one["integral"] + one["worst_bound"]
        _linear.draw_sums(axis, one, rows)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The learning rate of the caption, the worst case, and both panels' bounds."""
    left, right = _linear.each_panel(data)
    caption, before = "Fig. 7, caption", "App. B.2, bound before Eq. 49"
    name, worst = _linear.label(right), float(right["worst_bound"])
    return [
        claim("η at which order 0 is enough from α = 1 on: 1/(2λ₊)", caption)
        .erratum("1/(2λ₊) ≈ 0.001", 0.001)
        .equals(left["eta"], 0.0095, within=5e-5, because="digits of the corrected number"),
        claim(f"{name}: order 0 is valid from α = 1/(2ηλ₊)", caption).equals(
            right["alpha_min"], 950.0, within=5.0, because="digits of the printed number"
        ),
        claim("sum − integral at α = 0 (η → 0), the worst case", before)
        .erratum(f"L^-(1+β) in the bracket, not half of it: {worst:.8f}", worst)
        .equals(right["gap_at_zero"], right["initial_gap"], within=1e-12, because="rounding"),
        claim(
            f"{name}: sum − integral over the worst-case bound, largest", before, kind="theorem"
        ).at_most((_linear.gap(right) / right["worst_bound"]).max(), 1.0, because="a bound"),
        _linear.enough_claim(left),
        _linear.ends_claim(left),
        _linear.ends_claim(right),
        *_order_zero(left),
    ]


def _order_zero(left: xr.Dataset) -> list[Claim]:
    """Printed it decays as exp(−2ηλ₊α); f(L)/2 and the higher orders do not."""
    part, name = _linear.late(left), _linear.label(left)
    gap = abs(_linear.gap(part))
    first = float(part["alpha"][np.argmax((gap > part["printed_bound"]).values)])
    first = first / float(part["alpha_min"])
    no_bound = f"{name}: order 0 is close but no upper bound: sum over it, largest"
    return [
        claim(no_bound, "Fig. 7, caption")
        .erratum("the upper bound is given by the 0th order corrections")
        .at_least(
            (part["sum"] / (part["integral"] + part["ends"])).max(),
            1.0,
            because="a bound would leave 1 or less",
        ),
        claim(f"{name}: |sum − integral| over (f(1) + f(L))/2 + ∫|f''|/8", "Eq. 49")
        .erratum(f"f(1) exp(−2ηλ₊α) as the bound; exceeded from 2ηλ₊α = {first:.1f} on")
        .at_most((gap / (part["ends"] + part["remainder"])).max(), 1.0, because="a bound"),
    ]
