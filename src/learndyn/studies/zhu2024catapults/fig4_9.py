"""Fig. 4.9 with C.19 and C.21: smaller batches, more catapults, better alignment and test error.

Each task is learned at ½ η_crit of its training set with several batch sizes, from the same start
(see `_features`). A trend is the mean of slopes against −log b, one per seed. Targets are
scaled to the variance 1: in the thesis those of rank 3 and 4 have the variances 14 and 4, and runs
with batches of 5 diverge, which is measured too. The real task of the quick preset is
scikit-learn's digits, odd or even, those of the preset paper are USPS and Fashion-MNIST; a tenth of
their training labels are wrong (Fig. C.21), and G* is the AGOP of a strong network, whose accuracy
is reported. Panels (c) and (d), SVHN and CelebA, are not run.

Notes: docs/results/zhu2024catapults/fig4_9/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels, shared_legend
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults import _cases
from learndyn.studies.zhu2024catapults._cases import PAPER, Sizes, drawn_case, over_tasks
from learndyn.studies.zhu2024catapults._drawing import against_batches
from learndyn.studies.zhu2024catapults._features import over_batches
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink

TITLE = "Smaller batches of SGD: catapults, AGOP alignment and test error over tasks"
DIFFERS = (
    "targets of variance 1; 5 runs instead of 3; USPS has 2000 test images instead of 5000 and "
    "Wide ResNet 16-2 as reference; no biases; runs end after 16 to 1500 epochs if the loss is not "
    "below 10⁻³ before; SVHN and CelebA are not run"
)
SOURCES = {"rank2": "Fig. 4.9 (a)", "rank3": "Fig. 4.9 (b)", "rank4": "Fig. C.21 (a)"}
NOT_RUN = {"SVHN": "Fig. 4.9 (c)", "CelebA": "Fig. 4.9 (d)"}
RAW = "rank3", "rank4"
LEARNED = 0.75  # test loss over the target's variance, above which little was learned
CLAIMS = {
    "alignment": claim("{task}: smaller batches raise the AGOP alignment: mean slope against "
                       "−log b", "{source}"),
    "digits": claim("digits: smaller batches raise the AGOP alignment with one reference network: "
                    "mean slope against −log b", "Fig. C.21", kind="finding", rate=0.67),
    "test": claim("{task}: smaller batches lower the test error: mean slope against −log b",
                  "{source}"),
    "little": claim("rank3: little of it is learned with any batch, mean of a seed's smallest test "
                    "loss over the variance", "Fig. 4.9 (b)", kind="finding",
                    because="“little” read as a quarter of the variance"),
    "raw": claim("{task} as printed, without scaling, trains at ½ η_crit with the smallest batch, "
                 "share of runs", "{source}", because="the thesis has no exceptions", rate=PLANNED),
    "not run": claim("{data}: smaller batches lower the test error and raise the AGOP alignment",
                     "{panel}"),
}  # fmt: skip
_DIVERGES = "some or all runs diverge: the target's variance is 14 (rank 3) and 4 (rank 4)"
_FAILING = {CLAIMS["raw"].statement.format(task=name): _DIVERGES for name in RAW}
FAILS = {"quick": _FAILING, "paper": _FAILING}


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, batches, epochs of networks with two and four layers, readings and seeds."""

    tasks: tuple[str, ...] = ("rank2", "rank3", "rank4", "digits")
    batches: tuple[int, ...] = (320, 10, 5)
    shallow_epochs: tuple[int, ...] = (500, 24, 16)
    deep_epochs: tuple[int, ...] = (200, 14, 10)
    label_noise: float = 0.1
    readings: int = 16
    seeds: int = 6
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER), tasks=("rank2", "rank3", "rank4", "usps", "fashion"),
        batches=(2000, 100, 50, 10, 5), shallow_epochs=(1500, 300, 160, 32, 24),
        deep_epochs=(600, 120, 60, 20, 16), readings=32, seeds=5,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, seed and batch size; which runs on raw targets diverge."""
    data = over_tasks(_run, params, report)
    raw = [name for name in RAW if name in params.tasks]
    first = params.key + params.first_seed
    seeds = range(first, first + params.seeds)
    diverged = [[_raw_diverges(params, name, seed) for seed in seeds] for name in raw]
    values = np.reshape(diverged, (len(raw), params.seeds))  # also without any
    data["raw_diverged"] = (("raw", "seed"), values, {"long_name": "raw target diverges"})
    return data.assign_coords(raw=raw).assign_attrs(size=params.label, inputs=params.dim)


def _run(params: Params, name: str, seed: int) -> xr.Dataset:
    noise = params.label_noise if name in _cases.IMAGES else 0.0
    task, model = drawn_case(name, params, seed, label_noise=noise)
    epochs = params.shallow_epochs if name in _cases.SHALLOW else params.deep_epochs
    run = over_batches(task, model, params.batches, epochs, key=seed, readings=params.readings)
    return run.assign(accuracy=task.accuracy, title=task.name)


def _raw_diverges(params: Params, name: str, seed: int) -> bool:
    """Whether a run on a target that is not scaled diverges, with the smallest batch."""
    sizes = params.dim, params.n_deep, params.held_out
    task = _cases.polynomial_task(name, *sizes, seed, raw=True)
    model = _cases.model_of(name, task, params, seed)
    last = params.batches[-1:], params.deep_epochs[-1:]
    run = over_batches(task, model, *last, key=seed, readings=params.readings)
    return bool(run["diverged"].item())


def draw(data: xr.Dataset) -> Figure:
    """Alignment, test error, catapults against the batch size; validation losses over epochs."""
    figure, axes = panels(4 * data.sizes["task"], columns=4, size=(2.6, 1.9))
    for row, name in enumerate(data["task"].values):
        one, four = data.sel(task=name), axes[4 * row : 4 * row + 4]
        test = "test loss / variance" if name in SOURCES else "test error"
        against_batches(four, one, test, f"C{row}")
        title, accuracy = str(one["title"].values.flat[0]), float(one["accuracy"].values.flat[0])
        title += f", reference {accuracy:.1%}" if np.isfinite(accuracy) else ""
        parts = title.split(", ")  # two lines are as wide as a panel
        lines = ", ".join(parts[:2]), ", ".join(parts[2:])
        four[0].set_title("\n".join(filter(None, lines)), fontsize=7, loc="left")
    shared_legend(axes, {"mean of seeds": {"color": "0.3", "marker": "o", "ls": "-"}})
    figure.suptitle(f"{data.attrs['size']}; thin: single seeds; d, h, …: one seed", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Trends with the batch size by task; raw targets; what was not run."""
    rows = [row for name in data["task"].values for row in _of_task(data.sel(task=name), name)]
    for name in data["raw"].values:
        trains = 1 - data["raw_diverged"].sel(raw=name).astype(float).mean("seed")
        rows.append(CLAIMS["raw"].format(task=name, source=SOURCES[name]).equals(trains, 1.0))
    return [*rows, *_cases.not_run(CLAIMS["not run"], NOT_RUN)]


def _of_task(one: xr.Dataset, name: str) -> list[Claim]:
    about = {"task": name, "source": SOURCES.get(name, "Fig. C.21")}
    aligned = CLAIMS["digits"] if name == "digits" else CLAIMS["alignment"].format(**about)
    rows = [
        growing_as_batches_shrink(aligned, one["alignment"]),
        growing_as_batches_shrink(CLAIMS["test"].format(**about), -one["test"]),
    ]
    if name == "rank3":
        left = intervals.of_mean(one["test"].min("batch"), "seeds")
        rows.append(CLAIMS["little"].at_least(left, LEARNED))
    return rows
