"""Students and teachers of different activations: what remains, and who learns first.

Both layers learn, without noise and in the limit of a small learning rate. A student of its
teacher's activation learns it completely. One of another activation keeps an error: a small one
between tanh and erf, which falls as the student grows, and a large one between relu and erf. Of
students that learn from their own kind from the same weights, relu leaves the plateau first, then
tanh, then erf. Networks of size N and 2N, by the exact chain, end at the theory's error up to 1/N².
Ours; the quick preset has fewer starts.
"""

import dataclasses
import itertools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_tolerance

TITLE = "Students of another activation than their teacher's, and the order of escapes"
DIFFERS = "ours: the paper has no such figure"
OWN = ("relu", "tanh", "erf")
PAIRS = (("tanh", "erf"), ("erf", "tanh"), ("relu", "erf"))
SOURCE = "students and teachers of two activations"
ORDER = "the order itself, over all starts"
LEAST = 1e-5  # an error over the first that counts as none
CLAIMS = {
    "own": claim("{g} learns {g}: last error over the first, largest over starts", SOURCE,
                 kind="finding", within=Tolerance(LEAST, "an exponential has ended by then", 0.99)),
    "remains": claim("{g} learns {f}, K = 2: last error over the first, least over starts", SOURCE,
                     kind="finding", because="what its own kind may keep", rate=0.99),
    "larger": claim("{g} learns {f}: logarithm of the last error at K = 4 over that at K = 2, mean "
                    "over starts", SOURCE, kind="finding"),
    "first": claim("{g} before {f}: ratio of times to 2 % of the first error, largest over starts",
                   SOURCE, kind="finding", because=ORDER, rate=PLANNED),
    "networks": claim("{g} learns {f}: last error of networks, 1/N removed, over that of the "
                      "theory", SOURCE, kind="finding"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Starts, times, and networks."""

    eta: float = 0.1
    starts: int = 8
    end: float = 20_000.0
    points: int = 60
    N: int = 100
    runs: int = 32
    networks_end: float = 1000.0
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(starts=20, runs=200, N=200)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Learning curves of all pairs and sizes, and last errors of networks."""
    jobs = [*((g, g, 2) for g in OWN), *((g, f, K) for g, f in PAIRS for K in (2, 4))]
    curves = [_curves(params, *job) for job in cases(jobs, report, end=0.9)]
    names = [f"{g} {f} {K}" for g, f, K in jobs]
    data = xr.concat(curves, xr.Variable("case", names))
    g, f = PAIRS[-1]
    theory = float(ld.solve(_system(params, g, f, 2), [0, params.networks_end])["error"][-1])
    data["networks"] = (("size", "run"), [_networks(params, g, f, n * params.N) for n in (1, 2)])
    return data.assign(theory=theory)


def _system(params: Params, g: str, f: str, K: int, N: int = 1000) -> ld.System:
    teacher = ld.Committee(2, f, init=ld.Orthonormal(1.0))
    trained = {"outputs": np.ones(K), "train": ("inputs", "outputs")}
    student = ld.Committee(K, g, init=ld.Normal(0.3), **trained)
    problem = ld.TeacherStudent(ld.Isotropic(N), teacher)
    return ld.System(problem, student, ld.SGD(params.eta))


def _curves(params: Params, g: str, f: str, K: int) -> xr.Dataset:
    """The flow from every start: errors, and when 2 % of the first are left."""
    times = np.concatenate([[0.0], np.geomspace(1, params.end, params.points)])
    keys = range(params.key, params.key + params.starts)
    system = _system(params, g, f, K)
    records = [ld.solve(system, times, key=key, order="flow") for key in keys]
    fell = [float(ld.analysis.fall_time(record, fraction=0.02)) for record in records]
    errors = np.stack([record["error"].values for record in records])
    return xr.Dataset({"error": (("start", "time"), errors), "fell": ("start", fell)},
                      {"time": times})  # fmt: skip


def _networks(params: Params, g: str, f: str, N: int) -> np.ndarray:
    system = _system(params, g, f, 2, N)
    options = {"runs": params.runs, "key": params.key, "method": "reduced"}
    return ld.simulate(system, [0, params.networks_end], **options)["error"].values[:, -1]


def draw(data: xr.Dataset) -> Figure:
    """The first start of every case: own activations, and others."""
    figure, axes = panels(2)
    for case in data["case"].values:
        g, f, K = str(case).split()
        curve, first = data["error"].sel(case=case, start=0), data["error"].sel(case=case)[0, 0]
        axis = axes[0] if g == f else axes[1]
        style = "-" if K == "2" else "--"
        label = g if g == f else f"{g} learns {f}, K = {K}"
        axis.plot(data["time"][1:], curve[1:] / first, style, label=label)
    for axis, title in zip(axes, ("own activation, K = M = 2", "other activations"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="α [steps / N]", title=title)
        axis.set(ylabel="error over the first", ylim=(1e-7, 2))
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """What remains, what larger students gain, who is first, and networks."""
    left = data["error"].isel(time=-1) / data["error"].isel(time=0)
    of = lambda g, f, K: left.sel(case=f"{g} {f} {K}").values
    fell = lambda g: data["fell"].sel(case=f"{g} {g} 2").values
    claims = [CLAIMS["own"].format(g=g).at_most(of(g, g, 2).max(), 0.0) for g in OWN]
    remains = lambda g, f: CLAIMS["remains"].format(g=g, f=f)
    claims += [remains(g, f).at_least(of(g, f, 2).min(), LEAST) for g, f in PAIRS]
    last = data["error"].isel(time=-1)
    for g, f in PAIRS[:2]:
        ratio = last.sel(case=f"{g} {f} 4").values / last.sel(case=f"{g} {f} 2").values
        larger = CLAIMS["larger"].format(g=g, f=f)
        claims.append(larger.at_most(intervals.of_mean(np.log(ratio)), 0.0))
    for g, f in itertools.pairwise(OWN):
        ratio = float((fell(g) / fell(f)).max())
        claims.append(CLAIMS["first"].format(g=g, f=f).at_most(ratio, 1.0))
    single, double = data["networks"].values / float(data["theory"])
    count = data.sizes["run"]
    error = np.hypot(2 * double.std(ddof=1), single.std(ddof=1)) / np.sqrt(count)
    g, f = PAIRS[-1]
    networks, mean = CLAIMS["networks"].format(g=g, f=f), 2 * double.mean() - single.mean()
    return [*claims, networks.equals(mean, 1.0, student_tolerance(error, count))]
