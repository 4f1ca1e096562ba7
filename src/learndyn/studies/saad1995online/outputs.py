"""How several outputs shorten the plateau; ours.

Two units learn from two units, with two outputs and fixed output weights (cos θ, ± sin θ), the same
in student and teacher. At θ = 0 there is one output, units that begin alike stay alike, and the
error never leaves the plateau. The second output sets them apart by sin² θ, and what sets them
apart grows at the rate g of one output's plateau, so that a small angle costs the time 2 ln(1/θ)/g.
At θ = 45° output weights are orthogonal, each unit learns as if alone, and there is no plateau.
Networks are trained by the exact chain at sizes N and 2N; twice the one minus the other is without
the order 1/N. The quick preset has fewer runs.

Notes: docs/results/saad1995online/outputs/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report

TITLE = "Several outputs: how they break the symmetry of the plateau"
DIFFERS = "ours: the paper has one output"
CLAIMS = {
    "one output": claim("θ = 0: error at the last time over the plateau's, minus 1",
                        "units that are alike stay alike", kind="finding",
                        within=Tolerance(1e-3, "what is left of the way to the plateau")),
    "time": claim("growth of the time to leave the plateau in ln(1/θ), in units of 1/g",
                  "sin² θ exp(g t) is of order 1", kind="finding",
                  because="the change of the same number in the decade before"),
    "alone": claim("θ = 45°: error over twice that of one unit, minus 1, largest of all times",
                   "no term of the other unit", kind="theorem",
                   within=Tolerance(1e-5, "tolerance of the integrator")),
    "networks": claim("θ = {theta:g}: error of networks, 1/N removed, over that of the theory, "
                      "minus 1, farthest of all times", "limit N → ∞", kind="finding",
                      within=Tolerance(0.05, "equivalence margin, 5 %")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Angles in decades, the rate and the end of theory; angle, rate and sizes of networks."""

    angles: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    shown: float = 0.1
    end: float = 300.0
    points: int = 601
    theta: float = 0.3
    eta: float = 0.5
    last: float = 40.0
    N: int = 100
    runs: int = 300
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N=200, runs=3000)}
STATE = ld.Overlaps(np.full((2, 2), 0.04), np.zeros((2, 2)), np.eye(2))
SMALL = 0.1  # the rate of order "flow", whose curve in η α does not depend on it


def compute(params: Params, report: Report) -> xr.Dataset:
    """Errors of the theory by angle, of one unit, and of networks by size and run."""
    times = np.linspace(0.0, params.end, params.points)
    angles = [0.0, *params.angles, params.shown, np.pi / 4]
    errors = []
    for done, theta in enumerate(angles):
        errors.append(_flow(_system(theta, SMALL), STATE, times))
        report(0.5 * (done + 1) / len(angles))
    single = _flow(_single(), ld.Overlaps([[0.04]], [[0.0]], [[1.0]]), times)
    landmarks = ld.theory_of(_system(0.0, SMALL)).landmarks()
    data = xr.Dataset(
        {
            "error": (("theta", "t"), errors),
            "single": (("t",), single),
            "growth_rate": landmarks["plateau_growth_rate"],
            "plateau_error": landmarks["plateau_error"],
        },
        {"theta": angles, "t": times},
    )
    return data.merge(_networks(params)).assign_attrs(theta=params.theta)


def _system(theta: float, eta: float, N: int = 1000) -> ld.System:
    v = np.array([[np.cos(theta), np.sin(theta)], [np.cos(theta), -np.sin(theta)]])
    outputs = v if theta else None  # one output, with weights 1
    teacher = ld.Committee(2, "erf", outputs=outputs, init=ld.Orthonormal(1.0))
    student = ld.Committee(2, "erf", outputs=outputs)
    return ld.System(ld.TeacherStudent(ld.Isotropic(N), teacher), student, ld.SGD(eta))


