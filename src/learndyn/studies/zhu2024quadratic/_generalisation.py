"""Best test loss and accuracy against the learning rate, for f, f_lin and f_quad (Section 3.4).

Rates are in units of η_crit = n/λ_max(K), of each run's own kernel on all its training examples;
SGD has the same unit. All rates of a run train for the same time, rate × steps, so that those below
η_crit follow one flow; "best" is over the readings on the way, of which the start is the first.
Runs differ in their examples and weights; logarithms of losses are averaged over runs, and the
interval of a mean decides. The thesis does not say how long it trains. Super-critical rates are
those below η_max = 2 η_crit (Theorem B.7.1); the "range beyond η_crit" in which losses decrease,
whose end it does not say, ends at `RANGE` here. A run that diverges keeps its best reading.
Fully connected networks of more inputs than examples are trained in coordinates of the span of the
training inputs, which changes nothing but the cost (`_span.py`).
"""

import dataclasses
import functools
import itertools
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024quadratic._model import WEIGHTS, rng_of, stacked, top_kernel, twin
from learndyn.studies.zhu2024quadratic._span import in_span
from learndyn.studies.zhu2024quadratic._tasks import Panel, network, rule, task

MODELS = "f", "f_lin", "f_quad"
NEARLY = 0.05  # "nearly identical"
POINT = 0.01  # of accuracy
MAX = 2.0  # η_max, in units of η_crit
RANGE = 1.6  # end of the "range of values beyond η_crit", in its units
STRIDE = 100  # of seeds between panels' keys
TITLE_WIDTH = 54  # letters in a line of a title
PARTS = {"panels": "panel"}
SMALL: dict[str, Any] = {"test": 300, "steps": 100, "readings": 20,
                         "runs": 10, "rates": (0.6, 0.9, 1.2, 1.5, 1.8, 2.4)}  # fmt: skip
NO_EXCEPTIONS = Tolerance(0.0, "no exceptions", PLANNED)
CLAIMS = {
    "identical": claim("{panel}: sub-critical rates, all three models have nearly identical best "
                       "test losses, largest difference of their logarithms", "{source}",
                       because="'nearly' is read as within 5 %"),
    "smaller": claim("{panel}: super-critical rates, best test loss of {model} is smaller than at "
                     "sub-critical ones, mean logarithm of the ratio", "{source}",
                     because="a sign"),
    "decreases": claim("{panel}: {model}, it decreases with the rate in a range beyond η_crit, "
                       "slope of its logarithm against η/η_crit", "{source}", because="a sign"),
    "accuracy": claim("{panel}: super-critical rates, best test accuracy of {model} is not below "
                      "that at sub-critical ones, mean gain", "{source}",
                      because="'not below' is read as less than a point"),
    "linear": claim("{panel}: super-critical rates, the loss of f_lin diverges, fraction of runs",
                    "{source}", kind="theorem",
                    within=Tolerance(0.0, "its residual grows along the top eigenvector")),
    "converge": claim("{panel}: super-critical rates, f and f_quad converge, largest fraction of "
                      "runs that diverge", "{source}", within=NO_EXCEPTIONS),
    "nearer": claim("{panel}: super-critical rates, f_quad is nearer to f than f_lin is, its "
                    "largest difference of logarithms minus the least of f_lin", "{source}",
                    because="'better model'"),
    "beyond": claim("{panel}: f_quad diverges above 2.1 η_crit, least fraction of runs",
                    "Theorem B.7.1", kind="finding", rate=PLANNED,
                    because="4/λ is the threshold along the kernel's top eigenvector"),
    "open": claim("{panel}: the observations of Section 3.4", "{source}"),
}  # fmt: skip

# Rates of rows that the quick presets decide less often than planned, by claim, panel and model:
# measured at two keys (relu, two layers), three (tanh) and six (three layers).
_DEEP, _CNN = "digits, 3-layer FC, relu, GD", "digits, 2-layer CNN, relu, GD"
WEAK: dict[tuple[str, str, str], float] = {
    ("identical", _DEEP, ""): 0.05,
    ("smaller", _DEEP, "f"): 0.83,
    ("smaller", _DEEP, "f_quad"): 0.05,
    ("decreases", _DEEP, "f_quad"): 0.05,
    ("smaller", "digits, 2-layer FC, relu, GD", "f_quad"): 0.05,
    ("smaller", "digits, 2-layer FC, relu, SGD", "f_quad"): 0.05,
    ("identical", _CNN, ""): 0.05,
    ("nearer", _CNN, ""): 0.05,
    **{(key, _CNN, model): 0.05 for key in ("smaller", "decreases") for model in ("f", "f_quad")},
    ("accuracy", _CNN, "f"): 0.05,
    ("accuracy", _CNN, "f_quad"): 0.5,
    ("nearer", "digits, 2-layer FC, tanh, GD", ""): 0.05,
}


