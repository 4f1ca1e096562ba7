"""Fig. 2.3: two bottleneck neurons, and what such neurons do when there are more.

The figure is a drawing of a graph in which two neurons have in-degree 1; its sentence is that the
network still becomes linear as all other widths grow. Appendix A.6 asks that such neurons be few.
Here three networks of two hidden layers are measured: two neurons of the second layer see one
neuron of the first; half of them do, each its own; all of them see the same one. By our own
reckoning the second still becomes linear: its Hessian is that of a sum of m/2 small networks with
factors v_i/√m, whose norm is the largest of them, m^(−1/2) times the largest |v_i| ~ √(2 ln m).
What breaks linearity is a shared narrow layer, not a small in-degree. The quick preset has
smaller widths. Tolerances were written before the first run.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024linearity._drawing import half, over_width, width_axes
from learndyn.studies.zhu2024linearity._model import (
    BECAUSE,
    HALF,
    LEVEL,
    D,
    drawn,
    exponent_bound,
    exponents,
    few_links,
    inputs,
)

TITLE = "Bottleneck neurons: two, half of a layer, and all fed by one"
TWO, OWN, ONE = "two", "half, each fed by its own", "all, fed by one"
NETWORKS = {
    TWO: lambda m: few_links(m, 2),
    OWN: lambda m: few_links(m, m // 2),
    ONE: lambda m: ld.MLP([D, 1, m, 1], "tanh"),
}
DRAWN = (3, 6, 6, 1)  # sizes of the layers in the drawing


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths, and draws of the weights."""

    widths: tuple[int, ...] = (16, 48, 144)
    seeds: int = 10
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widths=(32, 64, 128, 256), seeds=12)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Norms of the output's Hessian at the initial weights."""
    given = [(name, m) for name in NETWORKS for m in params.widths]
    rows = [_norms(params, name, m) for name, m in cases(given, report)]
    shape = len(NETWORKS), len(params.widths), params.seeds
    coords = {"network": list(NETWORKS), "width": list(params.widths)}
    return xr.Dataset({"norm": (("network", "width", "seed"), np.reshape(rows, shape))}, coords)


def _norms(params: Params, name: str, m: int) -> list[float]:
    network, found = NETWORKS[name](m), []
    for key in range(params.key, params.key + params.seeds):
        x = inputs(name, 1, key)
        model = drawn(network, x.shape[1:], key)
        found.append(ld.probes.output_hessian_norm(model, x).largest)
    return found


def draw(data: xr.Dataset) -> Figure:
    """The graph with two bottleneck neurons; norms against width."""
    figure, axes = panels(2, size=(5.0, 3.8))
    _graph(axes[0])
    for number, name in enumerate(data["network"].values):
        over_width(axes[1], data["norm"].sel(network=name), name, f"C{number}")
    half(axes[1], data["norm"].sel(network=TWO))
    width_axes(axes[1], data["width"], "spectral norm of the output's Hessian")
    legend(axes[1], title="neurons of in-degree 1", title_fontsize=8)
    return figure


def _graph(axis: Axes) -> None:
    """Layers from left to right; the two bottleneck neurons are ringed."""
    places = [[(l, (i + 0.5) / n) for i in range(n)] for l, n in enumerate(DRAWN)]
    for l in range(1, len(DRAWN)):
        for j, end in enumerate(places[l]):
            single = l == 2 and j < 2
            for begin in [places[1][j]] if single else places[l - 1]:
                style = {"color": "C3", "lw": 1.4} if single else {"color": "0.7", "lw": 0.5}
                axis.plot(*zip(begin, end, strict=True), zorder=1, **style)
    for l, layer in enumerate(places):
        colors = ["C3" if l == 2 and j < 2 else "0.3" for j in range(len(layer))]
        axis.scatter(*zip(*layer, strict=True), s=60, c="white", edgecolors=colors, zorder=2)
    axis.set(xlabel="layer", yticks=[], ylim=(0, 1), title="two neurons of in-degree 1")
    axis.set_xticks(range(len(DRAWN)), ["input", "1", "2", "output"])
    axis.grid(False)


def check(data: xr.Dataset) -> list[Claim]:
    """−1/2 for two, at most that up to a logarithm for half of them, and no decay for one."""
    found, widths = exponents(data["norm"]), data["width"]
    said = "bottleneck neurons: exponent of the Hessian norm over width"
    two, own = found.sel(network=TWO), found.sel(network=OWN)
    more = found.sel(network=ONE) - two
    log = np.sqrt(np.log(widths.values))
    slack = float(exponents(xr.DataArray(log, {"width": widths.values}, "width")))
    because = f"{BECAUSE}; the largest of m/2 normal numbers, √ln m, adds {slack:.2g}"
    given = {"because": BECAUSE, "rate": 1 - LEVEL}
    return [
        claim(f"{TWO} {said}", "Fig. 2.3").equals(
            two.mean(), HALF, within=exponent_bound(two, widths), **given
        ),
        claim(f"{OWN}: {said}", "App. A.6", kind="finding").at_most(
            own.mean(), HALF + slack, within=exponent_bound(own, widths), because=because,
            rate=1 - LEVEL,
        ),
        claim(f"{ONE}: {said}, less that of two", "App. A.6").equals(
            more.mean(), -HALF, within=exponent_bound(more, widths), **given
        ),
    ]  # fmt: skip
