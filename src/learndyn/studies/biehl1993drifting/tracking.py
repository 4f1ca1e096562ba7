"""How well a student tracks a teacher that drifts, and at which constant rate.

The teacher diffuses, or rotates. A linear unit with noisy labels balances the lag behind the
teacher against the noise: the best constant rate and its error are powers of the speed, with other
exponents for the two kinds of motion. The exact chain of networks of sizes N and 2N gives the
stationary error; twice the one minus the other is without the order 1/N. A perceptron without noise
has a tracking error that does not depend on its rate, (4δ)^(1/3)/π. The paper has classification
only; the linear unit is ours. The quick preset has smaller networks and fewer runs.

Notes: docs/results/biehl1993drifting/tracking/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases

TITLE = "Tracking errors of drifting teachers, and the best constant rate"
DIFFERS = "ours: linear units beside the perceptron, and sizes of our own"
DECADE = "the change of the same number in the decade before"
CLAIMS = {
    "networks": claim("{motion}: stationary error of networks at the best rate, 1/N removed, over "
                      "that of the theory, minus 1", "fixed point of the flow", kind="finding",
                      within=Tolerance(0.03, "equivalence margin, 3 %")),
    "best": claim("{motion}: error of networks at the best rate over that at {factor} it, minus 1",
                  "best constant rate", kind="finding",
                  because="the order itself: 0 would be no difference"),
    "rate": claim("{motion}: exponent of the best rate in the speed", "small speeds",
                  kind="finding", because=DECADE),
    "error": claim("{motion}: exponent of the best tracking error in the speed", "small speeds",
                   kind="finding", because=DECADE),
    "perceptron": claim("perceptron, diffusion: exponent of the stationary error in the speed",
                        "δ^(1/3)", because=DECADE),
    "prefactor": claim("perceptron, diffusion: stationary error over [4δ]^(1/3)/π at the least "
                       "speed", "(4δ)^(1/3)/π", kind="finding", because=DECADE),
    "any rate": claim("perceptron, diffusion: stationary error at rate 1/3 over that at rate 1, "
                      "minus 1", "the rate sets the norm alone", kind="finding",
                      within=Tolerance(1e-4, "what is left of the start, and rounding")),
}  # fmt: skip
MOTIONS = {
    "diffusion": (lambda speed: ld.Drift(diffusion=speed), 1 / 2),
    "rotation": (lambda speed: ld.Drift(rotation=speed), 2 / 3),
}
FACTORS = {"half": 0.5, "twice": 2.0}


@dataclasses.dataclass(frozen=True)
class Params:
    """Speed, noise, sizes and times of networks, and small speeds of the theory."""

    speed: float = 0.05
    noise: float = 1.0
    N: int = 60
    runs: int = 200
    end: float = 160.0
    speeds: tuple[float, ...] = (1e-5, 1e-4, 1e-3)
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N=200, runs=400, end=300.0)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Stationary errors of networks by motion, factor of the best rate and size; of the theory."""
    rows = [_motion(params, motion) for motion in cases(list(MOTIONS), report, end=0.7)]
    data = xr.concat(rows, xr.Variable("motion", list(MOTIONS)))
    perceptron = [_perceptron(speed, 1.0) for speed in params.speeds]
    report(0.9)
    other = _perceptron(params.speeds[-1], 1 / 3)
    return data.assign(perceptron=("speed", perceptron), other_rate=other)


def _system(params: Params, motion: str, speed: float, eta: float, N: int) -> ld.System:
    line, drift = ld.Committee(1, "linear"), MOTIONS[motion][0](speed)
    problem = ld.TeacherStudent(ld.Isotropic(N), line, label_noise=params.noise, drift=drift)
    return ld.System(problem, line, ld.SGD(eta))


def _landmarks(params: Params, motion: str, speed: float, eta: float = 0.1) -> dict[str, float]:
    return ld.theory_of(_system(params, motion, speed, eta, params.N)).landmarks()


def _motion(params: Params, motion: str) -> xr.Dataset:
    best = _landmarks(params, motion, params.speed)
    small = [_landmarks(params, motion, speed) for speed in params.speeds]
    at = {"half": 0.5, "best": 1.0, "twice": 2.0}
    errors = {
        name: _stationary(params, motion, factor * best["best_learning_rate"], 2 * params.N)
        for name, factor in at.items()
    }
    single = _stationary(params, motion, best["best_learning_rate"], params.N)
    rates = best["best_learning_rate"] * np.geomspace(0.2, 4, 41)
    curve = [_landmarks(params, motion, params.speed, eta)["tracking_error"] for eta in rates]
    return xr.Dataset(
        {
            "networks": (("factor", "run"), list(errors.values())),
            "small": (("run",), single),
            "best_rate": best["best_learning_rate"],
            "best_error": best["best_tracking_error"],
            "rates": (("speed",), [each["best_learning_rate"] for each in small]),
            "errors": (("speed",), [each["best_tracking_error"] for each in small]),
            "curve_rate": (("point",), rates),
            "curve": (("point",), curve),
        },
        {"factor": list(errors), "speed": list(params.speeds)},
    )


