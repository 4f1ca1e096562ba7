"""Fig. 2.2: the largest relative change of the tangent kernel in training, against width.

A DenseNet of three layers (Eqs. A.5-A.6), each weight dropped with probability 1/2, learns ten
examples by gradient descent; the figure shows max_t ‖K_t − K_0‖/‖K_0‖ for widths 2 … 2¹², five
runs each, beside m^(−1/2). The text does not name the activation; here it is relu. Each run has a
graph, weights and, where they are drawn, inputs of its own.

As printed, on images of d = 3072 pixels, it does not come out: every neuron sees the input, which
makes up nearly all of its in-degree d + m or d + 2m, so that the network is nearly linear in few
weights at small m, and the change grows with m. At d = 16 the law is seen. It is an upper bound:
the exponent becomes steeper with width, towards −1; the Hessian norm carries the −1/2 (study
hessian_norm). The paper preset takes images of CIFAR-10, classes 0 and 2; the quick preset has
normal inputs of the same size in their place, fewer widths, and fewer steps there, since normal
inputs are nearly orthogonal. Rates are half of the critical one, 1/λ_max(K_0) for the loss ½ Σ
r². Tolerances were written before the first run, after earlier measurements at other keys (−0.48
over 2³ … 2⁹ at d = 16, 0 … 0.004 and rising at d = 3072). The first run of the quick preset had
five runs a width and widths from 2 at d = 3072: intervals were too wide to tell exponents from 0.
Twelve runs, fewer steps (losses had fallen by 10⁻¹²), growth that has to exceed chance, and a
steeper law judged against −1/2 in place of the narrower half of the widths are from after it.
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
from learndyn.problems.files import cifar10
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_bound
from learndyn.studies.zhu2024linearity._drawing import half, over_width, width_axes
from learndyn.studies.zhu2024linearity._model import (
    BECAUSE,
    HALF,
    LEVEL,
    drawn,
    exponent_bound,
    exponents,
)

TITLE = "The change of the tangent kernel in training against width, half of the links dropped"
EXAMPLES, PIXELS, SMALL = 10, 3072, 16
CLASSES = (0, 2)
MEAN, SCALE = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # of the channels
WHEN = (0.0, 1 / 64, 1 / 16, 1 / 4, 1.0)  # parts of the training at which the kernel is read
ROWS = 2**21  # weights up to which the Jacobian is formed
POWER = 0.9  # chance with which an effect that is there is told from none
CONVERGED = 1e-2  # of the first loss


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
PRINTED = f"d = {PIXELS}, as printed: exponent of the kernel's change over width"
_REASON = "the input makes up nearly all of every in-degree: the change grows with the width"
FAILS = {preset: {PRINTED: _REASON} for preset in PRESETS}


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
    if d == PIXELS and params.data == "cifar10":
        return _images()
    return np.random.default_rng([key, 1]).standard_normal((EXAMPLES, d))


def _images() -> np.ndarray:
    """The first images of the two classes, standardised channel by channel."""
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


def check(data: xr.Dataset) -> list[Claim]:
    """Convergence; the exponent at both dimensions; that it becomes steeper."""
    change = data["change"]
    pixels = data["pixel_change"].rename(pixel_width="width")
    found, printed = exponents(change), exponents(pixels)
    given = {"because": BECAUSE, "rate": 1 - LEVEL}
    share = (data["converged"].mean() + data["pixel_converged"].mean()) / 2
    return [
        claim("training converges at all widths: share of runs", "Section 2.3")
        .equals(share, 1.0, within=0.0, because=f"a last loss below {CONVERGED:g} of the first"),
        claim(PRINTED, "Fig. 2.2").equals(
            printed.mean(), HALF, within=exponent_bound(printed, pixels["width"]), **given
        ),
        claim(f"d = {PIXELS}: the change grows with the width, exponent", "Fig. 2.2",
              kind="finding").at_least(
            printed.mean(), mean_bound(printed, "seed", LEVEL), rate=POWER,
            because=f"above zero by more than chance, Student t at {LEVEL:.0%}",
        ),
        claim(f"d = {SMALL}: exponent of the kernel's change over width", "Fig. 2.2").equals(
            found.mean(), HALF, within=exponent_bound(found, change["width"]), **given
        ),
        _steeper(change),
    ]  # fmt: skip


def _steeper(change: xr.DataArray) -> Claim:
    wide = change.isel(width=slice(change.sizes["width"] // 2, None))
    found = exponents(wide)
    said = (
        f"d = {SMALL}: the change falls faster at last, exponent over the wider half of the widths"
    )
    return claim(said, "Fig. 2.2", kind="finding").at_most(
        found.mean(), HALF - mean_bound(found, "seed", LEVEL), rate=POWER,
        because=f"below −1/2 by more than chance, Student t at {LEVEL:.0%}",
    )  # fmt: skip
