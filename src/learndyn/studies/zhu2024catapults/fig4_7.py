"""Figs. 4.7 and C.8 to C.12: spikes of stochastic gradient descent in deep networks.

Batches are a quarter of the examples, as 32 of 128. Rates are the thesis's in units of η_crit of
all examples (6/3.6, 8/4.5, 3/1.5), and 1.5 where η_crit is not printed: ViT, the standard
parameterisation and Myrtle-5. Each has a control at ½ η_crit, where batches with larger kernels may
still be above their own critical rates. "PyTorch default" (C.9) is the standard parameterisation
with weights of variance 1/(3 inputs); normal instead of uniform, without biases. Cyclical rates
(C.12) rise from ½ η_crit to twice the current η_crit and fall again. The quick preset has smaller
networks on scikit-learn's digits, and cyclical rates for the FCN instead of a Wide ResNet.

Notes: docs/results/zhu2024catapults/fig4_7/notes.md.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.catapults import Spike
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults import _training as training
from learndyn.studies.zhu2024catapults._drawing import panel_figure
from learndyn.studies.zhu2024catapults._training import Panel

TITLE = "Spikes of stochastic gradient descent are catapults in the top eigendirection"
DIFFERS = (
    "rates in units of η_crit, 1.5 where η_crit is not printed (ViT, Figs. C.9, C.11c); 300 "
    "steps instead of until loss 10⁻³; 5-layer and ViT-4 are our readings, no biases; SVHN is "
    "not run"
)
BATCHES = 4  # number of batches in the examples
TOP = 2.0  # highest rate of a cycle, over the current η_crit
LIMIT = 4.0  # bound on the rates of cycles, over the current η_crit
DEFAULT = {"parameterisation": "standard", "gain": 3**-0.5}  # of PyTorch
UNKNOWN = "the thesis does not print the rates of Fig. C.9"
CLAIMS = {
    "panel": claim("{panel}: share of a spike in the top eigendirection, median", "{source}",
                   because="most of it; few spikes per network"),
    "cycles": claim("{panel}: share of cycles whose rate triggers a spike", "{source}",
                    because="as drawn, without exceptions", rate=PLANNED),
    "top": claim("share of a spike in the top eigendirection, median of all spikes",
                 "Figs. 4.7, C.9, C.11, C.12",
                 because="curves that nearly coincide: a tenth"),
    "drops": claim("‖K‖ drops at each spike: share of spikes", "Sec. 4.3",
                   because="“whenever”", rate=PLANNED),
    "excess": claim("share of spikes over which ‖K‖ drops, minus that of intervals of the same "
                    "length", "Sec. 4.3", kind="finding",
                    because="drops at no more than their base rate would mean nothing"),
    "rest": claim("the loss in the other directions is nearly monotonic: rise over its minimum, "
                  "median", "Sec. 4.3",
                  because="small oscillations: below what counts as a spike"),
    "controls": claim("spikes of controls over spikes at large rates", "Sec. 4.3",
                      because="few: some batches are above their own critical rate", rate=PLANNED),
    "early controls": claim("in the first quarter of training, spikes of controls over spikes at "
                            "large rates", "Sec. 4.3", kind="finding",
                            because="few: some batches are above their own critical rate",
                            rate=PLANNED),
    "SVHN": claim("networks of Fig. 4.7 on two classes of SVHN: spikes in the top eigendirection",
                  "Fig. C.10"),
    "standard": claim("networks in PyTorch's default parameterisation: spikes in the top "
                      "eigendirection", "Fig. C.9"),
}  # fmt: skip
_DROPS = {CLAIMS["drops"].statement: "over some of the smaller spikes ‖K‖ rises"}
_REST = "while the top eigenvector turns, its part of the loss passes to the others"
_LATE = "kernels of controls grow in training, and they spike later too"
_QUICK = {CLAIMS["rest"].statement: _REST, CLAIMS["controls"].statement: _LATE}
FAILS = {"quick": _DROPS | _QUICK, "paper": _DROPS}
# Few spikes of these narrow networks leave the interval of their median wide, at the one key that
# was looked at.
WEAK = {CLAIMS["panel"].statement.format(panel=name): 0.5 for name in ("CNN", "WRN")}


PANELS = {
    "FCN": Panel("Figs. 4.7 (a), C.8", "5-layer FCN", 6 / 3.6),
    "CNN": Panel("Figs. 4.7 (b), C.8", "5-layer CNN", 8 / 4.5),
    "WRN": Panel("Figs. 4.7 (c), C.8", "Wide ResNet", 3 / 1.5),
    "ViT": Panel("Figs. 4.7 (d), C.8", "ViT-4", 1.5),
    "FCN standard": Panel("Fig. C.9 (a)", "5-layer FCN, standard", 1.5),
    "CNN standard": Panel("Fig. C.9 (b)", "5-layer CNN, standard", 1.5),
    "WRN standard": Panel("Fig. C.9 (c)", "Wide ResNet, standard", 1.5),
    "ViT standard": Panel("Fig. C.9 (d)", "ViT-4, standard", 1.5),
    "FCN large": Panel("Fig. C.11 (a)", "5-layer FCN", 6 / 3.6, many=True),
    "CNN large": Panel("Fig. C.11 (b)", "5-layer CNN", 8 / 4.5, many=True),
    "Myrtle": Panel("Fig. C.11 (c)", "Myrtle-5, 10 classes", 1.5),
    "cyclical": Panel("Fig. C.12", "cyclical rates", TOP),
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Panels; data, examples of each kind; sizes; steps, period of cycles, seeds, key."""

    panels: tuple[str, ...] = ("FCN", "CNN", "WRN", "ViT", "cyclical")
    data: str = "digits"
    examples: int = 64
    examples_deep: int = 32
    examples_classes: int = 16
    examples_many: int = 256
    width: int = 256
    channels: int = 16
    widen: int = 1
    tokens: int = 16
    cyclical: str = "FCN"
    steps: int = 40
    period: int = 20
    seeds: int = 6
    key: int = 0


