"""Fig. 15: learning curves of a student that is not trained in the eigenbasis of its inputs.

Gaussian inputs of a power-law spectrum in a random frame; the first N_l coordinates are
trained. Every network has its own teacher and student, the same for every N_l; the frame is one.
The quick preset has a smaller N, two N_l, a shorter time and few starts.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

import learndyn as ld
from learndyn.numerics.progress import Counter
from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.studies.worschech2024scaling._starts import (
    LEVEL,
    follows_flow,
    ratio_to_flow,
    step_times,
)
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import features, given_frame
from learndyn.theory.committee.setting import Setting

TITLE = "Generalisation error with N_l trained coordinates, outside the eigenbasis"


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


PRESETS = {
    "quick": Params(),
    "paper": Params(N=256, directions=(50, 100, 150, 200), horizon=1e4, points=25, starts=300),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Networks, the flow from their starts, and the mean over starts of Eqs. 84 and 88."""
    spectrum = ld.PowerLaw(params.N, params.N, params.beta)
    frame = stats.ortho_group(params.N, seed=params.key).rvs()
    inputs = ld.Gaussian(spectrum, frame)
    done = Counter(len(params.directions) * params.starts, report)
    rows = [_curves(params, inputs, n, done) for n in params.directions]
    data = xr.concat(rows, xr.Variable("n", list(params.directions), {"long_name": "N_l"}))
    names = ("N", "beta", "eta", "sigma_J")
    return data.assign_attrs({name: getattr(params, name) for name in names})


def _curves(params: Params, inputs: ld.Gaussian, n: int, done: Counter) -> xr.Dataset:
    """One N_l: every network with the flow from its start, and the means of the theory."""
    eta, sigma_J = params.eta, params.sigma_J
    system, inside = (
        committee_system("linear", x, eta=eta, sigma_J=sigma_J, trainable=n)
        for x in (inputs, inputs.spectrum)
    )
    lam, times = inputs.spectrum.values, step_times(params.horizon, params.points, system)
    Sigma = inputs.from_eigenbasis(inputs.from_eigenbasis(np.diag(lam)).T)
    flow = lambda s: given_frame.trajectory(times, Sigma, n, s.weights[0], s.teacher[0], eta)
    keys = range(params.key * params.starts, (params.key + 1) * params.starts)
    starts = [ld.start(system, key=key) for key in keys]
    probes = {"rows": lambda model: model.weights[0]}
    runs = ld.simulate(system, times, starts=starts, key=keys[0], method="direct", probes=probes)[
        "rows"
    ].isel(run=0)
    errors = [(_error(Sigma, rows, s), _error(Sigma, flow(s), s))
              for rows, s in zip(runs.values, starts, strict=True)]  # fmt: skip
    networks, flows = (np.stack(each) for each in zip(*errors, strict=True))
    found = xr.Dataset(
        {"networks": (("start", "time"), networks), "flow": (("start", "time"), flows)}
    )
    done(len(starts))
    found["theory"] = "time", given_frame.mean_error(times, Sigma, n, eta=eta, sigma_J=sigma_J)
    found["asymptote"] = given_frame.mean_asymptote(Sigma, n, sigma_J=sigma_J)
    found["eigenbasis"] = features.asymptote(lam, n, sigma_J=sigma_J)
    both = [linear.mean_curve(Setting.of(inside), times, o)["error"] for o in ("full", "flow")]
    # An upper bound here: trained coordinates of the eigenbasis have the largest variance.
    found["left_out"] = "time", both[0] / both[1] - 1
    return found.assign_coords(time=("time", times, {"long_name": "α = steps / N"}))


def _error(Sigma: np.ndarray, rows: np.ndarray, start: ld.Start) -> np.ndarray:
    """The exact error of students (time, N) with the teacher of a start."""
    return given_frame.weights_error(Sigma, rows, start.teacher[0])


def draw(data: xr.Dataset) -> Figure:
    """Networks as markers over the flow from their starts, and Eq. 88."""
    figure, (axis,) = panels(1, size=(6.0, 4.2))
    alpha = data["time"].values
    for i, n in enumerate(data["n"].values):
        one, color = data.isel(n=i), f"C{i}"
        axis.plot(alpha, one["flow"].mean("start"), color=color, lw=1.3, zorder=2)
        axis.plot(alpha, one["theory"], "--", color="0.2", lw=1, zorder=1.9)
        axis.axhline(float(one["asymptote"]), color=color, ls=":", lw=1, zorder=1.8)
        mean = one["networks"].mean("start")
        axis.plot(alpha, mean, "o", ms=3.5, color=color, zorder=3, label=f"$N_l$ = {n}")
    N, beta, eta = (data.attrs[name] for name in ("N", "beta", "eta"))
    what = f"networks, {data.sizes['start']} starts, η = {eta:g}"
    axis.plot([], [], "o", ms=3.5, color="0.3", label=what)
    axis.plot([], [], color="0.3", lw=1.3, label="Eq. 84 for these starts")
    axis.plot([], [], "--", color="0.2", lw=1, label="Eq. 84, mean of all starts")
    axis.plot([], [], ":", color="0.3", lw=1, label="Eq. 88")
    axis.set(xscale="log", yscale="log", xlabel="α = steps / N", ylabel="generalisation error ε")
    axis.set_title(f"Gaussian inputs in a random frame, N = L = {N}, β = {beta:g}", fontsize=9)
    axis.legend(frameon=False, fontsize=8)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The whole curve and its end for every N_l, and the price of not having the eigenbasis."""
    rows = [data.isel(n=i) for i in range(data.sizes["n"])]
    first, *others = map(_curve, rows)
    printed = "vectors in front of matrices, products that do not exist"
    erratum = dataclasses.replace(first, kind="erratum", printed=printed)
    return [erratum, *others, *map(_end, rows), _price(rows[0])]


def _curve(one: xr.Dataset) -> Claim:
    ratio = ratio_to_flow(one["networks"], one["flow"])
    left_out, alpha = one["left_out"].values, one["time"].values
    source = "Eqs. 83 and 84, its factors in an order that exists"
    return follows_flow(ratio, left_out, alpha, who=f"N_l = {int(one['n'])}", source=source)


def _end(one: xr.Dataset) -> Claim:
    last, limit = one.isel(time=-1), float(one["asymptote"])
    ratio, theory = ratio_to_flow(last["networks"], last["flow"]), float(last["theory"])
    left_out = theory * float(last["left_out"])
    return Claim(
        statement=f"N_l = {int(one['n'])}: mean error of networks at α = {float(last['time']):g}",
        source="Eq. 88, Fig. 15",
        relation="=",
        expected=limit,
        measured=theory * float(ratio.value),
        tolerance=theory - limit + left_out + theory * float(ratio.allowed()),
        tolerance_from=f"what is left to learn, next order in η, Student t at {LEVEL:.0%}",
        rate=1 - LEVEL,
    )


def _price(one: xr.Dataset) -> Claim:
    last = one.isel(time=-1)
    ratio, theory = ratio_to_flow(last["networks"], last["flow"]), float(last["theory"])
    inside = float(one["eigenbasis"])
    return Claim(
        statement=f"N_l = {int(one['n'])}: mean error of networks over that in the eigenbasis",
        source="App. B.3.1, Fig. 16",
        relation="≥",
        expected=1.0,
        measured=theory * float(ratio.value) / inside,
        tolerance=0.0,
        tolerance_from="none: an inequality",
    )
