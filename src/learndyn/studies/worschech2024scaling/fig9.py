"""Fig. 9: the second gamma function of Eq. 50 is negligible after the beginning (Eq. 52).

Both presets have the paper's size.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _sums
from learndyn.theory.committee.power_law import corrections

TITLE = "Sum, two gamma functions (Eq. 50) and one (Eq. 52), for β = 1 and 0.01"
DIFFERS = "none known: sizes are those that the paper states"
_RATIO = "{panel}: Eq. 52 over the sum, at 2ηλ₊α = {x:g}"
CLAIMS = {
    "decay": claim("{panel}: rate at which the second gamma function decays, per 2ηλ₊α",
                   "App. B.2, before Eq. 52",
                   because="next order of Γ(s, x), (1−s)/x², at the first point of the fit"),
    "close": claim(f"{_RATIO}, approximates", "Eq. 52", within=_sums.VISIBLE),
    "ratio": claim(_RATIO, "Eq. 52", kind="theorem",
                   because="Euler-Maclaurin's order 0 and ∫|f''|/8, and exp(−2ηλ₊α)"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the figure; α goes from 1 to `last`, and 2ηλ₊α of the fit over `fit`."""

    L: int = 128
    betas: tuple[float, ...] = (1.0, 0.01)
    eta: float = 0.01
    sigma_J: float = 1.0
    last: float = 60.0
    fit: tuple[float, float] = (10.0, 20.0)
    points: int = 800


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """One panel per β."""
    alpha = np.geomspace(1.0, params.last, params.points)
    form = lambda beta: _sums.sums(alpha, params.L, beta, params.eta, params.sigma_J)
    rows = [form(beta) for beta in cases(params.betas, report)]
    return xr.concat(rows, "panel").assign_attrs(fit=params.fit)


def draw(data: xr.Dataset) -> Figure:
    """The sum and both integrals."""
    both = {"two gamma functions, Eq. 50": "integral", "the first only, Eq. 52": "first_gamma"}
    return _sums.draw_sums(data, lambda one: {name: one[row] for name, row in both.items()})


def check(data: xr.Dataset) -> list[Claim]:
    """The second gamma function decays as exp(−2ηλ₊α), and Eq. 52 is the sum soon."""
    return [row for one in _sums.each_panel(data) for row in _panel(one)]


def _panel(one: xr.Dataset) -> list[Claim]:
    first, last = map(float, one.attrs["fit"])
    panel, begin = _sums.label(one), _sums.at(one, first)
    ratio, ends = begin["first_gamma"] / begin["sum"], begin["ends"] + begin["remainder"]
    next_order = corrections.decay_remainder(first, beta=float(one["beta"]))
    decay, close, both = (CLAIMS[name].format(panel=panel, x=first) for name in CLAIMS)
    return [
        decay.equals(_decay_rate(one, first, last), 1.0, next_order),
        close.equals(ratio, 1.0),
        both.equals(ratio, 1.0, float(ends / begin["sum"]) + np.exp(-first)),
    ]


def _decay_rate(one: xr.Dataset, first: float, last: float) -> float:
    """The slope of the logarithm of the second gamma function, with ln x added."""
    x = (one["alpha"] / one["alpha_min"]).values
    inside = (x >= first) & (x <= last)
    second = (one["first_gamma"] - one["integral"]).values * x
    return -ld.analysis.fit_line(x[inside], np.log(second[inside])).slope
