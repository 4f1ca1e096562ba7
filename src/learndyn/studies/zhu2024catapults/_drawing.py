"""Panels that several figures share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.plotting import legend, panels, shared_legend
from learndyn.studies.zhu2024catapults._training import Panel


def against(
    axis: Axes, values: xr.DataArray, over: str, label: str, color: str = "C0", **style: Any
) -> None:
    """Each seed thin, the mean thick; entries of `over` as ticks at equal distances."""
    entries = [str(e) for e in values[over].values]
    at = np.arange(len(entries))
    rows = values.transpose("seed", over).values
    axis.plot(at, rows.T, color=color, lw=0.6, alpha=0.35)
    axis.plot(at, rows.mean(axis=0), color=color, label=label, **{"marker": "o", "ms": 4, **style})
    axis.set_xticks(at, entries)


def against_batches(axes: Sequence[Axes], data: xr.Dataset, test: str, color: str = "C0") -> None:
    """Alignment, test loss and catapults against the batch size; validation losses of one seed."""
    labels = {"alignment": "AGOP alignment", "test": test, "catapults": "catapults"}
    for axis, (name, label) in zip(axes, labels.items(), strict=False):
        against(axis, data[name], "batch", "", color)
        axis.set(xlabel="batch size", ylabel=label)
    axes[2].set_yscale("symlog", linthresh=1)  # some counts are 0
    axes[2].set_ylim(bottom=-0.5)
    curves(axes[3], data, "batch", ("epoch", "curve"), "b = {}")
    axes[3].set(xscale="symlog", xlabel="epochs", ylabel="validation loss")


def curves(
    axis: Axes, data: xr.Dataset, over: str, names: tuple[str, str], label: str = "{}"
) -> None:
    """A curve of the first seed for each entry of `over`, `names` the variables on both axes."""
    for i, entry in enumerate(data[over].values):
        one = data.sel({over: entry}).isel(seed=0)
        axis.plot(one[names[0]], one[names[1]], lw=1, color=f"C{i}", label=label.format(entry))
    legend(axis, fontsize=6)


def eigenspaces(axis: Axes, run: xr.Dataset, control: xr.Dataset, top: str) -> None:
    """The loss, its parts in the top eigenspaces and in the others, ‖K‖, and a control's loss."""
    time = run["time"]
    axis.plot(time, run["loss"], "k", lw=2.5, alpha=0.35, label="loss")
    axis.plot(time, run["top"], "C3", lw=1, label=top)
    axis.plot(time, run["rest"], "C0", lw=1, label="the others")
    axis.plot(time, control["loss"], "k:", label="loss at ½ η_crit")
    axis.plot(time, run["kernel"] / run["kernel"][0], "C2--", lw=1, label="‖K‖ / initial")
    axis.set(xlabel="steps", ylabel="loss; ‖K‖ / initial", yscale="log", xlim=(0, time[-1]))


def panel_figure(data: xr.Dataset, known: Mapping[str, Panel], top: str, height: float) -> Figure:
    """`eigenspaces` of each panel's first seed, at the large rate and with its control."""
    figure, axes = panels(data.sizes["panel"], columns=3, size=(3.6, height))
    for axis, name in zip(axes, map(str, data["panel"].values), strict=True):
        one, panel = data.sel(panel=name).isel(seed=0), known[name]
        large, control = one.isel(rate=0), one.isel(rate=1)
        eigenspaces(axis, large, control, top)
        axis.set_ylim(1e-3, 2 * float(large["loss"].max().clip(1, 100)))
        equal = "up to" if name == "cyclical" else "="
        multiple, critical = float(large["multiple"]), float(one["critical"])
        rate = f"η {equal} {multiple:.2f} η_crit, η_crit = {critical:.3g}"
        title = f"{panel.network}, {panel.source}\n{one['examples'].item()}\n{rate}"
        axis.set_title(title, fontsize=8)
    shared_legend(axes)
    left = [name for name in known if name not in data["panel"]]
    figure.suptitle(f"not run: {'; '.join(left)}" if left else "", fontsize=8)
    return figure


def critical_rates(axis: Axes, run: xr.Dataset, label: str) -> None:
    """Critical rates of the batches of SGD, and its rate."""
    axis.plot(run["time"], run["critical_rate"], ".", color="C2", ms=3, label=label)
    axis.axhline(float(run["rate"][0]), color="C1", label="η")
    axis.set(xlabel="steps", ylabel="learning rate", yscale="log")
    legend(axis, fontsize=7)
