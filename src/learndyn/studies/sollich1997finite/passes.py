"""Where the theory of one pass ends: finite training sets, by the number of passes over them.

Students learn from P = ratio · N examples, drawn with replacement, and are tested on the teacher
itself. The one-pass theory sees fresh examples; the theory of models that are linear in their
weights (the kernel theory) sees the data set. For a linear unit the kernel theory is exact at any
number of passes, and the one-pass theory is its limit for large sets. For a committee of two erf
units the kernel is not constant: linearised around the start it predicts too large an error once
features are learned. The kernel theory follows the covariance of all outputs, so that it is
computed for linear units at the smallest sets, and for the committee at some of the largest. The
paper solves the linear unit in the limit N → ∞; here data sets are finite and given, and deviations
are averaged over them. The quick preset has smaller and fewer sets.

Notes: docs/results/sollich1997finite/passes/notes.md.
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

TITLE = "Finite training sets: where one-pass theory ends"
DIFFERS = "data sets of our own, of finite size"
MARGIN = Tolerance(0.1, "margin of 10 %, for the scatter of teachers and sets of finite size")
CLAIMS = {
    "kernel": claim("linear, P = {ratio:g} N: test error of networks over the kernel theory's, "
                    "minus 1, farthest of all passes", "exact for every data set", kind="finding",
                    within=Tolerance(0.05, "equivalence margin, 5 %")),
    "early": claim("{student}, P = {ratio:g} N: test error of networks over the one-pass theory's "
                   "after {early:g} passes, minus 1", "examples have not come back yet",
                   kind="finding", within=MARGIN),
    "late": claim("{student}, P = {ratio:g} N: test error of networks over the one-pass theory's "
                  "after {late:g} passes, minus 1", "examples come back", kind="finding",
                  because="twice the margin within which the theory holds early"),
    "larger": claim("{student}: passes until the test error is 10 % above the one-pass theory's, "
                    "at P = {large:g} N over P = {small:g} N, in steps", "larger sets last longer",
                    kind="finding", because="the order itself: 1 would be no difference",
                    rate=PLANNED),
    "linearised": claim("erf, P = {ratio:g} N: test error of networks over the kernel theory's at "
                        "the start, minus 1, after {late:g} passes", "features are learned",
                        kind="finding", because="twice the margin of 10 %"),
}  # fmt: skip
STUDENTS = {"linear": 1, "erf": 2}


@dataclasses.dataclass(frozen=True)
class Params:
    """Size of inputs, sizes of sets in units of it, numbers of sets and runs, passes, noise."""

    N: int = 40
    ratios: tuple[float, ...] = (2.0, 6.0)
    tests: int = 60
    sets: int = 16
    twins: int = 8
    runs: int = 32
    early: float = 0.1
    late: float = 10.0
    noise: float = 0.5
    eta: float = 0.5
    key: int = 0


# The kernel theory is exact for up to 512 examples in both sets.
PRESETS = {"quick": Params(), "paper": Params(N=60, sets=40, twins=20, runs=60, late=20.0)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Test errors of networks and of both theories, by student, ratio, set and passes."""
    every = [(student, ratio) for student in STUDENTS for ratio in params.ratios]
    rows = [_sets(params, *each) for each in cases(every, report)]
    data = xr.concat(rows, xr.Variable("case", [f"{s} {r:g}" for s, r in every]))
    students, ratios = zip(*every, strict=True)
    return data.assign(student=("case", list(students)), ratio=("case", list(ratios)))


def _passes(params: Params) -> np.ndarray:
    return np.concatenate([[0.0], np.geomspace(params.early, params.late, 10)])


def _sets(params: Params, student: str, ratio: float) -> xr.Dataset:
    """The errors of one student and ratio, by set and passes."""
    found = [_set(params, student, ratio, number) for number in range(params.sets)]
    values = {name: (("set", "pass"), [each[name] for each in found]) for name in found[0]}
    return xr.Dataset(values, {"pass": _passes(params)})


def _set(params: Params, student: str, ratio: float, number: int) -> dict[str, np.ndarray]:
    """The errors on one data set, of networks averaged over runs.

    `networks` and `one_pass` are errors on the population, the others on a test set.
    """
    key, N, P = params.key + number, params.N, int(ratio * params.N)
    teacher = ld.Committee(1, student)
    network = ld.Committee(STUDENTS[student], student, scale=1 / STUDENTS[student])
    problem = ld.TeacherStudent(ld.Isotropic(N), teacher, label_noise=params.noise)
    online = ld.System(problem, network, ld.SGD(params.eta))
    start, steps = ld.start(online, key=key), np.rint(_passes(params) * P)
    data = _data(params, teacher, start.teacher, P, np.random.default_rng(key))
    population = problem.population_loss(network, start.teacher)
    assert population is not None
    system = ld.System(data, network, ld.SGD(params.eta))
    runs = ld.simulate(  # committees have the time steps / N on a data set too, their twins steps
        system,
        steps / N,
        start=ld.start(system, weights=start.weights),
        runs=params.runs,
        key=key,
        probes={"population": lambda model: population(model.weights)},
    )
    kernel = np.full(len(steps), np.nan)
    if _has_kernel(params, student, ratio, number):
        twin = ld.linearise(ld.Model(network, start.weights))
        linear = ld.System(data, twin, ld.SGD(params.eta))
        kernel = ld.solve(linear, steps)["test_error"].values
    return {
        "networks": runs["population"].mean("run").values,
        "tested": runs["test_error"].mean("run").values,
        "kernel": kernel,
        "one_pass": ld.solve(online, steps / N, start=start)["error"].values,
    }