def _stationary(params: Params, motion: str, eta: float, N: int) -> np.ndarray:
    """Errors of networks, averaged over the second half of the time, by run."""
    system = _system(params, motion, params.speed, eta, N)
    rows = 2 if motion == "rotation" else 1  # the teacher, and its partner
    state = ld.Overlaps([[1.0]], np.zeros((1, rows)), np.eye(rows))
    times = np.concatenate([[0.0], np.linspace(params.end / 2, params.end, 61)])
    options = {"runs": params.runs, "key": params.key + N, "method": "reduced"}
    record = ld.simulate(system, times, start=ld.start(system, state=state), **options)
    return record["error"].isel(time=slice(1, None)).mean("time").values


def _perceptron(speed: float, eta: float) -> float:
    """The classification error at which a perceptron comes to rest."""
    drift = ld.Drift(diffusion=speed)
    problem = ld.TeacherStudent(ld.Isotropic(1000), ld.Committee(1, "sign"), drift=drift)
    system = ld.System(problem, ld.Committee(1, "linear"), ld.Perceptron(eta))
    # The norm relaxes at the rate θ³/4 = δ.
    norm = (eta / speed ** (1 / 3)) ** 2
    state = ld.Overlaps([[norm]], [[0.9 * norm**0.5]], [[1.0]])
    times = [0.0, 15 / speed]
    record = ld.solve(system, times, start=ld.start(system, state=state), rtol=1e-10, atol=1e-14)
    return float(record["classification_error"][-1])


def draw(data: xr.Dataset) -> Figure:
    """Tracking error against the rate, by motion; best errors against the speed."""
    figure, axes = panels(2, columns=2, size=(3.6, 2.8))
    for number, motion in enumerate(data["motion"].values):
        one, color = data.sel(motion=motion), f"C{number}"
        axes[0].plot(one["curve_rate"], one["curve"], color=color, label=str(motion))
        rates = float(one["best_rate"]) * np.array([0.5, 1.0, 2.0])
        spread = one["networks"].std("run", ddof=1) / np.sqrt(data.sizes["run"])
        axes[0].errorbar(rates, one["networks"].mean("run"), spread, color=color, fmt="o", ms=3)
        axes[1].plot(data["speed"], one["errors"], "-o", color=color, ms=3, label=str(motion))
    axes[1].plot(data["speed"], data["perceptron"], "--s", color="C2", ms=3, label="perceptron")
    titles = {"learning rate": "linear unit; networks (dots)", "speed": "small speeds"}
    for axis, (label, title) in zip(axes, titles.items(), strict=True):
        axis.set(xlabel=label, ylabel="stationary error", title=title, xscale="log", yscale="log")
        axis.xaxis.set_minor_formatter("")
        axis.yaxis.set_minor_formatter("")
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Networks against the theory and at other rates, exponents, and the perceptron."""
    claims = []
    for motion, (_, expected) in MOTIONS.items():
        one = data.sel(motion=motion)
        best = one["networks"].sel(factor="best")
        removed = (2 * best - one["small"]) / one["best_error"] - 1
        pairs = intervals.of_mean(removed, "pairs of runs", over="run")
        claims.append(CLAIMS["networks"].format(motion=motion).equals(pairs, 0.0))
        for factor in FACTORS:
            other = one["networks"].sel(factor=factor)
            # Differences of runs: both errors scatter, and the sign is that of the difference.
            ratio = (best - other) / other.mean("run")
            less = CLAIMS["best"].format(motion=motion, factor=factor)
            claims.append(less.at_most(intervals.of_mean(ratio, over="run"), 0.0))
        for name, values in (("rate", one["rates"]), ("error", one["errors"])):
            claims.append(_exponent(CLAIMS[name].format(motion=motion), values, expected))
    claims.append(_exponent(CLAIMS["perceptron"], data["perceptron"], 1 / 3))
    scaled = np.pi * data["perceptron"].values / (4 * data["speed"].values) ** (1 / 3)
    claims.append(CLAIMS["prefactor"].equals(scaled[0], 1.0, abs(scaled[1] - scaled[2])))
    ratio = float(data["other_rate"] / data["perceptron"][-1]) - 1
    return [*claims, CLAIMS["any rate"].equals(ratio, 0.0)]


def _exponent(sentence, values: xr.DataArray, expected: float) -> Claim:
    """The exponent between the two least speeds; its tolerance is the change from the others."""
    slow, fast = np.diff(np.log(values.values)) / np.diff(np.log(values["speed"].values))
    return sentence.equals(slow, expected, abs(slow - fast))
