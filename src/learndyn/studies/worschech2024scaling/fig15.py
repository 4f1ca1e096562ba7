"""Fig. 15: learning curves of a student that is not trained in the eigenbasis of its inputs.

Gaussian inputs of a power-law spectrum in a random frame; the first N_l coordinates are trained.
Every network has its own teacher and student, the same for every N_l; the frame is one. The quick
preset has a smaller N, two values of N_l, a shorter time and few starts.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_tolerance
from learndyn.studies.worschech2024scaling import _linear
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import features, given_frame
from learndyn.theory.committee.setting import CommitteeSetting

TITLE = "Generalisation error with N_l trained coordinates, outside the eigenbasis"
DIFFERS = "none known: sizes are those that the paper states"
SOURCE = "Eqs. 83 and 84, the factors in an order that exists"  # of the curves
CLAIMS = {
    "first curve": _linear.FOLLOWS
    .erratum("vectors in front of matrices, products that do not exist"),
    "other curves": _linear.FOLLOWS,
    "end": claim("N_l = {n}: mean error of networks at α = {alpha:g}", "Eq. 88, Fig. 15"),
    "eigenbasis": claim("N_l = {n}: mean error of networks over that in the eigenbasis",
                        "App. B.3.1, Fig. 16", because="an inequality"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study."""

    N: int = 64
    directions: tuple[int, ...] = (12, 25)
    horizon: float = 400.0
    beta: float = 1.0
    eta: float = 0.05
    sigma_J: float = 0.01
    points: int = 13
    starts: int = 8
    key: int = 0


PARTS = {"directions": "n"}
PRESETS = {
    "quick": Params(),
    "paper": Params(N=256, directions=(50, 100, 150, 200), horizon=1e4, points=25, starts=300),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Networks, the flow from their starts, and the mean over starts of Eqs. 84 and 88."""
    spectrum = ld.PowerLaw(params.N, params.N, params.beta)
    inputs = ld.Gaussian(spectrum, stats.ortho_group(params.N, seed=params.key).rvs())
    rows = [_curves(params, inputs, n) for n in cases(params.directions, report)]
    data = xr.concat(rows, xr.Variable("n", list(params.directions), {"long_name": "N_l"}))
    names = ("N", "beta", "eta", "sigma_J")
    return data.assign_attrs({name: getattr(params, name) for name in names})


def _curves(params: Params, inputs: ld.Gaussian, n: int) -> xr.Dataset:
    """One N_l: every network with the flow from its start, and the means of the theory."""
    eta, sigma_J = params.eta, params.sigma_J
    system, inside = (
        committee_system("linear", each, eta=eta, sigma_J=sigma_J, trainable=n)
        for each in (inputs, inputs.spectrum)
    )
    lam, times = inputs.spectrum.values, _linear.step_times(params.horizon, params.points, system)
    Sigma = inputs.from_eigenbasis(inputs.from_eigenbasis(np.diag(lam)).T)
    keys = range(params.key * params.starts, (params.key + 1) * params.starts)
    starts = [ld.start(system, key=key) for key in keys]
    probes = {"rows": lambda model: model.weights[0]}
    runs = ld.simulate(system, times, starts=starts, key=keys[0], method="direct", probes=probes)
    error = lambda rows, start: given_frame.weights_error(Sigma, rows, start.teacher[0])
    flow = lambda s: given_frame.trajectory(times, Sigma, n, s.weights[0], s.teacher[0], eta)
    pairs = [*zip(runs["rows"].isel(run=0).values, starts, strict=True)]
    curve = lambda order: linear.mean_curve(CommitteeSetting.of(inside), times, order)["error"]
    return xr.Dataset(
        {
            "networks": (("start", "time"), np.stack([error(*pair) for pair in pairs])),
            "flow": (("start", "time"), np.stack([error(flow(s), s) for s in starts])),
            "theory": ("time", given_frame.mean_error(times, Sigma, n, eta=eta, sigma_J=sigma_J)),
            "asymptote": given_frame.mean_asymptote(Sigma, n, sigma_J=sigma_J),
            "eigenbasis": features.asymptote(lam, n, sigma_J=sigma_J),
            # An upper bound here: trained coordinates of the eigenbasis have the largest variance.
            "left_out": ("time", curve("full") / curve("flow") - 1),
        },
        {"time": ("time", times, {"long_name": "α = steps / N"})},
    )


def draw(data: xr.Dataset) -> Figure:
    """Networks as markers over the flow from their starts, and Eq. 88."""
    figure, (axis,) = panels(1, size=(6.0, 4.2))
    for i in range(data.sizes["n"]):
        _linear.draw_starts(axis, data.isel(n=i), f"C{i}")
        axis.axhline(float(data["asymptote"][i]), ls=":", color=f"C{i}", lw=1)
    N, beta, eta = (data.attrs[name] for name in ("N", "beta", "eta"))
    styles = {
        f"networks, {data.sizes['start']} starts, η = {eta:g}": {"marker": "o", "ms": 3.5},
        "Eq. 84 for these starts": {"lw": 1.3},
        "Eq. 84, mean of all starts": {"ls": "--", "lw": 1},
        "Eq. 88": {"ls": ":", "lw": 1},
    }
    axis.set(xscale="log", yscale="log", xlabel="α = steps / N", ylabel="generalisation error ε")
    axis.set_title(f"Gaussian inputs in a random frame, N = L = {N}, β = {beta:g}", fontsize=9)
    legend(axis, styles)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The whole curve and its end for every N_l, and the price of not having the eigenbasis."""
    rows = [data.isel(n=i) for i in range(data.sizes["n"])]
    first, price = rows[0], CLAIMS["eigenbasis"].format(n=int(rows[0]["n"]))
    curve = lambda one, printed="": _linear.follows_flow(
        one, one["left_out"].values, f"N_l = {int(one['n'])}", SOURCE, printed
    )
    return [
        curve(first, CLAIMS["first curve"].printed),
        *map(curve, rows[1:]),
        *map(_end, rows),
        price.at_least(_mean_error(first) / float(first["eigenbasis"]), 1.0),
    ]


def _mean_error(one: xr.Dataset) -> float:
    """Of networks at the end: the mean of all starts, corrected by what these networks do."""
    last = one.isel(time=-1)
    return float(last["theory"]) * float(_linear.ratio_to_flow(last).value)


def _end(one: xr.Dataset) -> Claim:
    last, limit = one.isel(time=-1), float(one["asymptote"])
    theory, ratio = float(last["theory"]), _linear.ratio_to_flow(last)
    tolerance = (
        Tolerance(theory - limit, "what is left to learn")
        + Tolerance(theory * float(last["left_out"]), "next order in η")
        + student_tolerance(theory * ratio.error, ratio.starts, "starts")
    )
    sentence = CLAIMS["end"].format(n=int(one["n"]), alpha=float(last["time"]))
    return sentence.equals(_mean_error(one), limit, tolerance)
