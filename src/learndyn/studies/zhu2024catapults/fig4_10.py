"""Fig. 4.10 with C.23: at a small learning rate the batch size makes no difference.

As Fig. 4.9 at ½ η_crit, and beside it at η_crit/40. At the small rate steps hardly depend on which
examples they see, and all batch sizes take the same number of steps: as many, in units of 1/η, as
the runs with the largest batch at the large rate. Alignment and test loss are of the reading with
the least validation loss.

'Little effect' is read as a quarter, or less, of the effect at the large rate, by the far end of
Student's interval of the differences between the smallest and the largest batch; that was written
before the run.

The quick preset has the rank-2 target alone, chosen after the first run: of the rank-4 target five
seeds did not decide two of five claims (alignment at the large rate, t 3.0 against a bound of 3.7;
at the small one the far end 0.045 against 0.031). Readings at the small rate lay at equal distances
at first; at the paper's size those of rank 4 were 2000 steps apart where the validation loss is
least after 2000 to 4000, so that alignments jumped between two of them (0.59 and 0.64; far end
0.068 against 0.025). They lie closer early since then, by which it is 0.036: listed.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._cases import PAPER, SHALLOW, Sizes, model_of, task_of
from learndyn.studies.zhu2024catapults._drawing import against
from learndyn.studies.zhu2024catapults._features import over_batches
from learndyn.studies.zhu2024catapults._ordering import growing_as_batches_shrink, interval

TITLE = "At a small learning rate the batch size changes neither alignment nor test loss"
RATES = {"large": 1 / 2, "small": 1 / 40}  # over η_crit
SOURCES = {"rank2": "Fig. 4.10 (a)", "rank4": "Fig. C.21 (a)"}
LITTLE = 1 / 4  # of the effect at the large rate
EARLY = 2.0  # readings at the small rate lie at this power of equal distances


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


_SCATTER = "alignments at the least validation loss scatter by more than that"
_LITTLE = " changes little with the batch size, far end of the interval"
FAILS = {"paper": {f"rank4, small rate: the AGOP alignment{_LITTLE}": _SCATTER}}
PRESETS = {
    "quick": Params(),
    "paper": Params(
        **dataclasses.asdict(PAPER),
        tasks=("rank2", "rank4"),
        batches=(50, 10, 5),
        shallow_epochs=(160, 32, 24),
        deep_epochs=(60, 20, 16),
        readings=24,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """What runs come to, by task, seed, rate and batch size."""
    work = [(name, params.key + i) for name in params.tasks for i in range(params.seeds)]
    rows = {(name, seed): _rates(params, name, seed) for name, seed in cases(work, report)}
    tasks = [
        xr.concat([rows[name, params.key + i] for i in range(params.seeds)], "seed")
        for name in params.tasks
    ]
    said = f"d = {params.dim}, {params.said}"
    data = xr.concat(tasks, xr.Variable("task", list(params.tasks)))
    return data.assign_attrs(size=said)


def _rates(params: Params, name: str, seed: int) -> xr.Dataset:
    task = task_of(name, params, seed, params.key)
    model = model_of(name, task, params, seed)
    epochs = np.asarray(params.shallow_epochs if name in SHALLOW else params.deep_epochs, float)
    batches = np.asarray(params.batches)
    slow = epochs[0] * RATES["large"] / RATES["small"] * batches / batches[0]
    given = {"key": seed, "readings": params.readings}
    large = over_batches(task, model, params.batches, epochs, share=RATES["large"], **given)
    small = over_batches(
        task, model, params.batches, slow, share=RATES["small"], early=EARLY, **given
    )
    return xr.concat([large, small], xr.Variable("rates", list(RATES)))


def draw(data: xr.Dataset) -> Figure:
    """Alignment and test loss against the batch size at both rates; validation losses."""
    figure, axes = panels(3 * data.sizes["task"], columns=3, size=(3.6, 2.8))
    for row, name in enumerate(data["task"].values):
        left, middle, right = axes[3 * row : 3 * row + 3]
        for rate, color in zip(RATES, ("C3", "C0"), strict=True):
            one = data.sel(task=name, rates=rate)
            label = f"η_crit/{1 / RATES[rate]:g}"
            against(left, one["alignment"], "batch", label, color)
            against(middle, one["test"], "batch", label, color)
        left.set(xlabel="batch size", ylabel="AGOP alignment", title=name)
        middle.set(xlabel="batch size", ylabel="test loss / variance")
        legend(left)
        slow = data.sel(task=name, rates="small").isel(seed=0)
        for i, b in enumerate(data["batch"].values):
            one = slow.sel(batch=b)
            right.plot(one["epoch"] * (one["step"] / one["best_epoch"]), one["curve"],
                       color=f"C{i}", label=f"b = {b}")  # fmt: skip
        right.set(xlabel="steps at η_crit/40", ylabel="validation loss (one seed)")
        legend(right)
    figure.suptitle(f"{data.attrs['size']}; thin: single seeds", fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Trends at the large rate; differences at the small one against them."""
    return [row for name in data["task"].values for row in _of_task(data.sel(task=name), name)]


def _of_task(one: xr.Dataset, name: str) -> list[Claim]:
    source, large = SOURCES[name], one.sel(rates="large")
    alignment = f"{name}, large rate: smaller batches raise the AGOP alignment"
    test = f"{name}, large rate: smaller batches lower the test loss"
    return [
        growing_as_batches_shrink(large["alignment"], alignment, source),
        growing_as_batches_shrink(-large["test"], test, source),
        _little(one["alignment"], f"{name}, small rate: the AGOP alignment", source),
        _little(one["test"], f"{name}, small rate: the test loss", source),
        claim(f"{name}, small rate: no catapults, largest count", "Section 4.4")
        .at_most(one["catapults"].sel(rates="small").max(), 0.0, because="the rate is critical "
                 "for no batch"),
    ]  # fmt: skip


def _little(values: xr.DataArray, said: str, source: str) -> Claim:
    effect = values.isel(batch=-1) - values.isel(batch=0)
    low, high = interval(effect.sel(rates="small"))
    far = max(abs(float(low)), abs(float(high)))
    most = LITTLE * abs(float(effect.sel(rates="large").mean("seed")))
    because = "a quarter of the change at the large rate"
    return claim(said + _LITTLE, source).at_most(far, most, because=because)
