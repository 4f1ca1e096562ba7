"""Figs. 4.7 and C.8 to C.12: spikes of stochastic gradient descent in deep networks.

Batches are a quarter of the examples, as 32 of 128. Rates are the thesis's in units of η_crit of
all examples (6/3.6, 8/4.5, 3/1.5; η_crit of ViT, of the standard parameterisation and of Myrtle-5
is not printed: 1.5 there), with a control at ½ η_crit beside each, where batches of larger kernels
may still be above their own critical rates. "PyTorch default" (C.9) is the standard
parameterisation with weights of variance 1/(3 inputs); normal instead of uniform, without biases.
Cyclical rates (C.12) rise from ½ η_crit to twice the current η_crit and fall again: a Wide ResNet
in the paper's preset, the FCN in the quick one.

Chosen after first runs on digits: sizes and steps of the quick preset; spikes rise by half, and by
three standard deviations of the noise (with nine, the default, those of runs that spike often are
taken for noise); of each network the median spike must lie in the top direction by half, of all by
nine tenths; controls are judged in the first quarter of training, since their kernels grow and they
spike later too. Known before: that ‖K‖ drops at about half of the spikes, so that the share of
drops is compared with its base rate, that over all stretches as long. In the standard
parameterisation FCNs of width 256 diverged at 1.5 η_crit of the start on digits, as their kernels
grow: without a printed rate these panels are open. At two fresh keys of the quick preset the rows
of single networks missed half at one key each for CNN and Wide ResNet: two seeds have few spikes of
each. They are open there since then; all networks together, and each at the paper's size, are
judged.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis.catapults import Spike
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults import _training as training
from learndyn.studies.zhu2024catapults._data import Task, images

TITLE = "Spikes of stochastic gradient descent are catapults in the top eigendirection"
BATCHES = 4  # in the examples
TOP = 2.0  # of cycles, over the current η_crit
LIMIT = 4.0  # of their rates, over the current η_crit
EVERY = "‖K‖ drops at each spike: share of spikes"
REST = "the loss in the other directions is nearly monotonic: rise over its minimum, median"
REASONS = {
    EVERY: "over some of the smaller spikes ‖K‖ rises",
    REST: "while the top eigenvector turns, what it held passes to the others",
}
FEW = "two seeds of a small network have too few spikes"
UNKNOWN = "the thesis does not print the rates of Fig. C.9"
FAILS = {"quick": REASONS, "paper": {EVERY: REASONS[EVERY]}}


class Panel(NamedTuple):
    """Where a network stands in the thesis, what it is, and its rate over η_crit."""

    source: str
    network: str
    multiple: float
    examples: str = "few"


PANELS = {
    "FCN": Panel("Figs. 4.7 (a), C.8", "5-layer FCN", 6 / 3.6),
    "CNN": Panel("Figs. 4.7 (b), C.8", "5-layer CNN", 8 / 4.5),
    "WRN": Panel("Figs. 4.7 (c), C.8", "Wide ResNet", 3 / 1.5),
    "ViT": Panel("Figs. 4.7 (d), C.8", "ViT-4", 1.5),
    "FCN standard": Panel("Fig. C.9 (a)", "5-layer FCN, standard", 1.5),
    "CNN standard": Panel("Fig. C.9 (b)", "5-layer CNN, standard", 1.5),
    "WRN standard": Panel("Fig. C.9 (c)", "Wide ResNet, standard", 1.5),
    "ViT standard": Panel("Fig. C.9 (d)", "ViT-4, standard", 1.5),
    "FCN large": Panel("Fig. C.11 (a)", "5-layer FCN", 6 / 3.6, "many"),
    "CNN large": Panel("Fig. C.11 (b)", "5-layer CNN", 8 / 4.5, "many"),
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
    seeds: int = 2
    key: int = 0


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
    found: list[xr.Dataset] = []
    for seed in range(params.key, params.key + params.seeds):
        weights = training.weights_of(case, seed)
        critical = training.critical_rate(case, weights)
        runs = [
            training.follow(case, weights, rule, params.steps, key=seed)
            for rule in _rules(params, name, critical, len(case.task.x))
        ]
        found.append(xr.concat(runs, "rate").assign(critical=critical))
    joined = xr.concat(found, "seed")
    return joined.assign(examples=case.task.name, multiple=PANELS[name].multiple, kind=kind)


def _rules(params: Params, name: str, critical: float, examples: int) -> list[Any]:
    """The rule of a panel and that of its control."""
    sgd = lambda multiple: ld.SGD(multiple * critical, batch=max(1, examples // BATCHES))
    half = sgd(training.HALF)
    if name == "cyclical":
        return [ld.CatapultSchedule(half, times=TOP, period=params.period, limit=LIMIT), half]
    return [sgd(PANELS[name].multiple), half]


def _case(params: Params, name: str, kind: str) -> training.Trained:
    ten, deep = kind == "Myrtle", kind in ("WRN", "ViT")
    few = params.examples_classes if ten else params.examples_deep if deep else params.examples
    size = params.examples_many if PANELS[name].examples == "many" else few
    (task,) = images(params.data, (size,), params.key, range(10) if ten else (7, 9))
    task = task.flat if kind == "FCN" else task
    default = {"parameterisation": "standard", "gain": 3**-0.5} if "standard" in name else {}
    return training.trained(task, _network(params, kind, task, **default), 10 if ten else 1)


def _network(params: Params, kind: str, task: Task, **options: Any) -> Any:
    if kind == "Myrtle":
        return ld.Myrtle(params.channels, 10, **options)
    makers = {
        "FCN": (training.dense_network, params.width),
        "CNN": (training.convolutional, params.channels),
        "WRN": (training.wide_resnet, params.widen),
        "ViT": (training.transformer, params.tokens),
    }
    make, size = makers[kind]
    return make(task, size, **options)


def draw(data: xr.Dataset) -> Figure:
    """For each panel the first seed: the loss, its two parts, ‖K‖, and the control."""
    figure, axes = panels(data.sizes["panel"], size=(4.6, 3.2))
    for axis, name in zip(axes, data["panel"].values, strict=True):
        one = data.sel(panel=name).isel(seed=0)
        large, control = one.isel(rate=0), one.isel(rate=1)
        axis.plot(large["time"], large["loss"], "k", lw=2.5, alpha=0.35, label="loss")
        axis.plot(large["time"], large["top"], "C3", lw=1, label="top eigendirection")
        axis.plot(large["time"], large["rest"], "C0", lw=1, label="the others")
        axis.plot(control["time"], control["loss"], "k:", label="loss, control at ½ η_crit")
        kernel = large["kernel"] / large["kernel"][0]
        axis.plot(large["time"], kernel, "C2--", lw=1, label="‖K‖ / initial")
        axis.set(xlabel="steps", yscale="log", ylim=(1e-3, 20), xlim=(0, large["time"][-1]))
        axis.set_ylabel("loss; ‖K‖ over its first")
        rate = f"η up to {TOP:g} η_crit" if name == "cyclical" else _rate(one)
        who = f"{PANELS[str(name)].network}, {PANELS[str(name)].source}"
        axis.set_title(f"{who}\n{one['examples'].item()}\n{rate}", fontsize=8)
    legend(axes[0], loc="upper right", fontsize=6.5)
    left = [name for name in PANELS if name not in data["panel"]]
    figure.suptitle(f"not run: {'; '.join(left)}" if left else "", fontsize=8)
    return figure


def _rate(one: xr.Dataset) -> str:
    return f"η = {float(one['multiple']):.2f} η_crit, η_crit = {float(one['critical']):.3g}"


def check(data: xr.Dataset) -> list[Claim]:
    """Where spikes are, what ‖K‖ does in them, and the controls."""
    names = [str(name) for name in data["panel"].values]
    decided = data.sel(panel=[name for name in names if "standard" not in name])
    large = training.runs(decided.isel(rate=0), ("panel", "seed"))
    spikes = [s for run in large for s in training.of_batches(run).spikes]
    share = np.mean([s.kernel_drop > 0 for s in spikes]) if spikes else np.nan
    base = [_base(run, s) for run in large for s in training.of_batches(run).spikes]
    rest = training.median(training.rise(run["rest"]) for run in large)
    said = "share of a spike in the top eigendirection, median of all spikes"
    excess = "share of spikes over which ‖K‖ drops, less that of stretches as long"
    return [
        *(row for name in names for row in _of_panel(data.sel(panel=name), name)),
        claim(said, "Figs. 4.7, C.9, C.11, C.12").at_least(
            training.median(s.top_share for s in spikes), 0.9,
            because="curves that nearly coincide: a tenth",
        ),
        claim(EVERY, "Sec. 4.3").equals(share, 1.0, within=0.0, because="“whenever”"),
        claim(excess, "Sec. 4.3", kind="finding").at_least(
            share - np.mean(base) if base else np.nan, 0.0,
            because="with no more than its base rate a drop would say nothing",
        ),
        claim(REST, "Sec. 4.3").at_most(
            rest, training.RISE, because="small oscillations: below what counts as a spike"
        ),
        *_controls(decided.sel(panel=decided["panel"] != "cyclical")),
        *_not_run(names),
    ]  # fmt: skip


def _of_panel(data: xr.Dataset, name: str) -> list[Claim]:
    source, large = PANELS[name].source, training.runs(data.isel(rate=0), ("seed",))
    spikes = [s for run in large for s in training.of_batches(run).spikes]
    said = claim(f"{name}: share of a spike in the top eigendirection, median", source)
    median = training.median(s.top_share for s in spikes)
    if "standard" in name:
        return [said.open(UNKNOWN, median)]
    row = said.at_least(median, 0.5, because="most of it; few spikes a network")
    rows = [row if data.attrs["paper_size"] else row.open(FEW)]
    if name == "cyclical":
        share = np.mean([_cycles(run, int(data.attrs["period"])) for run in large])
        said = claim(f"{name}: share of cycles whose rate triggers a spike", source)
        rows.append(said.equals(share, 1.0, within=0.0, because="as drawn, without exceptions"))
    return rows


def _controls(data: xr.Dataset) -> list[Claim]:
    """Spikes early in training, of controls and at large rates."""
    early = data.isel(time=slice(0, 1 + data.sizes["time"] // 4))
    count = lambda rate: sum(
        len(training.of_batches(run).spikes)
        for run in training.runs(early.isel(rate=rate), ("panel", "seed"))
    )
    said = "in the first quarter of training, spikes of controls over spikes at large rates"
    because = "few: some batches are above their own critical rate"
    return [claim(said, "Sec. 4.3").at_most(count(1) / max(count(0), 1), 0.5, because=because)]


def _base(run: xr.Dataset, spike: Spike) -> float:
    """The share of all stretches as long as a spike over which ‖K‖ drops."""
    kernel, length = run["kernel"].values, spike.end - spike.onset
    before, after = kernel[:-length], kernel[length:]
    return float(np.mean((after < before)[np.isfinite(after)]))


def _cycles(run: xr.Dataset, period: int) -> float:
    """The share of whole cycles in which a spike has its peak."""
    whole = (run.sizes["time"] - 1) // period
    hit = {s.peak // period for s in training.of_batches(run).spikes}
    return len(hit & set(range(whole))) / whole


def _not_run(names: list[str]) -> list[Claim]:
    said = "spikes in the top eigendirection"
    svhn = claim(f"networks of Fig. 4.7 on two classes of SVHN: {said}", "Fig. C.10")
    rows = [svhn.open("not run: the files of SVHN are not at hand")]
    if not any("standard" in name for name in names):
        standard = claim(f"networks in PyTorch's default parameterisation: {said}", "Fig. C.9")
        rows.append(standard.open(f"not run in this preset: {UNKNOWN}"))
    return rows