PARTS = {"panels": "panel"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        panels=tuple(PANELS), data="cifar10", examples=128, examples_deep=128,
        examples_classes=128, examples_many=5000, width=1024, channels=512, widen=10, tokens=512,
        cyclical="WRN", steps=300, period=60, seeds=3,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Losses, their parts and ‖K‖ at every step, at the large rate and at half the critical one."""
    rows = [_panel(params, name) for name in cases(params.panels, report)]
    data = xr.concat(rows, xr.DataArray(list(params.panels), dims="panel", name="panel"))
    paper = int(params.width == PRESETS["paper"].width)
    return data.assign_attrs(period=params.period, paper_size=paper)


def _panel(params: Params, name: str) -> xr.Dataset:
    kind = params.cyclical if name == "cyclical" else name.split()[0]
    case = _case(params, name, kind)
    batch = max(1, len(case.task.x) // BATCHES)

    def rules(critical: float) -> list[Any]:
        sgd = lambda multiple: ld.SGD(multiple * critical, batch=batch)
        half = sgd(training.HALF)
        if name == "cyclical":
            return [ld.CatapultSchedule(half, times=TOP, period=params.period, limit=LIMIT), half]
        return [sgd(PANELS[name].multiple), half]

    data = training.over_seeds(case, params, rules)
    return data.assign(multiple=PANELS[name].multiple, kind=kind)


def _case(params: Params, name: str, kind: str) -> training.Trained:
    sizes = {
        "FCN": (params.examples, params.width),
        "CNN": (params.examples, params.channels),
        "WRN": (params.examples_deep, params.widen),
        "ViT": (params.examples_deep, params.tokens),
        "Myrtle": (params.examples_classes, params.channels),
    }
    few, size = sizes[kind]
    count, ten = params.examples_many if PANELS[name].many else few, kind == "Myrtle"
    options = DEFAULT if "standard" in name else {}
    return training.on_images(kind, params, count, size, 10 if ten else 1, ten=ten, **options)


def draw(data: xr.Dataset) -> Figure:
    """For each panel the first seed: the loss, its two parts, ‖K‖, and the control."""
    return panel_figure(data, PANELS, "top eigendirection", 3.2)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Where spikes are, what ‖K‖ does in them, and the controls."""
    names = [str(name) for name in data["panel"].values]
    decided = data.sel(panel=[name for name in names if "standard" not in name])
    large = training.runs(decided.isel(rate=0), "panel", "seed")
    spikes = [(run, s) for run in large for s in training.of_batches(run).spikes]
    top = intervals.of_median([s.top_share for _, s in spikes], "spikes")
    drops = np.mean([s.kernel_drop > 0 for _, s in spikes]) if spikes else np.nan
    excess = [(s.kernel_drop > 0) - _base(run, s) for run, s in spikes]
    rest = intervals.of_median([training.rise(run["rest"]) for run in large])
    constant = decided.sel(panel=decided["panel"] != "cyclical")
    early = constant.isel(time=slice(0, 1 + data.sizes["time"] // 4))
    rows = [
        *(row for name in names for row in _of_panel(data.sel(panel=name), name)),
        CLAIMS["top"].at_least(top, 0.9),
        CLAIMS["drops"].equals(drops, 1.0),
        CLAIMS["excess"].at_least(intervals.of_mean(excess, "spikes"), 0.0),
        CLAIMS["rest"].at_most(rest, training.RISE),
        CLAIMS["controls"].at_most(_controls(constant), 0.5),
        CLAIMS["early controls"].at_most(_controls(early), 0.5),
        CLAIMS["SVHN"].open("not run: the files of SVHN are not available"),
    ]
    if not any("standard" in name for name in names):
        rows.append(CLAIMS["standard"].open(f"not run in this preset: {UNKNOWN}"))
    return rows


def _controls(data: xr.Dataset) -> float:
    """The number of spikes at ½ η_crit, over that at the large rates."""
    counts = [
        sum(len(training.of_batches(run).spikes) for run in training.runs(part, "panel", "seed"))
        for part in (data.isel(rate=0), data.isel(rate=1))
    ]
    return counts[1] / max(counts[0], 1)


def _of_panel(data: xr.Dataset, name: str) -> list[Claim]:
    large = training.runs(data.isel(rate=0), "seed")
    of = lambda key: CLAIMS[key].format(panel=name, source=PANELS[name].source)
    shares = [s.top_share for run in large for s in training.of_batches(run).spikes]
    if "standard" in name:
        return [of("panel").open(UNKNOWN, training.median(shares))]
    rows = [of("panel").at_least(intervals.of_median(shares, "spikes"), 0.5)]
    if name == "cyclical":
        hit = np.mean([_cycles(run, int(data.attrs["period"])) for run in large])
        rows.append(of("cycles").equals(hit, 1.0))
    return rows


def _base(run: xr.Dataset, spike: Spike) -> float:
    """The fraction of all intervals as long as a spike over which ‖K‖ drops."""
    kernel, length = run["kernel"].values, spike.end - spike.onset
    before, after = kernel[:-length], kernel[length:]
    return float(np.mean((after < before)[np.isfinite(after)]))


def _cycles(run: xr.Dataset, period: int) -> float:
    """The fraction of whole cycles in which a spike has its peak."""
    whole = (run.sizes["time"] - 1) // period
    hit = {s.peak // period for s in training.of_batches(run).spikes}
    return len(hit & set(range(whole))) / whole
