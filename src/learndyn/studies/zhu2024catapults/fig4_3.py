"""Figs. 4.3 and C.2 to C.5: catapults of gradient descent in the kernel's top eigenspaces.

Each panel has the thesis's rate in units of its own η_crit (6/3.6, 8/4.5, 5/1.9, 3/1.5, 100/34,
80/16), and a control at ½ η_crit. With ten classes s = 5 means 50 eigenvectors. A control may spike
later, when its kernel has grown ("progressive sharpening"): it is judged while the run at the large
rate catapults, and every spike of any run must have η > n/λ_max(K) at its own time. Medians are
over the runs that spike and return, whose number is in the row; the share of runs counts all of
them. The quick preset has narrower networks and scikit-learn's digits, 7 and 9 or all ten; it
leaves out the CNN of ten classes.

Notes: docs/results/zhu2024catapults/fig4_3/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults import _training as training
from learndyn.studies.zhu2024catapults._data import drawn
from learndyn.studies.zhu2024catapults._drawing import panel_figure
from learndyn.studies.zhu2024catapults._training import Panel

TITLE = "Catapults of gradient descent occur in the top eigenspaces of the tangent kernel"
DIFFERS = (
    "rates in units of each network's own η_crit; three hidden layers for 5-layer, no biases; "
    "steps, number of runs and the CNN's filters are not stated, here 60, 12 and 3 × 3; SVHN (Fig. "
    "C.3) is not run"
)
CLAIMS = {
    "spike": claim("{panel}: share of runs that spike and return, and whose control does not rise",
                   "{source}", because="most runs: the thesis draws one; a tenth is no spike"),
    "top": claim("{panel}: share of the first spike in the top eigenspaces, median{kept}",
                 "{source}", because="curves that nearly coincide: a tenth"),
    "drop": claim("{panel}: ‖K‖ is smaller at the end of the first spike: drop, median{kept}",
                  "{source}", because="“a decreasing ‖K‖”"),
    "return": claim("{panel}: the last loss over the first, median{kept}", "{source}",
                    because="pre-spike level"),
    "control": claim("{panel}: control at ½ η_crit while the other catapults: rise of its loss, "
                     "median{kept}", "{source}", because="a tenth is no spike"),
    "rest": claim("{panel}: ln rise in the other eigenspaces over that of the loss, median{kept}",
                  "{source}", kind="finding", because="at most the root of the rise of the loss"),
    "monotone": claim("the loss in other eigenspaces decreases monotonically: largest rise over "
                      "its minimum", "Claim 1", within=Tolerance(1e-3, "nothing may rise; rounding "
                      "of float32 in the eigenvectors, 10⁻³", PLANNED)),
    "unexplained": claim("spikes of any run, including later ones of controls, without "
                         "η > n/λ_max(K) by their peak", "Sec. 4.3", kind="finding", rate=PLANNED,
                         because="gradient descent needs it to grow along an eigenvector"),
    "critical": claim("{panel}: critical rate, mean of seeds", "{source}", because="three standard "
                      "deviations over seeds: the printed value is from one run", rate=PLANNED),
    "not run": claim("{panel}: spikes in the top eigenspaces", "{source}"),
    "SVHN": claim("5-layer FCN and CNN on two classes of SVHN: spikes in the top eigenspaces",
                  "Fig. C.3"),
}  # fmt: skip
_TURNS = "it rises while the top eigenspaces turn, by less than the loss"
_CRITICAL = CLAIMS["critical"].statement.format
_RATES = {
    _CRITICAL(panel="polynomial"): (
        "the network that fits Fig. 4.3 (a) has a third of the kernel that is printed here"
    ),
    _CRITICAL(panel="CNN"): (
        "why is not known: 3.3 in the mean of three seeds that hardly differ, and the thesis does "
        "not state the filters of its CNN"
    ),
}
_MONOTONE = {CLAIMS["monotone"].statement: _TURNS}
FAILS = {"quick": _MONOTONE, "paper": _MONOTONE | _RATES}
# Twelve seeds of narrow networks do not decide these, at the one key that was looked at: to exceed
# two thirds, all twelve have to spike, return and have a calm control.
WEAK = {
    CLAIMS[key].statement.format(panel=panel, kept=""): 0.5
    for key, panel in (("spike", "CNN"), ("spike", "WRN"), ("return", "WRN"), ("rest", "WRN"),
                       ("rest", "polynomial"))
}  # fmt: skip
PANELS = {
    "FCN": Panel("Figs. 4.3 (a), C.2 (a)", "5-layer FCN", 6 / 3.6, 3.6),
    "CNN": Panel("Figs. 4.3 (b), C.2 (b)", "5-layer CNN", 8 / 4.5, 4.5),
    "polynomial": Panel("Fig. C.4 (a, b)", "5-layer FCN", 5 / 1.9, 1.9),
    "WRN": Panel("Fig. C.4 (c, d)", "Wide ResNet", 3 / 1.5, 1.5),
    "FCN 10 classes": Panel("Fig. C.5 (a, b)", "5-layer FCN", 100 / 34, 34.0),
    "CNN 10 classes": Panel("Fig. C.5 (c, d)", "5-layer CNN", 80 / 16, 16.0),
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Panels; data, numbers of examples; sizes of networks; s; steps, seeds of weights, key."""

    panels: tuple[str, ...] = ("FCN", "CNN", "polynomial", "WRN", "FCN 10 classes")
    data: str = "digits"
    examples: int = 64
    examples_wrn: int = 48
    examples_classes: int = 20
    width: int = 256
    channels: int = 24
    widen: int = 1
    s: int = 5
    steps: int = 30
    seeds: int = 12
    key: int = 0


