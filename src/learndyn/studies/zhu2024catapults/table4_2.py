"""Table 4.2: how often a loss that increases has η > η_crit(batch).

SGD on two classes of images, for a shallow, a fully connected and a convolutional network, three
seeds each. The table is on the loss of all examples, and there its match rates of 95 to 97 % are
not reproduced: the loss of all examples increases at many steps that are below η_crit of their
batch, and the rate depends on how many those are. On the loss of the batch itself all increases
match. Rates are 1.6, 1.67 and 1.4 η_crit: the thesis's 6 over 3.6 for the fully connected network,
and less than its 8 over 4.5 for the convolutional one, which was seen to diverge there with few
channels. Match rates are over all increases of the three seeds.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics.checks import one_of
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults import _training
from learndyn.studies.zhu2024catapults._data import images
from learndyn.studies.zhu2024catapults._watching import watched

TITLE = "Increases of the loss against critical rates of batches"
RATES = {"shallow": 1.6, "FCN": 1.67, "CNN": 1.4}  # over η_crit of all examples at the start
PRINTED = {"shallow": (97.32, 0.45), "FCN": (96.17, 1.46), "CNN": (94.67, 3.27)}  # percent
LOSSES = ("all", "batch")
_NAME = "{}: increases of the loss of all examples with η > η_crit(batch), percent"
_WHY = "batches disturb each other: the loss of all increases below η_crit of the batch as well"
_LISTED = {_NAME.format(name): _WHY for name in RATES}
FAILS = {"quick": _LISTED, "paper": _LISTED}


@dataclasses.dataclass(frozen=True)
class Params:
    """Images and how many, batch, widths, steps, seeds; which rows of the table."""

    data: str = "digits"
    n: int = 48
    batch: int = 12
    shallow: int = 256
    width: int = 128
    channels: int = 12
    steps: int = 80
    seeds: int = 3
    networks: tuple[str, ...] = tuple(RATES)
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params("cifar10", 128, 32, 1024, 1024, 512, steps=400),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Match rates on both losses, over all seeds, with numbers of increases and base rates."""
    for name in params.networks:
        one_of("networks", name, tuple(RATES))
    cells = [(name, seed) for name in params.networks for seed in range(params.seeds)]
    rows = [_row(params, *cell) for cell in cases(cells, report)]
    shape = len(params.networks), params.seeds, len(LOSSES)
    dims = "network", "seed", "loss"
    values = {n: (dims, np.array([r[n] for r in rows]).reshape(shape)) for n in rows[0]}
    coords = {"network": list(params.networks), "seed": np.arange(params.seeds)}
    found = xr.Dataset(values, {**coords, "loss": list(LOSSES)})
    sizes = dict(zip(RATES, (params.shallow, params.width, params.channels), strict=True))
    match = 100 * found["matched"].sum("seed") / found["increases"].sum("seed")
    said = f"{params.data}, {params.n} images, batch {params.batch}, {params.seeds} seeds"
    said += f"; widths {', '.join(str(sizes[name]) for name in params.networks)}"
    left = [name for name in RATES if name not in params.networks]
    said += f"; not run: {', '.join(left)}" if left else ""
    kept = {"match": match, "increases": found["increases"].sum("seed")}
    base = found["base"].sel(loss="all", drop=True).mean("seed")
    return xr.Dataset({**kept, "base": base}).assign_attrs(data=said)


def _row(params: Params, name: str, seed: int) -> dict[str, list[float]]:
    key = 1000 * params.key + seed
    task = images(params.data, [params.n], key)[0]
    task = task if name == "CNN" else task.flat
    network = {
        "shallow": lambda: ld.MLP([task.x[0].size, params.shallow, 1], "relu"),
        "FCN": lambda: _training.dense_network(task, params.width),
        "CNN": lambda: _training.convolutional(task, params.channels),
    }[name]()
    case = _training.trained(task, network, 1)
    weights = _training.weights_of(case, key)
    rule = ld.SGD(RATES[name] * _training.critical_rate(case, weights), batch=params.batch)
    run = watched(case.problem, network, weights, rule, params.steps, key=key)
    found = ld.analysis.find_catapults(run)
    matches = [found.increase_match, found.batch_match]
    assert matches[0] is not None and matches[1] is not None
    return {
        "increases": [float(m.events) for m in matches if m],
        "matched": [float(np.nan_to_num(m.rate) * m.events) for m in matches if m],
        "base": [100 * m.base for m in matches if m],
    }


def draw(data: xr.Dataset) -> Figure:
    """Match rates on both losses beside printed ones and base rates."""
    figure, (axis,) = panels(1, size=(6.4, 3.6))
    names, rates = [str(name) for name in data["network"].values], data["match"]
    at = np.arange(len(names))
    axis.bar(at - 0.25, [PRINTED[n][0] for n in names], 0.2, color="0.75", label="printed")
    for shift, (loss, color) in zip((0, 0.25), (("all", "C0"), ("batch", "C3")), strict=True):
        said = "all examples" if loss == "all" else "the batch"
        axis.bar(at + shift, rates.sel(loss=loss), 0.2, color=color, label=f"loss of {said}")
        for i, name in enumerate(names):
            count = int(data["increases"].sel(network=name, loss=loss))
            axis.text(i + shift, 2, f"of {count}", ha="center", fontsize=7, color="w")
    axis.hlines(data["base"], at - 0.4, at + 0.4, color="k", ls=":", label="base rate: all steps")
    axis.set_xticks(at, [f"{n}, {RATES[n]:g} η_crit" for n in names])
    axis.set(ylabel="increases with η > η_crit(batch), %", ylim=(0, 125))
    axis.set_title(data.attrs["data"], fontsize=9)
    legend(axis, ncols=2, fontsize=7, loc="upper right")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The printed match rates on the loss of all, and those on the batch's."""
    rows, rates = [], data["match"]
    for name, (printed, error) in PRINTED.items():
        if name not in data["network"]:
            said = claim(_NAME.format(name), "Table 4.2")
            rows.append(said.open("not run: this row was not asked for (networks)"))
            continue
        one, base = data.sel(network=name), float(data["base"].sel(network=name))
        counts = {loss: int(one["increases"].sel(loss=loss)) for loss in LOSSES}
        said = f"(base rate {base:.1f}; of {counts['all']})"
        rows += [
            claim(f"{_NAME.format(name)} {said}", "Table 4.2", name=_NAME.format(name))
            .at_least(rates.sel(network=name, loss="all"), printed, within=3 * error,
                      because="three printed errors"),
            claim(f"{name}: increases of the loss of their batch with η > η_crit(batch), percent "
                  f"(base rate {base:.1f}; of {counts['batch']})", "Table 4.2", kind="finding",)
            .equals(rates.sel(network=name, loss="batch"), 100, within=5,
                    because="η_crit by the kernel is off by some percent (Fig. C.1)"),
        ]  # fmt: skip
    return rows
