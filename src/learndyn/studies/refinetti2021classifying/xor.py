"""XOR of four clusters: small networks reach the Bayes limit, random features learn nothing.

Four clusters of unit variance lie at ± d along two axes, and their label is the axis. The Bayes
classifier errs with the probability 2 p (1 − p), p = Φ(−d/√2). Four erf units with biases and
trained outputs come down to it as the learning rate falls to zero; at a constant rate the noise of
SGD keeps the error above, the less the smaller the rate. Without biases a network of odd units is
odd, and errs half of the time, since clusters of the same label are opposite. If output weights and
biases alone learn, the features of the start are random: they see means of order 1/√N, and the
error stays at 1/2, which is the failure of kernel methods. The exact chain trains networks of sizes
N and 2N; twice the one minus the other is without the order 1/N. The paper has other activations
and larger networks; no equation is quoted from it. The quick preset has fewer and smaller networks,
which train for a shorter time than the theory is followed.

Notes: docs/results/refinetti2021classifying/xor/notes.md.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import scipy
import xarray as xr
from jax.tree_util import Partial
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases

TITLE = "XOR of four clusters: networks reach the Bayes limit, random features learn nothing"
DIFFERS = "four erf units, and sizes of our own"
POINTS = Tolerance(2e-3, "errors of quasi-random points, 1e-3 each")
CLAIMS = {
    "bayes": claim("Bayes error of the mixture, in closed form for four clusters minus that of the "
                   "landmark", "2 p (1 − p)", kind="theorem",
                   within=Tolerance(1e-3, "error of quasi-random points")),
    "limit": claim("rate that falls to zero: classification error at the end over the Bayes error, "
                   "minus 1", "networks of few units reach the Bayes limit",
                   within=Tolerance(0.05, "margin of 5 %, for a finite length of training")),
    "constant": claim("constant rate: error at the end over that of a rate that falls to zero",
                      "noise of SGD", kind="finding",
                      because="the order itself: a ratio of 1 would be no difference"),
    "smaller": claim("half the constant rate: error at the end over that of the whole one",
                     "noise of SGD", kind="finding",
                     because="the order itself: a ratio of 1 would be no difference"),
    "odd": claim("no biases: classification error at the end", "the network is odd",
                 kind="theorem", within=POINTS),
    "features": claim("random features, N = {N}: classification error at the end, over starts",
                      "kernel methods fail",
                      within=Tolerance(0.02, "margin of 0.02 for means of order 1/√N")),
    "networks": claim("networks under the rate that falls, 1/N removed: error over that of the "
                      "theory, minus 1, farthest of all times", "limit N → ∞", kind="finding",
                      within=Tolerance(0.05, "equivalence margin, 5 %")),
}  # fmt: skip
UNITS = 4
SIGNS = np.array([1.0, 1.0, -1.0, -1.0])
AXES = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


@dataclasses.dataclass(frozen=True)
class Params:
    """Distance of the clusters, rates, length of training in theory and of networks, their size."""

    d: float = 2.0
    eta: float = 1.0
    length: float = 300.0
    overlap: float = 0.3
    starts: int = 10
    features: int = 500
    trained: float = 80.0
    N: int = 100
    runs: int = 100
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(trained=300.0, N=200, runs=1000)}
EVERY = ("inputs", "outputs", "biases")


def falling(top, steps, step):
    """`top` · (1 − step/steps), zero from `steps` on."""
    return top * jnp.maximum(1 - step / steps, 0.0)


def compute(params: Params, report: Report) -> xr.Dataset:
    """Errors of the theory by kind of training, of random features by start, and of networks."""
    times, eta = _times(params.length), params.eta
    systems = {
        "falling": _system(params, _falling(eta, params.length, 1000), 1000),
        "constant": _system(params, eta, 1000),
        "half": _system(params, eta / 2, 1000),
        "odd": _system(params, eta, 1000, biases=False),
    }
    found = {}
    for kind in cases(list(systems), report, end=0.6):
        system = systems[kind]
        found[kind] = ld.solve(system, times, start=_start(params, system))
    kinds = xr.concat(
        [record[["error", "classification_error"]] for record in found.values()],
        xr.Variable("kind", list(found)),
    )
    features = [_features(params, number) for number in range(params.starts)]
    report(0.7)
    bayes = ld.theory_of(systems["constant"]).landmarks()["bayes_error"]
    data = xr.Dataset(
        {
            "error": (("kind", "time"), kinds["error"].values),
            "wrong": (("kind", "time"), kinds["classification_error"].values),
            "features": (("start",), features),
            "bayes": bayes,
        },
        {"kind": list(found), "time": times},
    )
    return data.merge(_networks(params)).assign_attrs(d=params.d, size=params.features)


def _times(length: float) -> np.ndarray:
    return np.linspace(0.0, length, 17)


def _falling(eta: float, length: float, N: int) -> Partial:
    # A pytree of its numbers, which are traced: all sizes share a compiled program.
    return Partial(falling, np.float64(eta), np.float64(length * N))


def _system(params: Params, rate, N: int, biases: bool = True, train=EVERY) -> ld.System:
    mixture = ld.Mixture(params.d * AXES, ld.Isotropic(N))
    b = np.full(UNITS, -0.5) if biases else None
    learns = tuple(part for part in train if biases or part != "biases")
    student = ld.Committee(UNITS, "erf", outputs=SIGNS / 2, biases=b, train=learns)
    return ld.System(ld.LabelledMixture(mixture, SIGNS), student, ld.SGD(rate))


def _start(params: Params, system: ld.System) -> ld.Start:
    """Units of length 1/2, each with an overlap with the mean of one cluster."""
    along = params.overlap * AXES
    means = params.d * AXES
    Q = np.eye(UNITS) / 4 + along @ along.T
    state = ld.Overlaps(Q, along @ means.T, means @ means.T)
    return ld.start(system, state=state)


def _features(params: Params, number: int) -> float:
    """The classification error where outputs and biases alone learn, from a random start."""
    system = _system(params, params.eta, params.features, train=EVERY[1:])
    start = ld.start(system, key=params.key + number)
    record = ld.solve(system, [0.0, params.length], start=start, order="flow")
    return float(record["classification_error"][-1])


def _networks(params: Params) -> xr.Dataset:
    times, errors = _times(params.trained)[::4], []
    for N in (params.N, 2 * params.N):
        system = _system(params, _falling(params.eta, params.trained, N), N)
        options = {"runs": params.runs, "key": params.key + N, "method": "reduced"}
        runs = ld.simulate(system, times, start=_start(params, system), **options)
        errors.append(runs["error"].values)
    predicted = ld.solve(system, times, start=_start(params, system))["error"].values
    variables = {
        "networks": (("N", "run", "reading"), errors),
        "predicted": (("reading",), predicted),
    }
    return xr.Dataset(variables, {"N": [params.N, 2 * params.N], "reading": times})


def draw(data: xr.Dataset) -> Figure:
    """Classification errors by kind of training, and errors of networks."""
    figure, axes = panels(2, columns=2, size=(3.6, 2.8))
    labels = {"falling": "rate falls to zero", "constant": "constant rate",
              "half": "half of it", "odd": "no biases"}  # fmt: skip
    for kind, label in labels.items():
        axes[0].plot(data["time"], data["wrong"].sel(kind=kind), label=label)
    features = data["features"]
    last = np.full(features.shape, data["time"].values[-1])
    axes[0].plot(last, features, "o", ms=3, label="random features")
    axes[0].axhline(float(data["bayes"]), color="0.3", ls=":", label="Bayes limit")
    axes[0].set(xlabel="steps / N", ylabel="classification error")
    axes[1].plot(data["reading"], data["predicted"], label="theory")
    removed = _removed(data).mean("run")
    axes[1].plot(data["reading"], removed, "o", label="networks, 1/N removed")
    axes[1].set(xlabel="steps / N", ylabel="error", title="rate falls to zero")
    for axis in axes:
        legend(axis)
    return figure


def _removed(data: xr.Dataset) -> xr.DataArray:
    """Errors of networks without the order 1/N."""
    return 2 * data["networks"].isel(N=1) - data["networks"].isel(N=0)


def check(data: xr.Dataset) -> list[Claim]:
    """The Bayes limit, constant rates, odd networks, random features, and networks."""
    p = scipy.stats.norm.sf(data.attrs["d"] / np.sqrt(2))
    exact, last = 2 * p * (1 - p), data["wrong"].isel(time=-1)
    left = {str(kind): float(data["error"].sel(kind=kind)[-1]) for kind in data["kind"].values}
    later = (_removed(data) / data["predicted"]).isel(reading=slice(1, None)) - 1
    off = intervals.of_mean(later, "pairs of runs", over="run", which="farthest")
    features = CLAIMS["features"].format(N=data.attrs["size"])
    return [
        CLAIMS["bayes"].equals(exact - float(data["bayes"]), 0.0),
        CLAIMS["limit"].equals(float(last.sel(kind="falling")) / exact - 1, 0.0),
        CLAIMS["constant"].at_least(left["constant"] / left["falling"], 1.0),
        CLAIMS["smaller"].at_most(left["half"] / left["constant"], 1.0),
        CLAIMS["odd"].equals(float(last.sel(kind="odd")), 0.5),
        features.equals(intervals.of_mean(data["features"], "starts", over="start"), 0.5),
        CLAIMS["networks"].at_most(off, 0.0),
    ]
