"""Panels on the cosine between updates of node perturbation and SGD (Figs. 4A, S4A)."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation import _curves
from learndyn.studies.hiratani2022perturbation._intervals import surely_below
from learndyn.studies.hiratani2022perturbation._tasks import SIGMA, Task
from learndyn.studies.statistics import exponents

LAYERS = ("first", "last")
CLAIMS = {
    "predicted": claim("cosine in the {layer} layer is as Eq. 28, averaged over the batch, "
                       "predicts: their ratio, mean over widths and levels", "Eq. 28, {source}",
                       because="the prediction leaves out terms smaller by 1/nodes of the layer, "
                       "which has at least {nodes}"),
    "falls": claim("cosine of the first layer's updates falls with the hidden width: "
                        "exponent", "{source}"),
    "faster": claim("it falls faster than the cosine of the last layer, whose number of nodes "
                         "is fixed: difference of exponents", "{source}"),
}  # fmt: skip


def cosines(
    params: Any, task: Task, networks: Mapping[int, Any], points: int, of: str
) -> xr.Dataset:
    """Cosines on the way of SGD, where it first reaches each level.

    Args:
        params: the study's. Read are `cosine_rate`, `cosine_batch` (of SGD, and of the updates
            that are compared), `cosine_steps`, `levels` of the test set, `draws` of node
            perturbation that are averaged, `seeds` and `key`.
        task: what is learnt.
        networks: hidden width → network.
        points: at which is measured; at each, all weights are held.
        of: "test" for an error that falls to the levels, "accuracy" for one that rises.

    Returns:
        `cosine_measured` and `cosine_predicted` (width, seed, level, layer), missing where a level
        is not reached.
    """
    rule = _curves.gradient(params.cosine_batch)(params.cosine_rate)
    steps, rows = _curves.steps_of(params.cosine_steps, points), []
    for network in networks.values():
        options = {"key": params.key, "seeds": params.seeds, "probes": {"weights": _flat}}
        curve = _curves.trained(task, network, rule, steps, **options)
        rows.append(_at_levels(params, task, network, curve, of))
    data = xr.concat(rows, xr.Variable("width", list(networks)))
    return data.assign_coords(layer=list(LAYERS), level=list(params.levels))


def _flat(model: ld.Model) -> Any:
    return ravel_pytree(model.weights)[0]


def _at_levels(params: Any, task: Task, network: Any, curve: xr.Dataset, of: str) -> xr.Dataset:
    """Both cosines where each seed reaches each level, (seed, level, layer)."""
    shape = curve.sizes["seed"], len(params.levels), len(LAYERS)
    predicted, measured = np.full(shape, np.nan), np.full(shape, np.nan)
    ends = lambda tree: np.stack([tree[0].weight, tree[-1].weight])
    for number, level in enumerate(params.levels):
        index, ever = _curves.first_index(curve[of], level, above=of == "accuracy")
        for seed in np.flatnonzero(ever):
            weights = curve["weights"].isel(seed=seed, step=int(index[seed])).values
            model = _model(task, network, weights)
            batch = _batch(task, int(seed), params.cosine_batch)
            options = {"sigma": SIGMA, "draws": params.draws, "key": params.key}
            cosine = ld.probes.measured_update_cosine(model, *batch, **options)
            predicted[seed, number] = ends(ld.probes.update_cosine(model, *batch).mean)
            measured[seed, number] = ends(cosine.mean)
    dims = ("seed", "level", "layer")
    return xr.Dataset({"cosine_predicted": (dims, predicted), "cosine_measured": (dims, measured)})


def _model(task: Task, network: Any, flat: np.ndarray) -> ld.Model:
    like = network.like(task.problem.input_shape)
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape), like)
    leaves, structure = jax.tree.flatten(zeros)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = [p.reshape(z.shape) for p, z in zip(np.split(flat, cuts), leaves, strict=True)]
    return ld.Model(network, jax.tree.unflatten(structure, parts))


def _batch(task: Task, number: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch of its own for every seed: the noise is the same, which compiles once."""
    index = (number * batch + np.arange(batch)) % len(task.problem.x)
    x = task.problem.x[index]
    return (x / 255.0 if x.dtype == np.uint8 else x), task.problem.y[index]


def draw_cosines(axis: Axes, data: xr.Dataset, title: str, unit: str) -> None:
    """Measured cosines as markers on the prediction, against the hidden width."""
    width = data["width"].values
    for number, layer in enumerate(LAYERS):
        for level, style in zip(data["level"].values, ("-", "--"), strict=False):
            one, color = data.sel(layer=layer, level=level), f"C{number}"
            label = f"{layer} layer, {level:g}{unit}"
            predicted, measured = one["cosine_predicted"], one["cosine_measured"]
            axis.plot(width, predicted.mean("seed"), style, color=color, label=label)
            error = measured.std("seed", ddof=1) / np.sqrt(one.sizes["seed"])
            axis.errorbar(width, measured.mean("seed"), error, fmt="o", ms=3.5, color=color)
    axis.set(yscale="log", xlabel="hidden width", ylabel="cosine with SGD", title=title)
    _curves.few_ticks(axis, width)
    low, high = axis.get_ylim()
    axis.set_ylim(low / (high / low) ** 0.6, high)  # room below for the legend
    legend(axis, {"measured": {"marker": "o", "ms": 3.5}}, fontsize=7, loc="lower left")


def check_cosines(data: xr.Dataset, source: str) -> list[Claim]:
    """The prediction, and how the cosine depends on the width at the first level."""
    measured = data["cosine_measured"]
    slopes = exponents(measured.isel(level=0), "width")
    first, last = (slopes.sel(layer=layer) for layer in LAYERS)
    ratios = (measured / data["cosine_predicted"]).mean(["width", "level"])
    rows = []
    for layer, nodes in zip(LAYERS, (data["width"].min(), data.attrs["outputs"]), strict=True):
        ratio, fields = ratios.sel(layer=layer), {"layer": layer, "nodes": int(nodes)}
        sentence = CLAIMS["predicted"].format(source=source, **fields)
        rows.append(sentence.equals(intervals.of_mean(ratio, "seeds"), 1.0, 1 / int(nodes)))
    return [
        *rows,
        surely_below(CLAIMS["falls"], first, 0.0, source=source),
        surely_below(CLAIMS["faster"], first - last, 0.0, source=source),
    ]
