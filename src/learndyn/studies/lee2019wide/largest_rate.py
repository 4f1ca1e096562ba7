"""The largest stable rate of mini-batch SGD, predicted for linear twins and measured on both.

A wide relu network learns images of two classes from mini-batches drawn with replacement. For its
linear twin the theory gives the rate above which the mean square of the outputs grows without
bound; it falls with the batch size, and is below 2/λ_max of full batches. Twins and networks are
trained from the same weights at multiples of that rate. Twins diverge just above it. Networks do
not: below it their loss does not spike, at twice the rate it does, and they learn all the same.
These are catapults, which begin in between. Our own question: the paper has no such figure. A run
spikes if its loss exceeds five times that of the start after any step, and learns if it ends below
the start; the losses of twins are read at the end only, since reading costs more than learning.
How far past the rate networks still learn is drawn, up to 16 times it, and not judged. The quick
preset has fewer images, batches and rates.
`--set data=mnist` takes MNIST in place of CIFAR-10.

Notes: docs/results/lee2019wide/largest_rate/notes.md.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report
from learndyn.studies.sweeps import swept
from learndyn.studies.zhu2024catapults._data import images

TITLE = "The largest stable rate of mini-batch SGD, for twins and networks"
DIFFERS = "ours: the paper has no such figure"
SOURCE = "moments of linear models under mini-batches"
SPIKE = 5.0  # times the loss at the start
BELOW, ABOVE, FAR = 0.8, 1.25, 2.0  # multiples of the predicted rate
FEW = Tolerance(0.2, "a margin: one run in five")
MEASURED = dataclasses.replace(FEW, rate=0.8)  # at batch 1 it depends on the key; see the notes
CASE = "batch {batch}: share of "
CLAIMS = {
    "stable": claim(f"{CASE}twins that learn at {BELOW:g} times the predicted rate", SOURCE,
                    kind="finding", within=FEW),
    "unstable": claim(f"{CASE}twins that learn at {ABOVE:g} times the predicted rate", SOURCE,
                      kind="finding", within=FEW),
    "quiet": claim(f"{CASE}networks whose loss spikes at {BELOW:g} times that rate", SOURCE,
                   kind="finding", within=FEW),
    "spikes": claim(f"{CASE}networks whose loss spikes at {FAR:g} times that rate", SOURCE,
                    kind="finding", within=MEASURED),
    "beyond": claim(f"{CASE}networks that learn at {FAR:g} times that rate", SOURCE,
                    kind="finding", within=FEW),
}  # fmt: skip
KINDS = ("twin", "network")
READ = {"twin": None, "network": 1}  # steps between readings of the loss; None: the last step only


@dataclasses.dataclass(frozen=True)
class Params:
    """Images, the network, batch sizes, multiples of the predicted rate, and runs of each."""

    data: str = "digits"
    classes: tuple[int, ...] = (7, 9)
    examples: int = 32
    width: int = 256
    batches: tuple[int, ...] = (1, 4, 16)
    factors: tuple[float, ...] = (BELOW, ABOVE, FAR, 4.0, 8.0, 16.0)
    steps: int = 400
    runs: int = 32
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params("cifar10", examples=256, width=1024, batches=(1, 2, 4, 8, 16, 32, 64, 128),
                    factors=(0.5, BELOW, 1.0, ABOVE, 1.6, FAR, 4.0, 8.0, 16.0), steps=1000),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Largest losses and last ones of twins and networks, by batch size and rate."""
    return swept(functools.partial(point, params=params), {"batch": params.batches}, report)


