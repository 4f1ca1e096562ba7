"""Claims of Fig. 3."""

from typing import NamedTuple

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.claims import Claim
from learndyn.studies.worschech2024scaling._starts import (
    LEVEL,
    Ratio,
    follows_flow,
    ratio_to_flow,
)
from learndyn.theory.committee.power_law import features, learning_curve

CONVERGED = 0.01  # of the asymptote, what trained directions may still add where it is measured
_LATE = f"what is left to learn, Student t at {LEVEL:.0%}"


def check(data: xr.Dataset) -> list[Claim]:
    """Networks against Eqs. 10, 11 and 74, on Gaussian inputs and on images."""
    left, right = (_panel(data, side) for side in ("left", "right"))
    return [
        *(_follows(one, "Fig. 3 left, Eq. 10", "N(0, Σ)", 1.0) for one in _each(left)),
        _integral(left.isel(n=0)),
        _first_fixed(left.isel(n=0)),
        _lifted(left.isel(n=0)),
        _exponent(left),
        *(
            _follows(one, "Fig. 3 right, Eq. 10", data.attrs["data"], float(one["longest"]))
            for one in _each(right)
        ),
        *(_lifted_by_images(one) for one in _each(right)),
    ]


def _follows(one: xr.Dataset, source: str, inputs: str, noise: float) -> Claim:
    """`noise`: how much more an image can shake the weights than Gaussian inputs do."""
    left_out = (one["finite_eta"] / one["theory"] - 1).values * noise
    who = f"{inputs}, N_l = {int(one['n'])}"
    return follows_flow(_ratio(one), left_out, one["time"].values, who=who, source=source)


def _integral(one: xr.Dataset) -> Claim:
    """At the time where the printed equation is farthest off."""
    at = int(np.argmax((one["printed"] / one["corrected"]).values))
    now = one.isel(time=at)
    ratio, theory = _ratio(now), float(now["theory"])
    rule = abs(float(now["midpoint"] - now["corrected"]))
    left_out = float(now["finite_eta"]) - theory
    return Claim(
        statement=f"N_l = {int(one['n'])}: mean error of networks at α = {float(now['time']):.4g}",
        source="Eqs. 11 and 79",
        relation="=",
        expected=float(now["corrected"]),
        measured=theory * float(ratio.value),
        tolerance=rule + left_out + theory * float(ratio.allowed()),
        tolerance_from=f"sum as integral, next order in η, Student t at {LEVEL:.0%}",
        rate=1 - LEVEL,
        kind="erratum",
        printed=f"{float(now['printed']):.4g}, by L instead of N_l in the first gamma function",
        printed_value=float(now["printed"]),
        label=f"N_l = {int(one['n'])}: mean error of networks where the print is farthest off",
    )


def _first_fixed(one: xr.Dataset) -> Claim:
    n, margin, late = int(one["n"]), float(one["margin"]), _late(one)
    limit, printed = (
        features.asymptote(_eigenvalues(one), m, sigma_J=one.attrs["sigma_J"]) for m in (n, n - 1)
    )
    return Claim(
        statement=f"N_l = {n}: asymptote of networks, without the lift by steps of finite size",
        source="Eqs. 71 and 78",
        relation="=",
        expected=limit,
        measured=limit * late.lift * margin,
        tolerance=limit * margin * late.tolerance,
        tolerance_from=_LATE,
        rate=1 - LEVEL,
        kind="erratum",
        printed=f"{printed:.4g}, by a sum over fixed directions from k = N_l",
        printed_value=float(printed),
    )


def _lifted(one: xr.Dataset) -> Claim:
    late = _late(one)
    return Claim(
        statement=f"N_l = {int(one['n'])}: asymptote of networks over that of Eq. 10, by η > 0",
        source="exact mean of a step at finite N",
        relation="=",
        expected=1 / float(one["margin"]),
        measured=late.lift,
        tolerance=late.tolerance,
        tolerance_from=_LATE,
        rate=1 - LEVEL,
        kind="finding",
    )


def _exponent(left: xr.Dataset) -> Claim:
    """Between the two smallest N_l, which converge first."""
    n, lam, sigma_J = left["n"].values[:2], _eigenvalues(left), left.attrs["sigma_J"]
    beta, L = left.attrs["beta"], len(lam)
    given = {"lam_plus": learning_curve.lam_plus(L, beta), "L": L, "beta": beta, "sigma_J": sigma_J}
    slope = lambda values: float(np.diff(np.log(values))[0] / np.diff(np.log(n))[0])
    by_rule = lambda h: slope([features.asymptote_integral(int(m), shift=h, **given) for m in n])
    late = [_late(one) for one in _each(left)[:2]]
    limits = [features.asymptote(lam, int(m), sigma_J=sigma_J) for m in n]
    # Both are lifted by η > 0, nearly alike: only the difference of the lifts counts.
    lifts = abs(float(np.diff(np.log(left["margin"].values[:2]))[0]))
    chance = sum(each.tolerance for each in late)
    return Claim(
        statement=f"exponent of the asymptote from N_l = {n[0]} to {n[1]} (−β for N_l ≪ L)",
        source="Eqs. 11 and 74",
        relation="=",
        expected=by_rule(0.0),
        measured=slope([m * each.lift for m, each in zip(limits, late, strict=True)]),
        tolerance=abs(by_rule(0.5) - by_rule(0.0)) + (lifts + chance) / np.log(n[1] / n[0]),
        tolerance_from=f"sum as integral, next order in η, {_LATE}",
        rate=1 - LEVEL,
    )


def _lifted_by_images(one: xr.Dataset) -> Claim:
    late, first = _late(one), float(one["excess"])
    return Claim(
        statement=f"images, N_l = {int(one['n'])}: asymptote of networks over that of Eq. 10, − 1",
        source="noise of single images, order η",
        relation="=",
        expected=first,
        measured=late.lift - 1,
        tolerance=float(one["excess_bound"]) - first + late.tolerance,
        tolerance_from=f"longest image, {_LATE}",
        rate=1 - LEVEL,
        kind="finding",
    )


class _Late(NamedTuple):
    """Networks over flow where the flow has nearly converged, and what that may be off by."""

    lift: float
    tolerance: float


def _late(one: xr.Dataset) -> _Late:
    limit = features.asymptote(_eigenvalues(one), int(one["n"]), sigma_J=one.attrs["sigma_J"])
    left_over = one["theory"] / limit - 1
    late = left_over <= max(CONVERGED, float(left_over.min()))
    ratio = _ratio(one.sel(time=late).mean("time"))
    return _Late(float(ratio.value), float(left_over[late].mean() + ratio.allowed()))


def _panel(data: xr.Dataset, side: str) -> xr.Dataset:
    names = {v: str(v).removeprefix(f"{side}_") for v in data.variables if f"{side}_" in str(v)}
    return data[[v for v in names if v in data.data_vars] + ["eigenvalues"]].rename(names)


def _each(panel: xr.Dataset) -> list[xr.Dataset]:
    return [panel.isel(n=i) for i in range(panel.sizes["n"])]


def _ratio(one: xr.Dataset) -> Ratio:
    return ratio_to_flow(one["networks"], one["flow"])


def _eigenvalues(panel: xr.Dataset) -> np.ndarray:
    if "excess" in panel:
        return panel["eigenvalues"].values
    N = int(panel.attrs["N"])
    return ld.PowerLaw(N, N, panel.attrs["beta"]).values
