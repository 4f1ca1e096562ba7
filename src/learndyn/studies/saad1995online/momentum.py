"""Momentum in online learning: its two limits, and networks; ours.

At a fixed momentum β the limit N → ∞ is SGD at the rate η/(1 − β), and networks approach it with a
correction of order 1/(N (1 − β)). At a fixed γ = N (1 − β) velocities last as long as the error
takes to change, and the equations with their overlaps (order "inertial") are the limit. The exact
chain trains networks of sizes N and 2N; twice the one minus the other is without the order 1/N.
The quick preset has fewer runs.

Notes: docs/results/saad1995online/momentum/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels, shared_legend
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report

TITLE = "Momentum: SGD at a larger rate, and what velocities add near momentum 1"
DIFFERS = "ours: the paper has no momentum"
MARGIN = Tolerance(0.03, "equivalence margin, 3 %")
CLAIMS = {
    "limit": claim("β = {at:g}: error of networks, 1/N removed, over that of SGD at η/(1 − β), "
                   "minus 1, farthest of all times", "limit at fixed β", kind="finding",
                   within=MARGIN),
    "inertial": claim("γ = {at:g}: error of networks, 1/N removed, over that of the order "
                      "inertial, minus 1, farthest of all times", "limit at fixed γ",
                      kind="finding", within=MARGIN),
    "velocities": claim("γ = {at:g}: error of networks over that of SGD at η/(1 − β), minus 1, "
                        "largest of all times", "velocities delay learning", kind="finding",
                        because="twice the margin within which the order inertial holds"),
    "order": claim("exponent in γ of the distance of the two predictions", "1/γ", kind="finding",
                   within=Tolerance(0.1, "margin of 0.1, the next order in 1/γ")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """The limit's rate, momenta, frictions γ, sizes and times."""

    eta: float = 0.6
    momenta: tuple[float, ...] = (0.5, 0.9)
    frictions: tuple[float, ...] = (2.0, 4.0)
    large: tuple[float, ...] = (32.0, 64.0, 128.0)
    N: int = 200
    runs: int = 1500
    times: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N=400, runs=20_000)}
LOOKS = {"full": ("--", "SGD at η/(1 − β)"), "inertial": ("-", "with velocities")}  # by order
STATE = ld.Overlaps([[0.3, 0.05], [0.05, 0.4]], [[0.1], [-0.05]], [[1.0]])


def compute(params: Params, report: Report) -> xr.Dataset:
    """Errors of networks by limit, size, run and time; of both orders; their distance."""
    cases = [("beta", each) for each in params.momenta]
    cases += [("gamma", each) for each in params.frictions]
    rows = []
    for done, (kind, at) in enumerate(cases):
        report(done / len(cases))
        rows.append(_case(params, kind, at))
    names = [f"{kind} {at:g}" for kind, at in cases]
    data = xr.concat(rows, xr.Variable("case", names))
    gaps = [_distance(params, gamma) for gamma in params.large]
    about = {"kind": ("case", [kind for kind, _ in cases]), "at": ("case", [at for _, at in cases])}
    return data.assign(about | {"distance": ("gamma", gaps)}).assign_coords(gamma=[*params.large])


def _system(params: Params, N: int, beta: float) -> ld.System:
    problem = ld.TeacherStudent(ld.Isotropic(N), ld.Committee(1, "erf"), label_noise=0.2)
    rule = ld.SGD(params.eta * (1 - beta), momentum=beta)
    return ld.System(problem, ld.Committee(2, "erf"), rule)


def _predicted(params: Params, N: int, beta: float, order: str) -> np.ndarray:
    system = _system(params, N, beta)
    record = ld.solve(system, params.times, start=ld.start(system, state=STATE), order=order)
    return record["error"].values


def _case(params: Params, kind: str, at: float) -> xr.Dataset:
    sizes, errors = (params.N, 2 * params.N), []
    for N in sizes:
        beta = at if kind == "beta" else 1 - at / N
        system = _system(params, N, beta)
        options = {"runs": params.runs, "key": params.key + N, "method": "reduced"}
        start = ld.start(system, state=STATE)
        runs = ld.simulate(system, params.times, start=start, **options)
        errors.append(runs["error"].values)
    N = 2 * params.N
    beta = at if kind == "beta" else 1 - at / N
    orders = [_predicted(params, N, beta, order) for order in ("full", "inertial")]
    variables = {
        "error": (("N", "run", "time"), errors),
        "predicted": (("order", "time"), orders),
    }
    coords = {"N": list(sizes), "time": list(params.times), "order": ["full", "inertial"]}
    return xr.Dataset(variables, coords)


def _distance(params: Params, gamma: float) -> float:
    """The largest distance of the two predicted errors, N far above γ."""
    full, inertial = (_predicted(params, 1000, 1 - gamma / 1000, o) for o in ("full", "inertial"))
    return float(np.abs(full - inertial).max())


def _removed(one: xr.Dataset) -> xr.DataArray:
    """Errors of networks without the order 1/N, after time 0."""
    return (2 * one["error"].isel(N=1) - one["error"].isel(N=0)).isel(time=slice(1, None))


def draw(data: xr.Dataset) -> Figure:
    """Errors of networks and predictions, one panel per limit."""
    figure, axes = panels(data.sizes["case"], columns=2, size=(3.6, 2.8))
    for axis, case in zip(axes, data["case"].values, strict=True):
        one = data.sel(case=case)
        for order, (style, label) in LOOKS.items():
            axis.plot(data["time"], one["predicted"].sel(order=order), style, label=label)
        later = _removed(one).mean("run")
        axis.plot(later["time"], later, "o", color="0.2", label="networks, 1/N removed")
        symbol = "β" if str(one["kind"].values) == "beta" else "γ"
        axis.set(xlabel="steps / N", ylabel="error", title=f"{symbol} = {float(one['at']):g}")
    shared_legend(axes)
    return figure


def _off(one: xr.Dataset, order: str, which: intervals.Which = "farthest") -> intervals.Interval:
    ratio = _removed(one) / one["predicted"].sel(order=order)
    return intervals.of_mean(ratio - 1, "pairs of runs", over="run", which=which)


def check(data: xr.Dataset) -> list[Claim]:
    """Each limit against networks, and the distance of the two limits."""
    claims = []
    for i in range(data.sizes["case"]):
        one, fixed = data.isel(case=i), str(data["kind"].values[i]) == "beta"
        at = float(data["at"].values[i])
        if fixed:
            claims.append(CLAIMS["limit"].format(at=at).at_most(_off(one, "full"), 0.0))
            continue
        claims.append(CLAIMS["inertial"].format(at=at).at_most(_off(one, "inertial"), 0.0))
        later = _off(one, "full", "largest")  # learning is delayed: the error is larger
        claims.append(CLAIMS["velocities"].format(at=at).at_least(later, 2 * MARGIN.value))
    fit = ld.analysis.fit_power_law(data["gamma"].values, data["distance"].values)
    return [*claims, CLAIMS["order"].equals(fit.slope, -1.0)]
