"""Trained networks of width m against the limit of infinite width, on images of two classes.

Networks with hidden layers of width m learn by gradient descent. A single network is compared
with the limit from its own initial outputs: the course of a linear model with the kernel of
infinite width. Its distance falls as m^(−1/2), as that of its kernel does. The mean over networks
is nearer, by 1/m: outputs that are expected from each network's own start are subtracted, which
removes the spread of the starts from the mean, and the square of the mean is estimated without the
term of the scatter. The mean test loss of the widest networks is compared with the Gaussian
process. What the original paper shows is public knowledge of the field; no equation is quoted from
it. The quick preset has scikit-learn's digits, one hidden layer instead of two, and smaller widths.
Scatter hides the means of wide networks: their exponent is fitted over the first `means` widths.
`--preset paper --set data=mnist` takes MNIST in place of CIFAR-10.

Notes: docs/results/lee2019wide/widths/notes.md.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Interval, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL, exponents, jackknife, normal_bound
from learndyn.studies.zhu2024catapults._data import images

TITLE = "Trained networks of finite width against their limit of infinite width"
DIFFERS = "the setting is our own: erf networks on 32 images of two classes, widths 32 to 4096"
SOURCE = "convergence to the limit at the rate width^(−1/2)"
HALF = Tolerance(0.1, "a relative correction m^(−1/2), coefficient one, from m = 32 on")
WHOLE = Tolerance(0.25, "half of the way between −1 and −1/2: which of the two it is")
CLAIMS = {
    "kernel": claim("exponent over m of the distance of a network's initial kernel from the limit",
                    SOURCE, within=HALF),
    "outputs": claim("exponent over m of the distance of a network's outputs from those of the "
                     "limit that begins at its own, largest of all times", SOURCE, within=HALF),
    "mean": claim("exponent over m of the distance of the mean outputs of networks, at the last "
                  "time", SOURCE, kind="finding", within=WHOLE),
    "course": claim("mean test loss of the widest networks over that of the Gaussian process: "
                    "largest deviation from 1 over time", SOURCE,
                    within=Tolerance(0.15, "a margin; finite widths add a multiple of 1/m")),
}  # fmt: skip
NAMES = {"kernel": "initial kernel", "outputs": "outputs", "mean": "mean outputs"}
WEIGHTS = 2**23  # of networks that are trained together
BLOCKS = 64  # of networks, that are left out one at a time


@dataclasses.dataclass(frozen=True)
class Params:
    """Images, widths, the number of networks (at most `runs`, and `budget` over m), training."""

    data: str = "digits"
    classes: tuple[int, ...] = (7, 9)
    examples: int = 16
    tests: int = 16
    hidden: int = 1  # layers
    widths: tuple[int, ...] = (32, 64, 128)
    means: int = 3
    runs: int = 8192
    budget: int = 2**20
    rate: float = 0.3  # over the critical one
    steps: tuple[int, ...] = (0, 2, 8, 32)
    gain: float = 1.5
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params("cifar10", examples=32, tests=32, hidden=2, steps=(0, 2, 8, 32, 128, 512),
                    widths=(32, 64, 128, 256, 512, 1024, 2048, 4096)),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Sizes of the distances of single networks and of their means, with errors of logarithms."""
    sizes = params.examples, params.tests
    train, test = (task.flat for task in images(params.data, sizes, params.key, params.classes))
    data = ld.Dataset(train.x, train.y, test=(test.x, test.y))
    limit = ld.System(data, ld.infinite(_network(params, data, 1)), ld.GradientDescent(1.0))
    eta = params.rate * ld.theory_of(limit).landmarks()["critical_learning_rate"]
    limit = ld.System(data, limit.network, ld.GradientDescent(eta))
    rows, last = [], xr.Dataset()
    for m in cases(params.widths, report):
        last = _width(params, limit, m)
        rows.append(_sizes(last))
    process = ld.solve(limit, params.steps)
    joined = xr.concat(rows, xr.Variable("width", list(params.widths), {"long_name": "width m"}))
    about = {"images": train.name, "means": params.means}
    predicted = ("time", process["test_error"].values)
    losses = last["test_loss"].assign_coords(time=list(params.steps))
    return joined.assign(predicted=predicted, test_loss=losses).assign_attrs(about)


def _network(params: Params, data: Any, m: int, outputs: int = 1) -> ld.MLP:
    return ld.MLP([data.dim, *[m] * params.hidden, outputs], "erf", gain=params.gain)


