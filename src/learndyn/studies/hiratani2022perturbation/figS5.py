"""Fig. S5: a network of three convolutions learns CIFAR-10, or small digits.

Three layers of 3 × 3 windows and one dense layer to sigmoid outputs; the loss is ½ |x_K − x*|².
The 8192 units before the outputs, of which the caption speaks, are 32 channels of 16 × 16 pixels:
one of the layers has a stride of 2, here the first, since the paper does not say which. A:
learning curves at fixed rates. B: weight decay.

The paper preset has CIFAR-10 in its binary version: the training batches that are there, of which
the record says how many images. The quick preset needs no file: it has scikit-learn's digits of 8
× 8 pixels, and says so. Sizes and rates of the quick preset were chosen in trials with other
seeds.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim
from learndyn.studies.hiratani2022perturbation import _verdicts
from learndyn.studies.hiratani2022perturbation._curves import (
    Counted,
    at_rates,
    draw_curves,
    perturbed,
    trained,
)
from learndyn.studies.hiratani2022perturbation._decay import regularised
from learndyn.studies.hiratani2022perturbation._intervals import surely_above
from learndyn.studies.hiratani2022perturbation._tasks import images
from learndyn.studies.registry import Report

TITLE = "Node perturbation of a convolutional network: curves, weight decay"
SOURCE = "Fig. S5{}, Appendix C"
CHANCE = 0.1


@dataclasses.dataclass(frozen=True)
class Params:
    """The figure's settings.

    Attributes:
        data: "cifar10" or "digits".
        rows: images to train on, at most; 0 for all.
        channels: of each of the three convolutions.
        stride: of each.
        batch: examples a step.
        rates, steps, points: of A.
        decays: η_d of B, at the largest rate.
        seeds: of every case.
        key: of the first seed.
    """

    data: str = "digits"
    rows: int = 500
    channels: int = 4
    stride: tuple[int, ...] = (2, 2, 1)
    batch: int = 50
    rates: tuple[float, ...] = (0.04, 0.2)
    steps: int = 2000
    points: int = 15
    decays: tuple[float, ...] = (1e-3, 3e-3)
    seeds: int = 10
    key: int = 0


PRESETS = {
    "quick": Params(),
    # The paper goes on for longer, and does not state the convention of its rates.
    "paper": Params(
        data="cifar10",
        rows=10_000,
        channels=32,
        stride=(2, 1, 1),
        batch=100,
        rates=(1e-3, 3e-3, 1e-2),
        steps=20_000,
        points=40,
        decays=(1e-5, 1e-4, 1e-3),
        seeds=5,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Both panels."""
    task = images(params.data, params.rows, flat=False)
    done = Counted(len(params.rates) + len(params.decays), report)
    net = ld.CNN(
        [params.channels] * 3, 3, task.outputs, "relu", parameterisation="standard", bias=True,
        output="sigmoid", stride=params.stride,
    )  # fmt: skip
    given: dict[str, Any] = {"key": params.key, "seeds": params.seeds}
    rule = perturbed(params.batch)
    curves = at_rates(
        task, net, rule, params.rates, params.steps, params.points, done=done, **given
    )
    rules = regularised(params.rates[-1], params.batch, params.decays, normalised=False)
    rows = [curves.isel(rate=-1, drop=True)]  # without decay, as it is
    for decay in list(rules)[1:]:
        rows.append(trained(task, net, rules[decay], curves["step"].values, **given))
        done()
    decayed = xr.concat([row[["test", "accuracy"]] for row in rows], xr.Variable("cure", [*rules]))
    decayed = decayed.rename(test="decay_test", accuracy="decay_accuracy")
    data = xr.merge([curves[["test", "accuracy"]], decayed], join="exact")
    return data.assign_attrs(data=task.name)


def draw(data: xr.Dataset) -> Figure:
    """Panels A and B."""
    figure, axes = panels(2, size=(4.8, 3.5))
    for number, rate in enumerate(data["rate"].values):
        draw_curves(axes[0], data["accuracy"].sel(rate=rate), f"C{number}", f"η = {rate:g}")
    for number, cure in enumerate(data["cure"].values):
        said = "no decay" if cure == "neither" else f"η_d = {str(cure).split()[1]}"
        color = "k" if cure == "neither" else f"C{number}"
        draw_curves(axes[1], data["decay_accuracy"].sel(cure=cure), color, said)
    for axis, title in zip(axes, "AB", strict=True):
        axis.set(xscale="log", xlabel="step", ylabel="test accuracy", title=title)
        axis.axhline(CHANCE, color="0.6", ls=":")
        legend(axis, fontsize=7)
    figure.suptitle(data.attrs["data"], fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """It learns; a large rate loses what was learnt; decay holds it."""
    end = data["accuracy"].isel(rate=0, step=-1).values
    lost = data["accuracy"].max("step") - data["accuracy"].isel(step=-1)
    more = (lost.isel(rate=-1) - lost.isel(rate=0)).values
    one = lambda cure: xr.Dataset({"test": data["decay_test"].sel(cure=cure, drop=True)})
    decays = [str(c) for c in data["cure"].values if c != "neither"]
    chosen = min(decays, key=lambda c: float(np.mean(one(c)["test"].isel(step=-1))))
    learns = "the network learns: accuracy on the test set at the end, at the smallest rate"
    loses = (
        "at the largest rate more of the best accuracy is lost at the end than at the smallest: "
        "difference"
    )
    ends = "with the best of the decays the error ends below that without"
    return [
        surely_above(learns, SOURCE.format("A"), end, 2 * CHANCE),
        surely_above(loses, SOURCE.format("A"), more, 0.0),
        _verdicts.cured(one("neither"), one(chosen), SOURCE.format("B"), ends),
    ]
