"""The symmetric plateau of soft committee machines, K = M, and how long it lasts.

A student of erf units learns from a teacher of as many units with orthogonal weight vectors of
norm √N, in the limit of a small learning rate. From a start in which all students are equal it
comes to the plateau and stays. A small difference δ between students grows there as e^(t/τ), so
that the time to leave is τ ln(1/δ) plus a constant. Networks of size N leave it too, by their own
random start. What the original paper shows is public knowledge of the field; no equation is quoted
from it. The quick preset has two sizes of the committees.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_tolerance

TITLE = "The symmetric plateau of soft committees, and its length"
DIFFERS = "the plateau in the limit of a small learning rate, at sizes of our own"
CASE, SOURCE = "K = M = {K}: ", "symmetric phase"
SETTLED = Tolerance(1e-6, "relative; what is left of the approach to the plateau, e^(−15) or less")
CLAIMS = {
    "error": claim(CASE + "generalisation error of the plateau, over the predicted one", SOURCE,
                   within=SETTLED),
    "R": claim(CASE + "overlap of every student with every teacher, over the predicted one", SOURCE,
               within=SETTLED),
    "Q": claim(CASE + "overlap of all students, over the predicted one", SOURCE, within=SETTLED),
    "length": claim(CASE + "slope of the time to leave in ln(1/δ), over the escape time constant",
                    SOURCE, because="δ of the largest start, by which linear growth is off"),
    "networks": claim(CASE + "mean error of networks against the ODE from their own start, largest "
                      "distance in standard errors", SOURCE),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of committees, differences of students, and networks."""

    units: tuple[int, ...] = (2, 3)
    differences: tuple[float, ...] = (1e-3, 1e-4, 1e-5, 1e-6)
    settle: float = 400.0  # η α of the approach to the plateau
    eta: float = 0.1
    N: int = 4000
    runs: int = 20
    alpha: float = 150.0
    points: int = 16
    key: int = 0


PARTS = {"units": "K"}
PRESETS = {
    "quick": Params(),
    "paper": Params(units=(2, 3, 4, 5), differences=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The plateau, times to leave it, and networks, for every number of units."""
    rows = [_committee(params, K) for K in cases(params.units, report)]
    return xr.concat(rows, xr.Variable("K", list(params.units), {"long_name": "units K = M"}))


def _system(params: Params, K: int) -> ld.System:
    teacher = ld.Committee(K, "erf", init=ld.Orthonormal(1.0))
    student = ld.Committee(K, "erf", init=ld.Normal(0.1))
    problem = ld.TeacherStudent(ld.Isotropic(params.N), teacher)
    return ld.System(problem, student, ld.SGD(params.eta))


def _committee(params: Params, K: int) -> xr.Dataset:
    system = _system(params, K)
    end = params.settle / params.eta
    still = _flow(system, _start(K, 0.0), [0, end])
    marks = ld.theory_of(system).landmarks()
    begin, height = still["error"].values
    fine = np.linspace(0, 2 * end, 4001)
    curves = [_flow(system, _start(K, delta), fine) for delta in params.differences]
    half = float(height / begin) / 2
    left = [float(ld.analysis.fall_time(curve, fraction=half)) for curve in curves]
    start = ld.start(system, key=params.key)
    times = np.linspace(0, params.alpha, params.points)
    theory = ld.solve(system, times, start=start)
    runs = ld.simulate(system, times, start=start, runs=params.runs, key=params.key + 1)
    mean, error = ld.analysis.mean_and_error(runs["error"])
    last = still.isel(time=-1)
    return xr.Dataset(
        {
            "error": last["error"].drop_vars("time"),
            "R": ("entry", last["R"].values.reshape(-1)[[0, -1]]),
            "Q": ("entry", last["Q"].values.reshape(-1)[[0, -1]]),
            "predicted": ("mark", [marks[f"plateau_{name}"] for name in ("error", "R", "Q")]),
            "tau": marks["escape_time_constant"] / params.eta,
            "left": ("delta", left),
            "curve": (("delta", "fine"), [curve["error"].values for curve in curves]),
            "theory": ("time", theory["error"].values[1:]),
            "mean": ("time", mean.values[1:]),
            "standard_error": ("time", error.values[1:]),
        },
        {"delta": list(params.differences), "fine": fine, "mark": ["error", "R", "Q"]},
        {"runs": params.runs},
    )


def _start(K: int, delta: float) -> ld.Overlaps:
    """Equal students with small overlaps; each is nearer to its own teacher by `delta`."""
    R = np.full((K, K), 0.1) + delta * (np.eye(K) - 1 / K)
    return ld.Overlaps(R @ R.T, R, np.eye(K))  # students are sums of teachers


def _flow(system: ld.System, state: ld.Overlaps, times) -> xr.Dataset:
    start = ld.start(system, state=state)
    return ld.solve(system, times, start=start, order="flow", rtol=1e-10, atol=1e-13)


def draw(data: xr.Dataset) -> Figure:
    """Learning curves from every difference of students, and the time to leave against it."""
    figure, axes = panels(data.sizes["K"] + 1)
    for axis, K in zip(axes, data["K"].values, strict=False):
        one = data.sel(K=K)
        for delta in data["delta"].values:
            axis.plot(data["fine"], one["curve"].sel(delta=delta), label=f"δ = {delta:g}")
        height = float(one["predicted"].sel(mark="error"))
        axis.axhline(height, color="0.4", ls=":", lw=1)
        axis.set(xlabel="α [steps / N]", ylabel="generalisation error", title=f"K = M = {K}")
        axis.set_ylim(-0.05 * height, 2 * height)
        legend(axis, {"plateau": {"color": "0.4", "ls": ":"}})
        axes[-1].plot(1 / data["delta"], one["left"], "o-", label=f"K = M = {K}")
    axes[-1].set(xscale="log", xlabel="1/δ", ylabel="α at half of the plateau's error")
    legend(axes[-1])
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Heights of the plateau, its length, and networks."""
    return [row for K in data["K"].values for row in _claims(data.sel(K=K), int(K))]


def _claims(one: xr.Dataset, K: int) -> list[Claim]:
    of = lambda name: CLAIMS[name].format(K=K)
    expected = {name: float(one["predicted"].sel(mark=name)) for name in ("error", "R", "Q")}
    farthest = lambda name: max(
        np.atleast_1d(one[name].values), key=lambda value: abs(value - expected[name])
    )
    z, runs = abs(one["mean"] - one["theory"]) / one["standard_error"], int(one.attrs["runs"])
    slope = ld.analysis.fit_line(np.log(1 / one["delta"].values), one["left"].values).slope
    return [
        *(of(name).equals(farthest(name) / expected[name], 1.0) for name in expected),
        of("length").equals(slope / float(one["tau"]), 1.0, float(one["delta"].max())),
        of("networks").equals(float(z.max()), 0.0, student_tolerance(1.0, runs, entries=z.size)),
    ]