def point(batch: int, params: Params) -> xr.Dataset:
    """One batch size."""
    (task,) = images(params.data, (params.examples,), params.key, params.classes)
    data = ld.Dataset(task.flat.x, task.flat.y)
    network = ld.MLP([data.dim, params.width, 1], "relu", gain=2**0.5)
    rng = np.random.default_rng([params.key, 3])
    model = ld.Model(network, network.sample(rng, data.input_shape))
    networks: dict[str, Any] = {"twin": ld.linearise(model), "network": network}
    twin = ld.System(data, networks["twin"], ld.SGD(1.0, batch=batch))
    marks = ld.theory_of(twin).landmarks()
    rate = marks["largest_stable_rate"]
    values = [
        [
            _run(
                params, data, networks[kind], model, ld.SGD(factor * rate, batch=batch), READ[kind]
            )
            for factor in params.factors
        ]
        for kind in KINDS
    ]
    highest, last = np.moveaxis(np.array(values), 2, 0)
    over = ("kind", "factor", "run")
    return xr.Dataset(
        {"highest": (over, highest), "last": (over, last), "rate": rate,
         "critical": marks["critical_learning_rate"]},
        {"kind": list(KINDS), "factor": list(params.factors)},
    )  # fmt: skip


def _run(
    params: Params, data: Any, network: Any, model: ld.Model, rule: ld.SGD, every: int | None
) -> Any:
    """The largest and the last loss of every run, over that of the start; infinite if diverged."""
    system = ld.System(data, network, rule)
    start = ld.start(system, weights=model.weights)
    times = np.arange(0, params.steps + 1, every or params.steps)
    record = ld.simulate(system, times, start=start, runs=params.runs, key=params.key)
    losses = record["error"].values / record["error"].values[:, :1]
    whole = np.where(np.isnan(losses), np.inf, losses)
    return whole.max(axis=1), whole[:, -1]


def draw(data: xr.Dataset) -> Figure:
    """Predicted and measured rates by batch size; shares of runs by rate."""
    figure, axes = panels(1 + len(KINDS), columns=3)
    batch, rate = data["batch"], data["rate"]
    axes[0].plot(batch, rate, "k--", label="predicted, twin")
    axes[0].plot(batch, data["critical"], ":", color="0.5", label="full batch, 2/λ")
    for number, kind in enumerate(KINDS):
        learns = (data["last"].sel(kind=kind) < 1).mean("run") >= 0.5
        largest = (learns * data["factor"]).max("factor")
        axes[0].plot(batch, largest * rate, f"C{number}o", label=f"half of the {kind}s learn")
        for index, b in enumerate(batch.values):
            one = data.sel(kind=kind, batch=b)
            # Curves of several batch sizes coincide: the first ones are wider.
            marked, wide = (f"C{index}o-", f"C{index}s:"), np.linspace(5, 1, len(batch))[index]
            axis, at = axes[1 + number], data["factor"]
            axis.plot(at, (one["last"] < 1).mean("run"), marked[0], lw=wide, label=f"batch {b}")
            if READ[kind]:
                axis.plot(at, (one["highest"] > SPIKE).mean("run"), marked[1], lw=wide)
        axes[1 + number].axvline(1, color="0.5", lw=1)
        shown = "learn (line), spike (dots)" if READ[kind] else "learn"
        axes[1 + number].set(
            xscale="log", xlabel="rate over the predicted one", ylabel="share of runs",
            title=f"{kind}s: {shown}",
        )  # fmt: skip
    axes[0].set(xscale="log", yscale="log", xlabel="batch size", ylabel="learning rate")
    for axis in axes:
        legend(axis)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Shares below and above the predicted rate."""
    return [row for batch in data["batch"].values for row in _claims(data.sel(batch=batch), batch)]


def _claims(one: xr.Dataset, batch: int) -> list[Claim]:
    of = lambda name: CLAIMS[name].format(batch=batch)
    learns, spikes = one["last"] < 1, one["highest"] > SPIKE
    share = lambda what, kind, factor: intervals.of_share(
        what.sel(kind=kind).sel(factor=factor, method="nearest").values
    )
    return [
        of("stable").at_least(share(learns, "twin", BELOW), 1.0),
        of("unstable").at_most(share(learns, "twin", ABOVE), 0.0),
        of("quiet").at_most(share(spikes, "network", BELOW), 0.0),
        of("spikes").at_least(share(spikes, "network", FAR), 1.0),
        of("beyond").at_least(share(learns, "network", FAR), 1.0),
    ]