def _single() -> ld.System:
    unit = ld.Committee(1, "erf")
    return ld.System(ld.TeacherStudent(ld.Isotropic(1000), unit), unit, ld.SGD(SMALL))


def _flow(system: ld.System, state: ld.Overlaps, times: np.ndarray) -> np.ndarray:
    """Errors at times η α, in the limit of a small learning rate."""
    start = ld.start(system, state=state)
    options = {"order": "flow", "rtol": 1e-9, "atol": 1e-13}
    return ld.solve(system, times / SMALL, start=start, **options)["error"].values


def _networks(params: Params) -> xr.Dataset:
    times, errors = np.linspace(0.0, params.last, 9), []
    for N in (params.N, 2 * params.N):
        system = _system(params.theta, params.eta, N)
        start = ld.start(system, state=STATE)
        options = {"runs": params.runs, "key": params.key + N, "method": "reduced"}
        errors.append(ld.simulate(system, times, start=start, **options)["error"].values)
    theory = ld.solve(system, times, start=start)["error"].values
    variables = {"networks": (("N", "run", "time"), errors), "theory": (("time",), theory)}
    return xr.Dataset(variables, {"N": [params.N, 2 * params.N], "time": times})


def draw(data: xr.Dataset) -> Figure:
    """Errors against time by angle, and networks."""
    figure, axes = panels(2, columns=2, size=(3.6, 2.8))
    for theta in data["theta"].values:
        label = "θ = π/4" if theta == data["theta"].values[-1] else f"θ = {theta:g}"
        axes[0].plot(data["t"], data["error"].sel(theta=theta), label=label)
    axes[0].set(xlabel="learning rate × steps / N", ylabel="error", yscale="log")
    axes[0].set_ylim(1e-5, 1)
    axes[1].plot(data["time"], data["theory"], label="theory")
    axes[1].plot(data["time"], _removed(data).mean("run"), "o", label="networks, 1/N removed")
    axes[1].set(xlabel="steps / N", ylabel="error", title=f"θ = {data.attrs['theta']:g}")
    legend(axes[0], ncols=2, loc="upper right")  # above the plateau
    legend(axes[1])
    return figure


def _removed(data: xr.Dataset) -> xr.DataArray:
    """Errors of networks without the order 1/N."""
    return 2 * data["networks"].isel(N=1) - data["networks"].isel(N=0)


def _leaves(data: xr.Dataset) -> np.ndarray:
    """The time at which the error is half of the plateau's, by angle, of the small angles."""
    half, times = 0.5 * float(data["plateau_error"]), data["t"].values
    errors = data["error"].isel(theta=slice(1, -2)).values
    below = [int(np.argmax(row < half)) for row in errors]
    return np.array([
        np.interp(-half, -row[i - 1 : i + 1], times[i - 1 : i + 1])
        for row, i in zip(errors, below, strict=True)
    ])  # fmt: skip


def check(data: xr.Dataset) -> list[Claim]:
    """The plateau of one output, its end with two, units alone, and networks."""
    stays = float(data["error"].sel(theta=0.0)[-1] / data["plateau_error"]) - 1
    angles = data["theta"].values[1:-2]
    slopes = -np.diff(_leaves(data)) / np.diff(np.log(angles)) * float(data["growth_rate"])
    ratio = data["error"].isel(theta=-1) / (2 * data["single"])
    learning = data["single"] > 1e-6 * data["single"][0]  # above the tolerance of the integrator
    later = (_removed(data) / data["theory"]).isel(time=slice(1, None)) - 1
    off = intervals.of_mean(later, "pairs of runs", over="run", which="farthest")
    networks = CLAIMS["networks"].format(theta=data.attrs["theta"])
    return [
        CLAIMS["one output"].equals(stays, 0.0),
        CLAIMS["time"].equals(slopes[0], 2.0, abs(slopes[0] - slopes[1])),
        CLAIMS["alone"].equals(float(abs(ratio - 1).where(learning).max()), 0.0),
        networks.at_most(off, 0.0),
    ]
