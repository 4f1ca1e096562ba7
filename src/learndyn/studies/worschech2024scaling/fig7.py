"""Fig. 7: the sum of Eq. 47, its integral, and the two bounds on their gap (β = 0.5).

Both presets are at the paper's size. The caption's learning rate 1/(2λ₊) ≈ 0.001 is 0.0095,
and this is what the left panel has.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling import _sums
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
    lam_plus, found = learning_curve.lam_plus(params.L, params.beta), []
    edge = learning_curve.window(lam_plus=lam_plus, L=params.L, beta=params.beta, eta=1.0)[0]
    for eta, last in zip((edge, params.small_eta), params.last, strict=True):
        alpha = np.geomspace(1.0, last, params.points)
        found.append(_sums.panel(params.L, params.beta, eta, params.sigma_J, alpha))
        report(len(found) / 2)
    return _sums.stack(found)


def draw(data: xr.Dataset) -> Figure:
    """As in the paper, with the worst-case bound in the right panel."""
    figure, axes = panels(2)
    for axis, number in zip(axes, (0, 1), strict=True):
        one = data.isel(panel=number)
        rows = [
            (one["integral"], "integral, Eq. 50"),
            (one["integral"] + one["ends"], "integral + order 0"),
        ]
        if number:
            rows.append((one["integral"] + one["worst_bound"], "integral + worst-case bound"))
        _sums.draw_panel(axis, one, rows)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The learning rate of the caption, the worst case, and both panels' bounds."""
    left, right = data.isel(panel=0), data.isel(panel=1)
    return [
        _learning_rate(left),
        _window_start(right),
        _worst_case(right),
        _worst_case_is_a_bound(right),
        _sums.ends_claim(left),
        _sums.ends_claim(right),
        _order_zero_is_no_bound(left),
        _equation_49(left),
    ]


def _learning_rate(left: xr.Dataset) -> Claim:
    return Claim(
        statement="η at which order 0 is enough from α = 1 on: 1/(2λ₊)",
        source="Fig. 7, caption",
        relation="=",
        expected=0.0095,
        measured=float(left["eta"]),
        tolerance=5e-5,
        tolerance_from="digits of the corrected number",
        kind="erratum",
        printed="1/(2λ₊) ≈ 0.001",
        printed_value=0.001,
    )


def _window_start(right: xr.Dataset) -> Claim:
    return Claim(
        statement=f"{_sums.label(right)}: order 0 is valid from α = 1/(2ηλ₊)",
        source="Fig. 7, caption",
        relation="=",
        expected=950.0,
        measured=float(right["alpha_min"]),
        tolerance=5.0,
        tolerance_from="digits of the printed number",
    )


def _worst_case(right: xr.Dataset) -> Claim:
    return Claim(
        statement="sum − integral at α = 0 (η → 0), the worst case",
        source="App. B.2, bound before Eq. 49",
        relation="=",
        expected=float(right["initial_gap"]),
        measured=float(right["gap_at_zero"]),
        tolerance=1e-12,
        tolerance_from="rounding",
        kind="erratum",
        printed=f"L^-(1+β) in the bracket, not half of it: {float(right['worst_bound']):.8f}",
        printed_value=float(right["worst_bound"]),
    )


def _worst_case_is_a_bound(right: xr.Dataset) -> Claim:
    return Claim(
        statement=f"{_sums.label(right)}: sum − integral over the worst-case bound, largest",
        source="App. B.2, bound before Eq. 49",
        relation="≤",
        expected=1.0,
        measured=float((_sums.gap(right) / right["worst_bound"]).max()),
        tolerance=0.0,
        tolerance_from="a bound",
    )


def _order_zero_is_no_bound(left: xr.Dataset) -> Claim:
    part = _sums.late(left)
    return Claim(
        statement=f"{_sums.label(left)}: order 0 is close but no upper bound: sum over it, largest",
        source="Fig. 7, caption",
        relation="≥",
        expected=1.0,
        measured=float((part["sum"] / (part["integral"] + part["ends"])).max()),
        tolerance=0.0,
        tolerance_from="a bound would leave 1 or less",
        kind="finding",
    )


def _equation_49(left: xr.Dataset) -> Claim:
    """Printed it decays as exp(−2ηλ₊α); f(L)/2 and the higher orders do not."""
    part = _sums.late(left)
    beyond = (abs(_sums.gap(part)) > part["printed_bound"]).values
    first = float(part["alpha"][np.argmax(beyond)] / part["alpha_min"])
    ratio = abs(_sums.gap(part)) / (part["ends"] + part["remainder"])
    return Claim(
        statement=f"{_sums.label(left)}: |sum − integral| over (f(1) + f(L))/2 + ∫|f''|/8",
        source="Eq. 49",
        relation="≤",
        expected=1.0,
        measured=float(ratio.max()),
        tolerance=0.0,
        tolerance_from="a bound",
        kind="erratum",
        printed=f"f(1) exp(−2ηλ₊α) as the bound; exceeded from 2ηλ₊α = {first:.1f} on",
    )
