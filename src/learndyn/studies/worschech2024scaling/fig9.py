"""Fig. 9: the second gamma function of Eq. 50 is negligible after the beginning (Eq. 52).

Both presets are at the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _linear
from learndyn.theory.committee.power_law import corrections

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
    alpha = np.geomspace(1.0, params.last, params.points)
    form = lambda beta: _linear.sums(alpha, params.L, beta, params.eta, params.sigma_J)
    rows = [form(beta) for beta in cases(params.betas, report)]
    return xr.concat(rows, "panel").assign_attrs(fit=params.fit)


def draw(data: xr.Dataset) -> Figure:
    """The sum and both integrals."""
    figure, axes = panels(data.sizes["panel"])
    for axis, one in zip(axes, _linear.each_panel(data), strict=True):
        both = {"two gamma functions, Eq. 50": "integral", "the first only, Eq. 52": "first_gamma"}
        _linear.draw_sums(axis, one, {label: one[name] for label, name in both.items()})
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The second gamma function decays as exp(−2ηλ₊α), and Eq. 52 is the sum soon."""
    first, last = (float(end) for end in data.attrs["fit"])
    rows = _linear.each_panel(data)
    both = lambda one: (_decay(one, first, last), *_one_gamma(one, first))
    return [found for one in rows for found in both(one)]


def _decay(one: xr.Dataset, first: float, last: float) -> Claim:
    """The logarithm of the second gamma function, with ln x added, is a line."""
    x = (one["alpha"] / one["alpha_min"]).values
    inside = (x >= first) & (x <= last)
    second = (one["first_gamma"] - one["integral"]).values * x
    said = "rate at which the second gamma decays, per 2ηλ₊α"
    return claim(f"{_linear.label(one)}: {said}", "App. B.2, before Eq. 52").equals(
        -ld.analysis.fit_line(x[inside], np.log(second[inside])).slope,
        1.0,
        within=corrections.decay_remainder(first, beta=float(one["beta"])),
        because="next order of Γ(s, x), (1−s)/x², at the first point of the fit",
    )


def _one_gamma(one: xr.Dataset, x: float) -> list[Claim]:
    at, said = _linear.at(one, x), f"Eq. 52 over the sum, at 2ηλ₊α = {x:g}"
    name, ratio = f"{_linear.label(one)}: {said}", float(at["first_gamma"] / at["sum"])
    return [
        claim(f"{name}, approximates", "Eq. 52").equals(
            ratio, 1.0, within=_linear.CLOSE, because=_linear.HIDDEN
        ),
        claim(name, "Eq. 52", kind="theorem").equals(
            ratio,
            1.0,
            within=float((at["ends"] + at["remainder"]) / at["sum"]) + float(np.exp(-x)),
            because="Euler-Maclaurin's order 0 and ∫|f''|/8, and exp(−2ηλ₊α)",
        ),
    ]
