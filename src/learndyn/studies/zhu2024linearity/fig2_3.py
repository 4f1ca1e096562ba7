"""Fig. 2.3: two bottleneck neurons, and what such neurons do when there are more.

The figure is a drawing of a graph in which two neurons have in-degree 1; its sentence is that the
network still becomes linear as all other widths grow. Appendix A.6 asks that such neurons be few.
Here three networks of two hidden layers are measured: two neurons of the second layer see one
neuron of the first; all of them do, each its own; all of them see the same one. By our own estimate
the second becomes linear too, though its width by Def. 2.2.7 is 1: it is a sum of m small networks
with factors v_i/√m, and its Hessian has their norm, m^(−1/2) times the largest |v_i| w_i² at most,
of order (ln m)^(3/2). What breaks linearity is a shared narrow layer, not a small in-degree.
Exponents are fitted for each seed, and the interval of their mean decides. The quick preset has
smaller widths.

Notes: docs/results/zhu2024linearity/fig2_3/notes.md.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import exponents
from learndyn.studies.zhu2024linearity._drawing import half, over_width, width_axes
from learndyn.studies.zhu2024linearity._model import (
    BETWEEN,
    HALF,
    STAYS,
    D,
    drawn,
    few_links,
    inputs,
    logarithms,
)

TITLE = "Bottleneck neurons: two, a layer each fed by its own, and a layer all fed by one"
DIFFERS = (
    "the figure is a drawing; here networks of width 32 to 256, and to 32,768 where every "
    "neuron of a layer is fed by a neuron of its own"
)
TWO, OWN, ONE = "two", "all, each fed by its own", "all, fed by one"
POWER = 1.5  # of ln m in the largest |v| w² of m
EXPONENT = "exponent of the Hessian norm over width"
CLAIMS = {
    TWO: claim(f"{TWO} bottleneck neurons: {EXPONENT}", "Fig. 2.3", within=BETWEEN),
    ONE: claim(f"bottleneck neurons {ONE}: the norm stays, {EXPONENT}", "App. A.6", within=BETWEEN),
    OWN: claim(f"bottleneck neurons {OWN}: {EXPONENT}", "App. A.6", kind="finding"),
}
DRAWN = (3, 6, 6, 1)  # sizes of the layers in the drawing


def _own(m: int) -> ld.Network:
    """Σ_i v_i tanh(w_i tanh(u_i·x/√d))/√m."""
    shapes = (m, D), (m,), (m,)
    init = lambda key: tuple(
        jax.random.normal(k, shape)
        for k, shape in zip(jax.random.split(key, 3), shapes, strict=True)
    )

    def apply(weights, x):
        u, w, v = weights
        return jnp.tanh(w * jnp.tanh(x @ u.T / math.sqrt(D))) @ v / math.sqrt(m)

    return ld.Network(init, apply, shape=(D,))


NETWORKS = {
    TWO: lambda m: few_links(m, 2),
    ONE: lambda m: ld.MLP([D, 1, m, 1], "tanh"),
    OWN: _own,
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths, those of the sum of small networks, and draws of the weights."""

    widths: tuple[int, ...] = (16, 48, 144)
    own_widths: tuple[int, ...] = (64, 512, 4096)
    seeds: int = 48
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(widths=(32, 64, 128, 256), own_widths=(64, 512, 4096, 32768)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Norms of the output's Hessian at the initial weights."""
    given = [(name, m) for name in (TWO, ONE) for m in params.widths]
    rows = [_norms(params, name, m) for name, m in cases(given, report, end=0.8)]
    own = [_norms(params, OWN, m) for m in cases(params.own_widths, report, begin=0.8)]
    shape = 2, len(params.widths), params.seeds
    norms = {"norm": (("network", "width", "seed"), np.reshape(rows, shape))}
    norms |= {"own_norm": (("own_width", "seed"), np.array(own))}
    coords = {"network": [TWO, ONE], "width": list(params.widths)}
    return xr.Dataset(norms, coords | {"own_width": list(params.own_widths)})


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
    own = data["own_norm"].rename(own_width="width")
    over_width(axes[1], own, OWN, "C2")
    half(axes[1], data["norm"].sel(network=TWO))
    shown = xr.DataArray(np.union1d(data["width"], data["own_width"])[::2], name="width")
    width_axes(axes[1], shown, "spectral norm of the output's Hessian")
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
    """−1/2 for two, at most that up to logarithms where each has its own, no decay for one."""
    found = exponents(data["norm"], "width")
    norm = data["own_norm"].rename(own_width="width")
    own, with_logs = exponents(norm, "width"), HALF + logarithms(norm["width"], POWER)
    mean = lambda values: intervals.of_mean(values, "seeds")
    between = Tolerance(0.0, f"half of the way from {with_logs:.2g}, with (ln m)^(3/2), to 0")
    return [
        CLAIMS[TWO].equals(mean(found.sel(network=TWO)), HALF),
        CLAIMS[ONE].equals(mean(found.sel(network=ONE)), STAYS),
        CLAIMS[OWN].at_most(mean(own), with_logs / 2, between),
    ]
