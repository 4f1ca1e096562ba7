"""Fig. 2.2: the largest relative change of the tangent kernel in training, against width.

A DenseNet of three layers (Eqs. A.5-A.6), each weight dropped with probability 1/2, learns ten
examples by gradient descent; the figure shows max_t ‖K_t − K_0‖/‖K_0‖ for widths 2 … 2¹², five runs
each, beside m^(−1/2). The text does not name the activation; here it is relu. Each run has its own
graph, weights and, where they are drawn, inputs.

As printed, on images of d = 3072 pixels, this is not reproduced: every neuron sees the input, which
makes up nearly all of its in-degree d + m or d + 2m, so that the network is nearly linear in few
weights at small m, and the change grows with m. At d = 16 the power law is seen. It is an upper
bound: the exponent becomes steeper with width, towards −1; the Hessian norm carries the −1/2 (study
hessian_norm). The paper preset takes images of CIFAR-10, classes 0 and 2 (those of chapter 3; this
one names none), and reads the kernel at five times instead of all; the quick preset has normal
inputs of the same size in their place, fewer widths, and fewer steps there, since normal inputs are
nearly orthogonal. Rates are half of the critical one, 1/λ_max(K_0) for the loss ½ Σ r².

Notes: docs/results/zhu2024linearity/fig2_2/notes.md.
"""

import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics.lanczos import formed
from learndyn.plotting import legend, panels
from learndyn.problems.readers.files import cifar10
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import exponents
from learndyn.studies.zhu2024linearity._drawing import half, over_width, width_axes
from learndyn.studies.zhu2024linearity._model import (
    BETWEEN,
    HALF,
    drawn,
)

TITLE = "The change of the tangent kernel in training against width, half of the links dropped"
DIFFERS = (
    "10 images, widths and 5 runs are the thesis's; activation, rate and classes are not "
    "stated, here relu, half the critical rate, 0 and 2; normal inputs of d = 16 are added"
)
EXAMPLES, PIXELS, SMALL = 10, 3072, 16
CLASSES = (0, 2)
MEAN, SCALE = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # of the channels
WHEN = (0.0, 1 / 64, 1 / 16, 1 / 4, 1.0)  # parts of the training at which the kernel is read
ROWS = 2**21  # weights up to which the Jacobian is formed
POWER = 0.9  # chance with which an effect that is there is told from none
CONVERGED = 1e-2  # of the first loss
CLAIMS = {
    "converges": claim("training converges at all widths: fraction of runs", "Section 2.3",
                       within=Tolerance(0.0, f"a last loss below {CONVERGED:g} of the first",
                                        PLANNED)),
    "printed": claim(f"d = {PIXELS}, as printed: exponent of the kernel's change over width",
                     "Fig. 2.2", within=BETWEEN),
    "grows": claim(f"d = {PIXELS}: the change grows with the width, exponent", "Fig. 2.2",
                   kind="finding", rate=POWER,
                   because="a sign"),
    "small": claim(f"d = {SMALL}: exponent of the kernel's change over width", "Fig. 2.2",
                   within=BETWEEN),
    "steeper": claim(f"d = {SMALL}: the change falls faster in the end, exponent over the wider "
                     "half of the widths", "Fig. 2.2", kind="finding", rate=POWER,
                     because="an order"),
}  # fmt: skip
WEAK = {CLAIMS["small"].statement: 0.5}  # it held at one of two keys


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths at d = 16 and at d = 3072, steps there, where the latter's inputs are from."""

    widths: tuple[int, ...] = (8, 32, 128, 512)
    pixel_widths: tuple[int, ...] = (4, 16, 64)
    steps: int = 192
    pixel_steps: int = 48
    data: str = "normal"
    runs: int = 12
    key: int = 0