@dataclasses.dataclass(frozen=True)
class Params:
    """What is trained: panels, widths, examples (0: as in App. B.14), runs, rates, and how long."""

    panels: tuple[str, ...]
    width: int = 5000
    channels: int = 1000
    examples: int = 0
    test: int = 2000
    runs: int = 5
    rates: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.95, 1.05, 1.2, 1.4, 1.6, 1.8, 2.2, 2.6)
    steps: int = 500  # at η_crit
    readings: int = 100
    key: int = 0


def with_files(sources: Mapping[str, str]) -> tuple[str, ...]:
    """The panels whose data can be had: not those of SVHN."""
    return tuple(name for name in sources if "svhn" not in name)


def name_of(key: str, panel: str, model: str = "") -> str:
    """The name of a claim of a panel."""
    return CLAIMS[key].statement.format(panel=Panel.of(panel).label, model=model)


def compute(params: Params, report: Report) -> xr.Dataset:
    """Bests and outcomes of every panel, run, model and rate."""
    names = [Panel.of(text) for text in params.panels]
    jobs = [(panel, run) for panel in names for run in range(params.runs)]
    rows = [_run(params, *job) for job in cases(jobs, report)]
    data = stacked(rows, panel=params.panels, run=params.runs)
    about = [task(panel, params.examples, params.test, params.key)[1] for panel in names]
    channels = [params.channels if panel.network == "cnn" else 0 for panel in names]
    widths = [params.width if panel.network != "cnn" else 0 for panel in names]
    labels = [panel.label for panel in names]
    of = {"label": labels, "about": about, "channels": channels, "width": widths}
    return data.assign_coords({n: ("panel", values) for n, values in of.items()})


def _parts(values: xr.DataArray, end: float = MAX) -> tuple[xr.DataArray, xr.DataArray]:
    """The values at rates below η_crit, and those between it and an end."""
    rate = values["rate"]
    return values.sel(rate=rate < 1), values.sel(rate=(rate > 1) & (rate < end))


def _apart(log: xr.DataArray) -> xr.DataArray:
    """Differences between models at rates below η_crit."""
    below = _parts(log)[0]
    two = itertools.combinations(MODELS, 2)
    return xr.concat([below.sel(model=a) - below.sel(model=b) for a, b in two], "pair")


def _gain(values: xr.DataArray) -> xr.DataArray:
    """By how much super-critical rates exceed sub-critical ones."""
    below, above = _parts(values)
    return above.mean("rate") - below.mean("rate")


def _slope(log: xr.DataArray) -> xr.DataArray:
    """By least squares over the range, from the last rate below η_crit on."""
    below, above = _parts(log, RANGE)
    fit = xr.concat([below.isel(rate=[-1]), above], "rate").polyfit("rate", 1)
    return fit["polyfit_coefficients"].sel(degree=1, drop=True)


def _run(params: Params, panel: Panel, run: int) -> xr.Dataset:
    key = STRIDE * params.key + run
    data, _ = task(panel, params.examples, params.test, key)
    f = network(panel, data.input_shape, params.width, params.channels)
    model = ld.Model(f, f.sample(rng_of(key, WEIGHTS), data.input_shape))
    critical = len(data.x) / top_kernel(model, data.x)
    if panel.network != "cnn" and len(data.x) < data.x.shape[1]:
        data, model = in_span(data, model)
    rows = []
    for name in MODELS:
        f = twin(model, name)
        rows += [
            _trained(params, data, f, model, rule(panel, rate * critical), rate, key)
            for rate in params.rates
        ]
    bests = stacked(rows, model=MODELS, rate=params.rates)
    tested = 0 if data.test is None else len(data.test[0])
    return bests.assign(critical=critical, tested=float(tested))


def _trained(
    params: Params, data: ld.Dataset, f: Any, begin: ld.Model, how: Any, rate: float, key: int
) -> xr.Dataset:
    system = ld.System(data, f, how)
    times = np.unique(np.round(np.linspace(0, params.steps / rate, params.readings + 1)))
    start = ld.start(system, weights=begin.weights)
    record = ld.simulate(system, times, start=start, method="direct", key=key)
    table = {
        "loss": float(record["test_error"].min()),
        "accuracy": float(record["test_accuracy"].max()),
        "diverged": float(str(record["outcome"].values[0]) == "diverged"),
    }
    return xr.Dataset(table)


