"""How the classification error falls under Hebb's, the perceptron's and the AdaTron rule.

A linear unit learns the signs of a teacher. The classification error falls as c · α^−x with
x = 1/2, 1/3 and 1. The exact chain of networks of size N gives an exponent per run, between two
times; the theory gives it decade by decade. At a constant rate the logistic and the hinge loss end
as the perceptron does, with prefactors of their own; that is ours. What the paper shows is public
knowledge of the field; no equation is quoted from it. The quick preset has smaller networks and
earlier times.

Notes: docs/results/biehl1994perceptron/exponents/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases

TITLE = "Exponents of the classification error of the classical rules"
DIFFERS = "sizes and times of our own"
DECADE = "the change of the same number in the decade before"
CLAIMS = {
    "networks": claim("{rule}: exponent of the error of networks in α, mean over runs",
                      "α^(−1/2), α^(−1/3), α^(−1)", rate=PLANNED,
                      within=Tolerance(0.02, "margin of 0.02 for 1/N")),
    "theory": claim("{rule}: exponent of the error in the last decade of α",
                    "α^(−1/2), α^(−1/3), α^(−1)", because=DECADE),
    "prefactor": claim("{rule}: error · α^x at the last time", "asymptotic errors",
                       because=DECADE),
    "losses": claim("{rule} loss at a constant rate: exponent of the error in the last decade of α",
                    "as the perceptron, α^(−1/3)", kind="finding", because=DECADE),
    "noise": claim("perceptron with labels turned by noise: error at the last time over that a "
                   "decade earlier", "a constant rate does not reach zero error", kind="finding",
                   because="half of the fall that there is without noise, 10^(−1/3)"),
}  # fmt: skip
RULES = {"hebb": ld.Hebb(1.0), "perceptron": ld.Perceptron(1.0), "adatron": ld.AdaTron(1.0)}
LOSSES = {"logistic": ld.Logistic(), "hinge": ld.Hinge(1.0)}
EXPECTED = {"hebb": -1 / 2, "perceptron": -1 / 3, "adatron": -1.0}
STATE = ld.Overlaps([[1.0]], [[0.1]], [[1.0]])


@dataclasses.dataclass(frozen=True)
class Params:
    """Size, runs and window of the networks, decades of the theory, noise."""

    N: int = 300
    runs: int = 100
    first: float = 15.0
    last: float = 150.0
    decades: tuple[float, ...] = (1e2, 1e3, 1e4)
    noise: float = 1.0
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N=1000, first=30.0, last=600.0)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Errors of networks and theory by rule, and of the theory for losses and with noise."""
    rows = [_networks(params, rule) for rule in cases(list(RULES), report, end=0.8)]
    data = xr.concat(rows, xr.Variable("rule", list(RULES)))
    rules = [_late(params, _system(params, rule)) for rule in RULES.values()]
    losses = [_late(params, _system(params, ld.SGD(1.0), loss=loss)) for loss in LOSSES.values()]
    report(1.0)
    noisy = _late(params, _system(params, RULES["perceptron"], noise=params.noise))
    return data.assign(
        late=(("rule", "alpha"), rules),
        of_loss=(("loss", "alpha"), losses),
        noisy=(("alpha",), noisy),
    ).assign_coords(alpha=list(params.decades), loss=list(LOSSES))


def _system(params: Params, rule, loss=None, noise: float = 0.0) -> ld.System:
    teacher = ld.Committee(1, "sign")
    problem = ld.TeacherStudent(ld.Isotropic(params.N), teacher, loss=loss, label_noise=noise)
    return ld.System(problem, ld.Committee(1, "linear"), rule)


def _times(params: Params) -> np.ndarray:
    return np.rint(np.geomspace(params.first, params.last, 9) * params.N) / params.N


def _networks(params: Params, rule: str) -> xr.Dataset:
    system, times = _system(params, RULES[rule]), _times(params)
    start = ld.start(system, state=STATE)
    options = {"runs": params.runs, "key": params.key, "method": "reduced"}
    runs = ld.simulate(system, times, start=start, **options)
    theory = ld.solve(system, times, start=start)
    name = "classification_error"
    return xr.Dataset(
        {"error": (("run", "time"), runs[name].values), "theory": (("time",), theory[name].values)},
        {"time": times},
    )


def _late(params: Params, system: ld.System) -> np.ndarray:
    """Errors of the theory at the ends of the decades."""
    start = ld.start(system, state=STATE)
    times = [0.0, *params.decades]
    record = ld.solve(system, times, start=start, rtol=1e-10, atol=1e-14)
    return record["classification_error"].values[1:]


def draw(data: xr.Dataset) -> Figure:
    """Errors of networks against the theory, and late errors of rules and losses."""
    figure, axes = panels(2, columns=2, size=(3.6, 2.8))
    for number, rule in enumerate(data["rule"].values):
        one, color = data.sel(rule=rule), f"C{number}"
        axes[0].plot(one["time"], one["error"].mean("run"), "o", color=color, ms=3)
        axes[0].plot(one["time"], one["theory"], color=color, label=str(rule))
        axes[1].plot(data["alpha"], one["late"], "-o", color=color, ms=3)
    for number, loss in enumerate(data["loss"].values, len(data["rule"])):
        late = data["of_loss"].sel(loss=loss)
        axes[1].plot(data["alpha"], late, "--s", color=f"C{number}", ms=3, label=f"{loss} loss")
    axes[1].plot(data["alpha"], data["noisy"], ":", color="0.3", label="noisy labels")
    for axis, title in zip(axes, ("networks (dots) and theory", "theory"), strict=True):
        axis.set(xlabel="α = steps / N", ylabel="classification error", title=title)
        axis.set(xscale="log", yscale="log")
        axis.xaxis.set_minor_formatter("")
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Exponents of networks and of the theory, prefactors, losses, noise."""
    claims = []
    for rule, expected in EXPECTED.items():
        one = data.sel(rule=rule)
        measured = intervals.of_mean(_slopes(one["error"]), over="run")
        window = abs(float(_slopes(one["theory"])) - expected)
        early = Tolerance(window, "what the theory's own exponent lacks between these times")
        claims.append(CLAIMS["networks"].format(rule=rule).equals(measured, expected, early))
        claims.append(_last_decade("theory", rule, one["late"], expected))
        scaled = one["late"].values * data["alpha"].values ** -expected
        known = ld.theory_of(_system(Params(), RULES[rule])).landmarks()["error_prefactor"]
        change = abs(scaled[-2] - scaled[-3])
        claims.append(CLAIMS["prefactor"].format(rule=rule).equals(scaled[-1], known, change))
    for loss in data["loss"].values:
        claims.append(_last_decade("losses", str(loss), data["of_loss"].sel(loss=loss), -1 / 3))
    ratio = float(data["noisy"][-1] / data["noisy"][-2])
    half = (1 + 10 ** (-1 / 3)) / 2
    return [*claims, CLAIMS["noise"].at_least(ratio, half)]


def _slopes(errors: xr.DataArray) -> xr.DataArray:
    """The slope of log error in log α, by least squares."""
    logs = np.log(errors["time"])
    centred = logs - logs.mean()
    return (np.log(errors) * centred).sum("time") / (centred**2).sum()


def _last_decade(name: str, rule: str, late: xr.DataArray, expected: float) -> Claim:
    before, last = np.diff(np.log(late.values)) / np.diff(np.log(late["alpha"].values))
    return CLAIMS[name].format(rule=rule).equals(last, expected, abs(last - before))