_ALL = tuple(2**i for i in range(1, 13))
PRESETS = {
    "quick": Params(),
    "paper": Params(
        widths=_ALL[2:], pixel_widths=_ALL, steps=384, pixel_steps=384, data="cifar10", runs=5
    ),
}
_REASON = "the input makes up nearly all of every in-degree: the change grows with the width"
FAILS = {preset: {CLAIMS["printed"].statement: _REASON} for preset in PRESETS}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Largest changes, and whether the loss has fallen, by dimension, width and run."""
    small = _sweep(params, SMALL, params.widths, params.steps, report, 0.0)
    large = _sweep(params, PIXELS, params.pixel_widths, params.pixel_steps, report, 0.5)
    rename = {"width": "pixel_width", "change": "pixel_change", "converged": "pixel_converged"}
    return xr.merge([small, large.rename(rename)]).assign_attrs(data=params.data)


def _sweep(
    params: Params, d: int, widths: tuple[int, ...], steps: int, report: Report, begin: float
) -> xr.Dataset:
    rows = []
    for m in cases(widths, report, begin=begin, end=begin + 0.5):
        first = _network(d, m, params.key)
        keys = range(params.key, params.key + params.runs)
        rows.append([_trained(params, first, key, steps) for key in keys])
    change, loss = np.moveaxis(np.array(rows), -1, 0)
    over = ("width", "seed")
    table = {"change": (over, change), "converged": (over, loss < CONVERGED)}
    return xr.Dataset(table, {"width": list(widths)})


def _network(d: int, m: int, key: int) -> ld.DenseNet:
    return ld.DenseNet([d, m, m, 1], "relu", dropped=0.5, key=key)


def _trained(params: Params, first: ld.DenseNet, key: int, steps: int) -> tuple[float, float]:
    """The largest change of the kernel in one run, and its last loss over the first."""
    d, m = first.widths[:2]
    # The key is part of what a program is compiled for: runs differ in their links alone.
    network = eqx.tree_at(lambda n: n.links, first, _network(d, m, key).links)
    x = _inputs(params, d, key)
    data = ld.Dataset(x, np.repeat([1.0, -1.0], EXAMPLES // 2), loss=ld.SquaredLoss(EXAMPLES / 2))
    model, kernel = drawn(network, (d,), key), lambda model: _kernel(model, x)
    rate = 1 / np.linalg.eigvalsh(kernel(model))[-1]
    system = ld.System(data, network, ld.GradientDescent(rate))
    start, times = ld.start(system, weights=model.weights), [steps * part for part in WHEN]
    record = ld.simulate(system, times, start=start, probes={"kernel": kernel})
    K = record["kernel"].values[0]
    changes = [np.linalg.norm(each - K[0], 2) for each in K]
    error = record["error"].values[0]
    return float(max(changes) / np.linalg.norm(K[0], 2)), float(error[-1] / error[0])


def _kernel(model: Any, x: np.ndarray) -> Any:
    """The kernel, by its products where the rows of the Jacobian would not fit into memory."""
    if model.size <= ROWS:
        return ld.probes.ntk(model, x)
    return formed(ld.probes.kernel_operator(model, x))


def _inputs(params: Params, d: int, key: int) -> np.ndarray:
    """Normal numbers, or the first images of two classes, each channel standardised."""
    if d != PIXELS or params.data != "cifar10":
        return np.random.default_rng([key, 1]).standard_normal((EXAMPLES, d))
    found, each = cifar10(), EXAMPLES // 2
    chosen = np.concatenate([np.flatnonzero(found.labels == c)[:each] for c in CLASSES])
    mean, scale = (np.reshape(of, (3, 1, 1)) for of in (MEAN, SCALE))
    return ((found.pixels[chosen] / 255 - mean) / scale).reshape(EXAMPLES, -1)


def draw(data: xr.Dataset) -> Figure:
    """Mean change and its standard error, at both dimensions."""
    figure, (axis,) = panels(1, size=(5.6, 4.2))
    name = "CIFAR-10 images" if data.attrs["data"] == "cifar10" else "normal inputs"
    rows = (("change", "width", f"d = {SMALL}, normal inputs"),
            ("pixel_change", "pixel_width", f"d = {PIXELS}, {name}"))  # fmt: skip
    for number, (variable, width, label) in enumerate(rows):
        over_width(axis, data[variable].rename({width: "width"}), label, f"C{number}")
    half(axis, data["change"])
    width_axes(axis, data["pixel_width"], r"$\max_t \|K_t - K_0\| / \|K_0\|$")
    axis.set_xscale("log", base=2)
    legend(axis)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Convergence; the exponent at both dimensions; that it becomes steeper."""
    change, pixels = data["change"], data["pixel_change"].rename(pixel_width="width")
    wide = change.isel(width=slice(change.sizes["width"] // 2, None))
    small, printed, wider = (exponents(values, "width") for values in (change, pixels, wide))
    share = (data["converged"].mean() + data["pixel_converged"].mean()) / 2
    return [
        CLAIMS["converges"].equals(share, 1.0),
        CLAIMS["printed"].equals(intervals.of_mean(printed), HALF),
        CLAIMS["grows"].at_least(intervals.of_mean(printed), 0.0),
        CLAIMS["small"].equals(intervals.of_mean(small), HALF),
        CLAIMS["steeper"].at_most(intervals.of_mean(wider), HALF),
    ]