def draw(data: xr.Dataset) -> Figure:
    """Best test losses and accuracies against the rate, one row per panel."""
    figure, axes = panels(2 * data.sizes["panel"], size=(5.0, 3.0))
    for row, name in enumerate(data["panel"].values):
        one = data.sel(panel=name)
        left, right = axes[2 * row : 2 * row + 2]
        _bests(left, one["loss"], one["diverged"], top=True)
        _bests(right, one["accuracy"], one["diverged"], top=False)
        low, high = float(one["critical"].min()), float(one["critical"].max())
        channels, width = int(one["channels"]), int(one["width"])
        wide = f"{channels} channels" if channels else f"width {width}"
        left.set(ylabel="best test loss")
        left.set_title(f"{one['label'].item()}, {wide}\nη_crit = {low:.3g} … {high:.3g}")
        right.set(ylabel="best test accuracy")
        right.set_title("\n".join(textwrap.wrap(one["about"].item(), TITLE_WIDTH)))
    legend(axes[0], {"a run diverges (at the edge)": {"marker": "x"}})
    return figure


def _bests(axis: Axes, values: xr.DataArray, diverged: xr.DataArray, *, top: bool) -> None:
    """Means with standard errors where all runs end well; crosses at an edge elsewhere."""
    for number, name in enumerate(MODELS):
        gone = diverged.sel(model=name).max("run") > 0
        one, color = values.sel(model=name).where(~gone), f"C{number}"
        error = one.std("run", ddof=1) / np.sqrt(one.sizes["run"])
        style = {"fmt": "o-", "color": color, "ms": 4, "capsize": 2, "label": name}
        axis.errorbar(one["rate"], one.mean("run"), error, **style)
        edge = 0.95 - 0.05 * number if top else 0.05 + 0.05 * number
        lost = one["rate"].values[gone.values]
        across = axis.get_xaxis_transform()
        axis.plot(lost, np.full(len(lost), edge), "x", color=color, ms=5, transform=across)
    axis.axvline(1, color="0.6", lw=0.8, ls="--")
    axis.set(xlabel="learning rate η/η_crit")


def check(data: xr.Dataset, sources: Mapping[str, str]) -> list[Claim]:
    """The observations of Section 3.4, panel by panel; panels that were not run are open.

    Args:
        data: what `compute` gave.
        sources: name of each panel of the thesis → its figures.

    Returns:
        The claims.
    """
    rows = [row for name in data["panel"].values for row in _panel(data, str(name), sources)]
    missed = [
        CLAIMS["open"]
        .format(panel=Panel.of(text).label, source=figures)
        .open("not run here: run it with --set panels=…, from its files")
        for text, figures in sources.items()
        if text not in data["panel"].values
    ]
    return [*rows, *missed]


def _panel(data: xr.Dataset, text: str, sources: Mapping[str, str]) -> list[Claim]:
    one, name = data.sel(panel=text), Panel.of(text).label
    fields = {"panel": name, "source": sources.get(text, "Section 3.4")}
    log = xr.ufuncs.log(one["loss"])
    above, lost = (_parts(values)[1] for values in (log, one["diverged"]))
    distance = abs(above - above.sel(model="f"))
    nearer = distance.sel(model="f_quad").max("rate") - distance.sel(model="f_lin").min("rate")
    beyond = one["diverged"].sel(model="f_quad", rate=one["rate"] > 2.1)
    apart = intervals.of_mean(_apart(log), over="run", which="farthest")
    sentences = {key: row.format(**fields, model="") for key, row in CLAIMS.items()}
    converged = lost.sel(model=["f", "f_quad"]).mean("run").max()
    power = functools.partial(_power, name)
    return [
        sentences["identical"].at_most(apart, NEARLY, power("identical")),
        *(row for model in ("f", "f_quad") for row in _gains(one.sel(model=model), model, fields)),
        sentences["linear"].equals(lost.sel(model="f_lin").mean(), 1.0),
        sentences["converge"].at_most(converged, 0.0),
        sentences["nearer"].at_most(intervals.of_mean(nearer), 0.0, power("nearer")),
        sentences["beyond"].at_least(beyond.mean("run").min(), 1.0),
    ]


def _gains(one: xr.Dataset, model: str, fields: Mapping[str, str]) -> list[Claim]:
    log = xr.ufuncs.log(one["loss"])
    sentences = {key: row.format(**fields, model=model) for key, row in CLAIMS.items()}
    gain, slope, better = map(intervals.of_mean, (_gain(log), _slope(log), _gain(one["accuracy"])))
    power = functools.partial(_power, fields["panel"], model=model)
    return [
        sentences["smaller"].at_most(gain, 0.0, power("smaller")),
        sentences["decreases"].at_most(slope, 0.0, power("decreases")),
        sentences["accuracy"].at_least(better, 0.0, POINT * power("accuracy", value=1.0)),
    ]


def _power(panel: str, key: str, *, model: str = "", value: float = 0.0) -> Tolerance:
    return Tolerance(value, "", WEAK.get((key, panel, model), 1.0))
