"""Trajectories of networks at fixed rates beside their recursions (Figs. 1, 3)."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.hiratani2022perturbation._model import mean_start


def trajectories(
    system: ld.System,
    times: np.ndarray,
    starts: list[ld.Start],
    key: int,
    variables: Sequence[str],
    theories: Sequence[tuple[ld.System, str]],
    over: str,
) -> dict:
    """Every seed by the exact chain of its Gram matrix, and recursions from the mean start.

    The variables, names of order parameters, become `<name>` (seed, time) and `theory_<name>`
    (over, time) of a data set; a theory is a system and the order of its recursion.
    """
    runs = ld.simulate(system, times, starts=starts, key=key, method="reduced")
    solved = [
        ld.solve(each, times, start=ld.start(each, state=mean_start()), order=order)
        for each, order in theories
    ]
    table: dict = {name: (("seed", "time"), runs[name].values[:, 0]) for name in variables}
    for name in variables:
        values = np.stack([record[name].values for record in solved])
        table[f"theory_{name}"] = ((over, "time"), values)
    return table


def draw_mean(axis: Axes, one: xr.Dataset, color: str, label: str, unit: float = 1.0) -> None:
    """The mean error of the seeds over time, and that of order "finite"."""
    mean = one["epsilon"].mean("seed", skipna=False)
    axis.plot(one["time"] / unit, mean, color=color, lw=1.4, label=label)
    axis.plot(one["time"] / unit, _theory(one, "epsilon", "finite"), "k--", lw=0.8)


def draw_plane(axis: Axes, one: xr.Dataset, color: str, orders: dict[str, str]) -> None:
    """Norm and error of every seed, and those of some orders, each with its line style."""
    for seed in range(one.sizes["seed"]):
        axis.plot(one["alpha"][seed], one["epsilon"][seed], color=color, lw=0.6, alpha=0.6)
    for order, style in orders.items():
        line = _theory(one, "alpha", order), _theory(one, "epsilon", order)
        axis.plot(*line, color="black", ls=style, lw=0.8)


def _theory(one: xr.Dataset, name: str, order: str) -> xr.DataArray:
    values = one[f"theory_{name}"]
    return values.sel({values.dims[0]: order})


def lowest(one: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """ε and α of every seed where its error is lowest."""
    epsilon, alpha = (one[name].transpose("seed", "time").values for name in ("epsilon", "alpha"))
    at = np.nanargmin(epsilon, axis=1)
    rows = np.arange(len(at))
    return epsilon[rows, at], alpha[rows, at]


def when(one: xr.Dataset, name: str) -> dict[str, np.ndarray]:
    """When each curve is lowest, and when back at its first value or diverged; NaN for never."""
    curves, times = np.atleast_2d(one[name].values), one["time"].values
    bottom = np.nanargmin(curves, axis=1)
    gone = ~(curves < curves[:, :1]) & (np.arange(len(times)) > bottom[:, None])
    back = np.where(gone.any(axis=1), times[np.argmax(gone, axis=1)], np.nan)
    return {"lowest": times[bottom], "back": back}


def draw_landmarks(axis: Axes, data: xr.Dataset) -> None:
    """When errors are lowest and when they are back, of seeds and of order "finite"."""
    rates, finite = data["rate"].values, data.sel(theory="finite")
    rows = ("lowest", "o", "C0", "lowest error"), ("back", "s", "C3", "error is back")
    for name, marker, color, label in rows:
        seeds = np.stack([when(data.sel(rate=rate), "epsilon")[name] for rate in rates])
        theory = [when(finite.sel(rate=rate), "theory_epsilon")[name] for rate in rates]
        axis.plot(rates, seeds, marker, color=color, ms=3, alpha=0.5)
        axis.plot(rates, theory, "kx--", ms=4, lw=0.8)
        axis.plot([], [], marker, color=color, ms=4, label=label)
    axis.set(xlabel="learning rate η/η*", ylabel="steps", yscale="log")
    axis.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axis.minorticks_off()
    legend(axis, {"recursion, finite": {"color": "black", "ls": "--"}}, fontsize=7)


def finish(
    axes: Sequence[Axes],
    xlabel: str,
    errors: tuple[float, float],
    norms: tuple[float, float],
    styles: dict[str, dict],
    loc: str,
) -> None:
    """Labels, limits and legends of the first two panels: mean errors, and norm and error."""
    axes[0].set(xlabel=xlabel, ylabel="error ε, mean of the seeds", yscale="log", ylim=errors)
    axes[1].set(xlabel="squared norm of input weights α", ylabel="error ε", yscale="log")
    axes[1].set(xlim=norms, ylim=errors)
    dashed = {"recursion, finite": {"color": "black", "ls": "--", "lw": 1}}
    legend(axes[0], dashed, fontsize=7, loc=loc)
    legend(axes[1], {"every network": {"lw": 1}, **dashed, **styles}, fontsize=7)


def lettered(axes: Sequence[Axes]) -> None:
    """Titles A, B, … at the left of the panels."""
    for axis, letter in zip(axes, "ABCD", strict=False):
        axis.set_title(letter, loc="left", fontweight="bold")