def _has_kernel(params: Params, student: str, ratio: float, number: int) -> bool:
    if student == "linear":
        return ratio == min(params.ratios)
    return ratio == max(params.ratios) and number < params.twins


def _data(params: Params, teacher, weights, P: int, rng: np.random.Generator) -> ld.Dataset:
    """P examples with noise on the labels, and others without for the test."""
    x = rng.standard_normal((P + params.tests, params.N))
    y = np.asarray(teacher(weights, x))
    noisy = y[:P] + params.noise * rng.standard_normal(P)
    return ld.Dataset(x[:P], noisy, test=(x[P:], y[P:]))


def draw(data: xr.Dataset) -> Figure:
    """Test errors against passes, one panel per student and size of the set."""
    figure, axes = panels(data.sizes["case"], columns=2, size=(3.6, 2.6))
    for axis, case in zip(axes, data["case"].values, strict=True):
        one = data.sel(case=case).isel({"pass": slice(1, None)})
        axis.plot(one["pass"], one["networks"].mean("set"), "o", color="0.2", label="networks")
        axis.plot(one["pass"], one["one_pass"].mean("set"), color="C0", label="one-pass theory")
        if one["kernel"].notnull().any():  # not computed in every panel
            kernel = one["kernel"].mean("set")
            axis.plot(one["pass"], kernel, "--", color="C1", label="kernel theory")
        title = f"{one['student'].item()}, P = {one['ratio'].item():g} N"
        axis.set(xlabel="passes over the data", ylabel="test error", title=title, xscale="log")
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Early and late against the one-pass theory, and the kernel theory."""
    claims, ends = [], {}
    passes = data["pass"].values
    early, late = float(passes[1]), float(passes[-1])
    for i in range(data.sizes["case"]):
        one = data.isel(case=i)
        about = {"student": one["student"].item(), "ratio": one["ratio"].item()}
        above = _mean_ratio(one["networks"], one["one_pass"])
        first = CLAIMS["early"].format(**about, early=early)
        claims.append(first.equals(above(1), 0.0))
        last = CLAIMS["late"].format(**about, late=late)
        claims.append(last.at_least(above(-1), 2 * MARGIN.value))
        ends.setdefault(about["student"], {})[about["ratio"]] = _end(one)
        known = one.dropna("set", subset=["kernel"])
        if not known.sizes["set"]:
            continue
        if about["student"] == "linear":
            exact = CLAIMS["kernel"].format(ratio=about["ratio"])
            off = (known["tested"] / known["kernel"] - 1).isel({"pass": slice(1, None)})
            every = intervals.of_mean(off, "sets", over="set", which="farthest")
            claims.append(exact.at_most(every, 0.0))
        else:
            learned = CLAIMS["linearised"].format(ratio=about["ratio"], late=late)
            kernel = _mean_ratio(known["tested"], known["kernel"])
            claims.append(learned.at_most(kernel(-1), -2 * MARGIN.value))
    for student, found in ends.items():
        small, large = min(found), max(found)
        ratio = found[large] * large / (found[small] * small)
        longer = CLAIMS["larger"].format(student=student, small=small, large=large)
        claims.append(longer.at_least(ratio, 1.0))
    return claims


def _mean_ratio(a: xr.DataArray, b: xr.DataArray):
    """Place of a pass → the interval of the mean over sets of a / b − 1."""
    return lambda place: intervals.of_mean((a / b - 1).isel({"pass": place}), "sets", over="set")


def _end(one: xr.Dataset) -> float:
    """The number of passes until the mean error is 10 % above the one-pass theory's."""
    passes = one["pass"].values
    above = (one["networks"] / one["one_pass"]).mean("set").values - 1 - MARGIN.value
    i = int(np.argmax(above > 0))
    if i < 2:  # never, or as soon as anything was read
        return float(passes[i]) if i else np.inf
    return float(np.exp(np.interp(0.0, above[i - 1 : i + 1], np.log(passes[i - 1 : i + 1]))))