def _width(params: Params, limit: ld.System, m: int) -> xr.Dataset:
    """The networks of one width, in groups of equal size that fit into memory."""
    network, rng = _network(params, limit.problem, m), np.random.default_rng([params.key, m])
    runs = max(2, min(params.runs, params.budget // m))
    most = max(1, WEIGHTS // sum(n * k for n, k in network.shapes))
    group = max(g for g in range(1, runs + 1) if runs % g == 0 and g <= most)
    parts = [_trained(params, limit, network, group, rng) for _ in range(runs // group)]
    return xr.concat(parts, "run")


def _trained(
    params: Params, limit: ld.System, network: ld.MLP, runs: int, rng: np.random.Generator
) -> xr.Dataset:
    """Some networks, as one with as many outputs: their losses add up, and none sees another."""
    data: Any = limit.problem
    wide: Any = limit.network
    x, tests = (each.astype(np.float32) for each in (data.x, data.test[0]))
    drawn = [network.sample(rng, network.widths[:1]) for _ in range(runs)]
    weights = jax.tree.map(lambda *w: np.stack(w).astype(np.float32), *drawn)
    together = jax.vmap(network, in_axes=(0, None), out_axes=1)
    columns = lambda y: np.repeat(y[:, None], runs, axis=1)
    problem = ld.Dataset(x, columns(data.y), test=(tests, columns(data.test[1])))
    several = ld.Network(lambda key: weights, together, shape=data.x.shape[1:])
    system = ld.System(problem, several, limit.rule)
    probes = {"outputs": lambda model: together(model.weights, np.concatenate([x, tests]))}
    start = ld.start(system, weights=weights)
    record = ld.simulate(system, params.steps, start=start, probes=probes)
    outputs = record["outputs"].values[0].astype(np.float64)  # (time, input, network)
    kernels = jax.jit(jax.vmap(lambda w: ld.ntk(ld.Model(network, w), x)))(weights)
    exact = wide.ntk(data.x)
    losses = 0.5 * np.mean((outputs[:, len(x) :] - data.test[1][:, None]) ** 2, axis=1)
    apart = np.moveaxis(outputs - _own_limit(params, system, outputs[0]), -1, 0)
    kernels = (np.asarray(kernels, np.float64) - exact) / np.linalg.norm(exact)
    return xr.Dataset(
        {
            "kernel": (("run", "once", "pair"), kernels.reshape(runs, 1, -1)),
            "outputs": (("run", "time", "input"), apart),
            "test_loss": (("run", "time"), losses.T),
        }
    )


def _own_limit(params: Params, system: ld.System, begin: np.ndarray) -> np.ndarray:
    """The limit's outputs from those of each network, (time, input, network)."""
    wide = ld.infinite(_network(params, system.problem, 1, begin.shape[1]))
    limit = ld.System(system.problem, wide, system.rule)
    known: Any = ld.start(limit).state
    state = type(known)(begin, np.zeros_like(known.covariance))
    record = ld.solve(limit, params.steps, start=ld.start(limit, state=state))
    parts = [record[f"{prefix}output_mean"].values for prefix in ("", "test_")]
    return np.concatenate(parts, axis=1)


def _sizes(data: xr.Dataset) -> xr.Dataset:
    """The distance of single networks and of their mean, and errors of both logarithms."""
    kernels, outputs = (np.moveaxis(data[n].values, 0, -1) for n in ("kernel", "outputs"))
    values: dict[str, Any] = {"runs": data.sizes["run"]}
    for name, size, rows in (
        ("kernel", _single, kernels),
        ("outputs", _single, outputs),
        ("mean", _of_mean, outputs[-1:]),
    ):
        count = min(BLOCKS, rows.shape[-1])
        blocks = rows.reshape(*rows.shape[:2], -1, count)
        log_of = lambda few, size=size: np.log(size(few.reshape(*few.shape[:2], -1)))
        with np.errstate(divide="ignore", invalid="ignore"):  # of a size that scatter hides
            values |= {name: size(rows), f"{name}_error": float(jackknife(blocks, log_of))}
    return xr.Dataset(values)


def _single(rows: np.ndarray) -> float:
    """The root mean square distance of a network, largest of all times; (times, entries, runs)."""
    return float(np.sqrt(np.mean(np.sum(rows**2, axis=1), axis=-1)).max())


def _of_mean(rows: np.ndarray) -> float:
    """The norm of the expectation, without the scatter of the mean; 0 if that is larger."""
    runs = rows.shape[-1]
    whole, each = np.sum(rows.sum(-1) ** 2), np.sum(rows**2)
    return float(np.sqrt(max(whole - each, 0) / (runs * (runs - 1))))


def draw(data: xr.Dataset) -> Figure:
    """Distances against width, and the mean test loss of the widest networks."""
    figure, axes = panels(2)
    for number, (name, text) in enumerate(NAMES.items()):
        label = f"{text}: exponent {_exponent(data, name).value:.2f}"
        axes[0].plot(data["width"], data[name], f"C{number}o-", label=label)
    axes[0].set(xscale="log", yscale="log", xlabel="width m", ylabel="distance from the limit")
    losses, at = data["test_loss"], 1 + data["time"]
    axes[1].errorbar(
        at, losses.mean("run"), losses.std("run") / losses.sizes["run"] ** 0.5,
        fmt="o", label=f"networks, m = {data['width'].values[-1]}",
    )  # fmt: skip
    axes[1].plot(at, data["predicted"], "k--", label="Gaussian process")
    axes[1].set(xscale="log", yscale="log", xlabel="1 + steps", ylabel="mean test loss")
    for axis in axes:
        legend(axis)
    figure.suptitle(data.attrs["images"])
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Three exponents, and the test loss."""
    ratio = data["test_loss"].transpose("run", "time") / data["predicted"] - 1
    course = intervals.of_mean(ratio, "networks", which="farthest")
    return [
        CLAIMS["kernel"].equals(_exponent(data, "kernel"), -0.5),
        CLAIMS["outputs"].equals(_exponent(data, "outputs"), -0.5),
        CLAIMS["mean"].equals(_exponent(data, "mean"), -1.0),
        CLAIMS["course"].at_most(course, 0.0),
    ]


def _exponent(data: xr.Dataset, name: str) -> Interval:
    """The exponent of a size over the width, with its interval by leaving out networks."""
    means = int(data.attrs["means"])
    few = data.isel(width=slice(means if name == "mean" else None))
    how = f"interval by leaving out blocks of networks, {100 * LEVEL:g} % at each end"
    if not (np.all(few[name] > 0) and np.all(np.isfinite(few[f"{name}_error"]))):
        return Interval(np.nan, -np.inf, np.inf, f"{how}; scatter hides a size")
    value = float(exponents(few[name], "width"))
    log = np.log(few["width"].values)
    weights = (log - log.mean()) / np.sum((log - log.mean()) ** 2)
    half = normal_bound(2 * LEVEL) * float(np.linalg.norm(weights * few[f"{name}_error"]))
    return Interval(value, value - half, value + half, how)
