"""Panels on the cosine between updates of node perturbation and SGD (Figs. 4A, S4A)."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation._curves import (
    few_ticks,
    first_index,
    gradient,
    trained,
)
from learndyn.studies.hiratani2022perturbation._intervals import (
    LEVEL,
    ends,
    exponents,
    surely_below,
)
from learndyn.studies.hiratani2022perturbation._tasks import SIGMA, Task
from learndyn.studies.statistics import student_bound

LAYERS = ("first", "last")


def cosines(
    task: Task,
    networks: Mapping[int, Any],
    *,
    rate: float,
    batch: int,
    steps: np.ndarray,
    levels: Sequence[float],
    of: str,
    draws: int,
    seeds: int,
    key: int,
) -> xr.Dataset:
    """Cosines on the way of SGD, where it first reaches each level.

    Args:
        task: what is learnt.
        networks: hidden width → network.
        rate: of SGD.
        batch: of SGD, and of the updates that are compared.
        steps: at which is looked.
        levels: of the test set.
        of: "test" for an error that falls to the levels, "accuracy" for one that rises.
        draws: updates of node perturbation that are averaged.
        seeds: how many.
        key: of the first.

    Returns:
        `cosine_measured` and `cosine_predicted` (width, seed, level, layer), missing where a level
        is not reached.
    """
    rows = []
    for network in networks.values():
        given = {"key": key, "seeds": seeds, "probes": {"weights": _flat}}
        curve = trained(task, network, gradient(batch)(rate), steps, **given)
        rows.append(_at_levels(task, network, curve, levels, of, batch, draws, key))
    data = xr.concat(rows, xr.Variable("width", list(networks)))
    return data.assign_coords(layer=list(LAYERS), level=list(levels))


def _flat(model: ld.Model) -> Any:
    return ravel_pytree(model.weights)[0]


def _at_levels(task, network, curve, levels, of, batch, draws, key) -> xr.Dataset:
    """Both cosines where each seed reaches each level, (seed, level, layer)."""
    shape = curve.sizes["seed"], len(levels), len(LAYERS)
    found = {name: np.full(shape, np.nan) for name in ("predicted", "measured")}
    for number, level in enumerate(levels):
        index, ever = first_index(curve[of], level, above=of == "accuracy")
        for seed in np.flatnonzero(ever):
            weights = curve["weights"].isel(seed=seed, step=int(index[seed])).values
            given = *_model(task, network, weights), *_batch(task, int(seed), batch)
            for name, value in _both(given, draws, key).items():
                found[name][seed, number] = value
    return xr.Dataset({f"cosine_{n}": (("seed", "level", "layer"), v) for n, v in found.items()})


def _model(task: Task, network: Any, flat: np.ndarray) -> tuple[ld.Model]:
    like = network.like(task.problem.input_shape)
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape), like)
    leaves, structure = jax.tree.flatten(zeros)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = [p.reshape(z.shape) for p, z in zip(np.split(flat, cuts), leaves, strict=True)]
    return (ld.Model(network, jax.tree.unflatten(structure, parts)),)


def _batch(task: Task, number: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch of its own for every seed: the noise is the same, which compiles once."""
    index = (number * batch + np.arange(batch)) % len(task.problem.x)
    x = task.problem.x[index]
    return (x / 255.0 if x.dtype == np.uint8 else x), task.problem.y[index]


def _both(given: tuple[Any, ...], draws: int, key: int) -> dict[str, np.ndarray]:
    ends = lambda tree: np.stack([tree[0].weight, tree[-1].weight])
    seen = ld.probes.measured_update_cosine(*given, sigma=SIGMA, draws=draws, key=key)
    return {"predicted": ends(ld.probes.update_cosine(*given).mean), "measured": ends(seen.mean)}


def draw_cosines(axis: Axes, data: xr.Dataset, title: str, unit: str) -> None:
    """Measured cosines as markers on the prediction, against the hidden width."""
    for number, layer in enumerate(LAYERS):
        for level, style in zip(data["level"].values, ("-", "--"), strict=False):
            one = data.sel(layer=layer, level=level)
            predicted = one["cosine_predicted"].mean("seed")
            color = f"C{number}"
            axis.plot(
                data["width"],
                predicted,
                style,
                color=color,
                label=f"{layer} layer, {level:g}{unit}",
            )
            error = one["cosine_measured"].std("seed", ddof=1) / np.sqrt(one.sizes["seed"])
            axis.errorbar(data["width"], one["cosine_measured"].mean("seed"), error, fmt="o",
                          ms=3.5, color=color)  # fmt: skip
    axis.set(yscale="log", xlabel="hidden width", ylabel="cosine with SGD", title=title)
    few_ticks(axis, data["width"].values)
    low, high = axis.get_ylim()
    axis.set_ylim(low / (high / low) ** 0.6, high)  # room below for the legend
    legend(axis, {"measured": {"marker": "o", "ms": 3.5}}, fontsize=7, loc="lower left")


def check_cosines(data: xr.Dataset, source: str, outputs: int) -> list[Claim]:
    """The prediction, and how the cosine depends on the width."""
    slopes = {layer: _slopes(data["cosine_measured"].sel(layer=layer)) for layer in LAYERS}
    nodes = {"first": int(data["width"].min()), "last": outputs}
    falls = "cosine of the first layer's updates falls with the hidden width: exponent"
    faster = (
        "it falls faster than that of the last layer, whose nodes stay as many: difference of "
        "exponents"
    )
    return [
        *(_as_predicted(data.sel(layer=layer), layer, nodes[layer], source) for layer in LAYERS),
        surely_below(falls, source, slopes["first"], 0.0),
        surely_below(faster, source, slopes["first"] - slopes["last"], 0.0),
    ]


def check_later(data: xr.Dataset, source: str) -> Claim:
    """Where errors fall to a floor, gradients of examples agree less the more is learnt."""
    first = data["cosine_measured"].sel(layer="first")
    ratio = xr.ufuncs.log(first.isel(level=-1) / first.isel(level=0)).mean("width")
    text = (
        "cosine of the first layer's updates is smaller the more is learnt: logarithm of the ratio "
        "at the later and the earlier level"
    )
    found = surely_below(text, source, ratio.values, 0.0, kind="finding")
    lowest, highest = ends(ratio.values)
    return found.open("the seeds do not say which") if lowest < 0 < highest else found


def _slopes(values: xr.DataArray) -> np.ndarray:
    """The exponent in the width at the first level, by seed."""
    first = values.isel(level=0).transpose("seed", "width")
    return exponents(values["width"].values, first.values)


def _as_predicted(data: xr.Dataset, layer: str, nodes: int, source: str) -> Claim:
    ratio = (data["cosine_measured"] / data["cosine_predicted"]).mean(["width", "level"])
    count = ratio.sizes["seed"]
    chance = student_bound(count, level=LEVEL) * float(ratio.std(ddof=1)) / np.sqrt(count)
    beyond = abs(float(ratio.mean()) - 1) - chance
    text = (
        f"cosine in the {layer} layer is as Eq. 28, averaged over the batch, predicts: relative "
        "distance, mean over widths and levels, beyond Student's t"
    )
    because = f"the prediction leaves out what is smaller by 1/nodes of the layer, at least {nodes}"
    said = claim(text, f"Eq. 28, {source}")
    return said.at_most(beyond, 1 / nodes, because=because, rate=1 - LEVEL)
