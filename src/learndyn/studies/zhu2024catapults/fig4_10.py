"""Fig. 4.10 with C.23: at a small learning rate the batch size makes no difference.

As Fig. 4.9 at ½ η_crit, and also at η_crit/40. At the small rate steps hardly depend on which
examples they see, and all batch sizes take the same number of steps: in units of 1/η as many as the
runs with the largest batch at the large rate. Alignment and test loss are those at the smallest
validation loss. "Little effect" is read as at most a quarter of the effect at the large rate, by
the differences between the smallest and the largest batch of each seed. Beside rank 2 the paper
preset has rank 3, as Fig. C.23 does, and rank 4. The quick preset has the rank-2 target only.

Notes: docs/results/zhu2024catapults/fig4_10/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Interval, claim
from learndyn.studies.registry import Report
from learndyn.studies.zhu2024catapults._cases import PAPER, SHALLOW, Sizes, drawn_case, over_tasks
from learndyn.studies.zhu2024catapults._drawing import against, curves
from learndyn.studies.zhu2024catapults._features import over_batches
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink

TITLE = "At a small learning rate the batch size changes neither alignment nor test loss"
DIFFERS = (
    "batches of 50, 10, 5 instead of 2000 to 5; targets of variance 1; rank 4 is added; SVHN and "
    "CelebA are not run; 5 runs instead of 3, no biases"
)
RATES = {"large": 1 / 2, "small": 1 / 40}  # over η_crit
SOURCES = {"rank2": "Fig. 4.10 (a)", "rank3": "Fig. C.23", "rank4": "Fig. C.21 (a)"}
LITTLE = 1 / 4  # of the effect at the large rate
EARLY = 2.0  # readings at the small rate lie at this power of equal distances
_QUARTER = "a quarter of the change at the large rate"
CLAIMS = {
    "alignment": claim("{task}, large rate: smaller batches raise the AGOP alignment: mean "
                       "slope against −log b", "{source}"),
    "test": claim("{task}, large rate: smaller batches lower the test loss: mean slope against "
                  "−log b", "{source}"),
    "same alignment": claim("{task}, small rate: the AGOP alignment changes little with the batch "
                            "size, what is left of a quarter of the change at the large rate",
                            "{source}", because=_QUARTER),
    "same test": claim("{task}, small rate: the test loss changes little with the batch size, what "
                       "is left of a quarter of the change at the large rate", "{source}",
                       because=_QUARTER),
    "catapults": claim("{task}, small rate: no catapults, largest count", "Section 4.4",
                       because="the rate is below η_crit of every batch", rate=PLANNED),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Tasks, batches, epochs at the large rate with two and four layers, readings and seeds."""

    tasks: tuple[str, ...] = ("rank2",)
    batches: tuple[int, ...] = (40, 10, 5)
    shallow_epochs: tuple[int, ...] = (60, 24, 16)
    deep_epochs: tuple[int, ...] = (30, 14, 10)
    readings: int = 16
    seeds: int = 5
    key: int = 0


PARTS = {"tasks": "task", "seeds": "seed"}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER), tasks=("rank2", "rank3", "rank4"), batches=(50, 10, 5),
        shallow_epochs=(160, 32, 24), deep_epochs=(60, 20, 16), readings=24,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """The reported readings by task, seed, rate and batch size."""
    return over_tasks(_rates, params, report).assign_attrs(size=params.label)


def _rates(params: Params, name: str, seed: int) -> xr.Dataset:
    task, model = drawn_case(name, params, seed)
    epochs = np.asarray(params.shallow_epochs if name in SHALLOW else params.deep_epochs, float)
    batches = np.asarray(params.batches)
    slow = epochs[0] * RATES["large"] / RATES["small"] * batches / batches[0]
    runs = [
        over_batches(
            task, model, params.batches, most, share=RATES[rate], early=early, key=seed,
            readings=params.readings,
        )
        for rate, most, early in (("large", epochs, 1.0), ("small", slow, EARLY))
    ]  # fmt: skip
    return xr.concat(runs, xr.Variable("rates", list(RATES)))


def draw(data: xr.Dataset) -> Figure:
    """Alignment and test loss against the batch size at both rates; validation losses."""
    figure, axes = panels(3 * data.sizes["task"], columns=3, size=(3.6, 2.8))
    for row, name in enumerate(data["task"].values):
        left, middle, right = axes[3 * row : 3 * row + 3]
        for rate, color in zip(RATES, ("C3", "C0"), strict=True):
            one, label = data.sel(task=name, rates=rate), f"η_crit/{1 / RATES[rate]:g}"
            against(left, one["alignment"], "batch", label, color)
            against(middle, one["test"], "batch", label, color)
        left.set(xlabel="batch size", ylabel="AGOP alignment", title=name)
        middle.set(xlabel="batch size", ylabel="test loss / variance")
        legend(left)
        slow = data.sel(task=name, rates="small")
        slow = slow.assign(steps=slow["epoch"] * (slow["step"] / slow["best_epoch"]))
        curves(right, slow, "batch", ("steps", "curve"), "b = {}")
        right.set(xlabel="steps at η_crit/40", ylabel="validation loss (one seed)")
    figure.suptitle(f"{data.attrs['size']}; thin: single seeds", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Trends at the large rate; differences at the small one compared with them."""
    return [row for name in data["task"].values for row in _of_task(data.sel(task=name), name)]


def _of_task(one: xr.Dataset, name: str) -> list[Claim]:
    claims = {key: each.format(task=name, source=SOURCES[name]) for key, each in CLAIMS.items()}
    large, catapults = one.sel(rates="large"), one["catapults"].sel(rates="small")
    return [
        growing_as_batches_shrink(claims["alignment"], large["alignment"]),
        growing_as_batches_shrink(claims["test"], -large["test"]),
        claims["same alignment"].at_least(_left(one["alignment"]), 0.0),
        claims["same test"].at_least(_left(one["test"]), 0.0),
        claims["catapults"].at_most(catapults.max(), 0.0),
    ]


def _left(values: xr.DataArray) -> Interval:
    """A quarter of the effect at the large rate, less the effect at the small one or its negative.

    Where the smaller of the two is positive, the effect at the small rate is less than a quarter.
    """
    effect = values.isel(batch=-1) - values.isel(batch=0)
    large, small = (effect.sel(rates=rate, drop=True) for rate in ("large", "small"))
    quarter = LITTLE * float(np.sign(large.mean())) * large
    both = xr.concat([quarter - small, quarter + small], "sign")
    return intervals.of_mean(both, "seeds", over="seed", which="least")