PARTS = {"panels": "panel"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        panels=tuple(PANELS), data="cifar10", examples=128, examples_wrn=128, examples_classes=128,
        width=1024, channels=512, widen=10, steps=60,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Losses, their parts and ‖K‖ at every step, at the large rate and at half the critical one."""
    rows = [_panel(params, name) for name in cases(params.panels, report)]
    data = xr.concat(rows, xr.DataArray(list(params.panels), dims="panel", name="panel"))
    return data.assign_attrs(s=params.s, paper_size=int(params.width == PRESETS["paper"].width))


def _panel(params: Params, name: str) -> xr.Dataset:
    case = _case(params, name)
    multiples = [PANELS[name].multiple, training.HALF]
    rules = lambda critical: [ld.GradientDescent(m * critical) for m in multiples]
    data = training.over_seeds(case, params, rules)
    return data.assign(multiple=("rate", multiples), rows=case.task.y.size)


def _case(params: Params, name: str) -> training.Trained:
    if name == "polynomial":
        (task,) = drawn("rank2", (params.examples,), params.key)
        return training.trained("FCN", task, params.width, params.s)
    kind, ten = name.split()[0], "classes" in name
    size = {"FCN": params.width, "CNN": params.channels, "WRN": params.widen}[kind]
    count = params.examples_wrn if name == "WRN" else params.examples
    count = params.examples_classes if ten else count
    return training.on_images(kind, params, count, size, (10 if ten else 1) * params.s, ten=ten)


def draw(data: xr.Dataset) -> Figure:
    """For each panel the first seed: the loss, its two parts, ‖K‖, and the control."""
    s = data.attrs["s"]
    top = f"top {s} eigenspaces ({10 * s} of ten classes)"  # one entry of the shared legend
    return panel_figure(data, PANELS, top, 3.4)


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Spikes, where they are, drops of ‖K‖; what the controls do; printed critical rates."""
    names = [str(name) for name in data["panel"].values]
    every = training.runs(data, "panel", "seed", "rate")
    large = training.runs(data.isel(rate=0), "panel", "seed")
    rises = [training.rise(run["rest"]) for run in large]
    highest = max((r for r in rises if np.isfinite(r)), default=np.nan)
    about = lambda name: {"panel": name, "source": PANELS[name].source, "kept": ""}
    of = lambda key, name: CLAIMS[key].format(**about(name))
    left = [of("not run", name) for name in PANELS if name not in names]
    rates = []
    for name in names if data.attrs["paper_size"] else ():
        critical, printed = data["critical"].sel(panel=name).values, PANELS[name].printed
        spread = 3 * float(np.std(critical, ddof=1)) if len(critical) > 1 else np.nan
        rates.append(of("critical", name).equals(critical.mean(), printed, spread))
    return [
        *(row for name in names for row in _of_panel(data.sel(panel=name), name)),
        CLAIMS["monotone"].at_most(highest, 1.0),
        CLAIMS["unexplained"].equals(sum(_unexplained(run) for run in every), 0),
        *rates,
        *(each.open("not run: not among the panels") for each in left),
        CLAIMS["SVHN"].open("not run: the files of SVHN are not available"),
    ]


def _of_panel(data: xr.Dataset, name: str) -> list[Claim]:
    large, controls = (training.runs(data.isel(rate=rate), "seed") for rate in (0, 1))
    catapults = [training.of_descent(run) for run in large]
    kept = [i for i, each in enumerate(catapults) if each.spikes and each.diverged_at is None]
    first = [catapults[i].spikes[0] for i in kept]
    calm = [
        training.rise(controls[i]["loss"][: spike.end + 1])
        for i, spike in zip(kept, first, strict=True)
    ]
    last = [float(large[i]["loss"][-1] / large[i]["loss"][0]) for i in kept]
    rises = [[np.log(training.rise(large[i][part])) for part in ("rest", "loss")] for i in kept]
    count = f" (of {len(kept)} runs; {len(large) - len(kept)} more do not spike, or diverge)"
    fields = {"panel": name, "source": PANELS[name].source, "kept": count}
    of = lambda key: CLAIMS[key].format(**fields)
    quiet = [rise <= training.CALM for rise in calm] + [False] * (len(large) - len(kept))
    return [
        of("spike").at_least(intervals.of_share(quiet), 2 / 3),
        of("top").at_least(intervals.of_median([s.top_share for s in first]), 0.9),
        of("drop").at_least(intervals.of_median([s.kernel_drop for s in first]), 0.0),
        of("return").at_most(intervals.of_median(last), 1.0),
        of("control").at_most(intervals.of_median(calm), training.CALM),
        of("rest").at_most(intervals.of_median([rest / whole for rest, whole in rises]), 0.5),
    ]


def _unexplained(run: xr.Dataset) -> int:
    """The number of spikes before whose peak η never exceeds n/λ_max(K) of that time."""
    ratio = run["multiple"].item() * run["kernel"].values / run["kernel"].values[0]
    spikes = training.of_descent(run).spikes
    return sum(not np.any(ratio[s.onset : s.peak + 1] > 1) for s in spikes)
