"""The Hessian norm of the output against width, architecture by architecture.

Thm 2.3.6 (fully connected and any graph of large in-degrees), App. A.4 (skip connections), A.5
(convolutions), A.6 (bottlenecks); section 2.3 says that relu should behave alike. A non-linear
output has no decay. The theorems give upper bounds with powers of log m; what is checked is that
the norm follows m^(−1/2) itself, draw by draw. Exponents are fitted for each seed, and the mean
over seeds is judged. The width of the convolution is four times its channels: its in-degrees are
nine times these. Under a non-linear output the norm is about |σ''(f)| ‖∇f‖², which is small
wherever f happens to be: it is averaged over several inputs. The quick preset has fewer and
smaller widths. Tolerances were written before the first run.
"""

import dataclasses

import numpy as np
import xarray as xr
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
    NETWORKS,
    drawn,
    exponent_bound,
    exponents,
    inputs,
)

TITLE = "The Hessian norm of the output against width, for eight architectures"
WIDE, FLAT = "fully connected", ("bottleneck layer", "non-linear output")
SOURCES = {
    "fully connected": "Thm 2.3.6",
    "fully connected, relu": "Section 2.3",
    "skip connections": "Thm A.4.1",
    "two bottleneck neurons": "Fig. 2.3, App. A.6",
    "bottleneck layer, repaired by links": "App. A.6",
    "convolution": "Thm A.5.1",
    "bottleneck layer": "App. A.6",
    "non-linear output": "Section 2.4",
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths, multiples of four; draws of the weights; inputs where the output is non-linear."""

    widths: tuple[int, ...] = (16, 48, 144)
    seeds: int = 8
    examples: int = 6
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widths=(32, 64, 128, 256), seeds=10, examples=8)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Norms at the initial weights."""
    given = [(name, m) for name in NETWORKS for m in params.widths]
    rows = [_norms(params, name, m) for name, m in cases(given, report)]
    shape = len(NETWORKS), len(params.widths), params.seeds
    coords = {"network": list(NETWORKS), "width": list(params.widths)}
    return xr.Dataset({"norm": (("network", "width", "seed"), np.reshape(rows, shape))}, coords)


def _norms(params: Params, name: str, m: int) -> list[float]:
    network, count = NETWORKS[name](m), params.examples if name == "non-linear output" else 1
    keys = [params.key + seed for seed in range(params.seeds)]
    sets = [inputs(name, count, key) for key in keys]
    models = [drawn(network, sets[0].shape[1:], key) for key in keys]
    norm = lambda model, x: ld.probes.output_hessian_norm(model, x).values.mean()
    return [float(norm(model, x)) for model, x in zip(models, sets, strict=True)]


def draw(data: xr.Dataset) -> Figure:
    """Geometric means over seeds and their spread, those that decay and those that do not."""
    figure, axes = panels(2, size=(5.2, 4.2))
    for number, name in enumerate(data["network"].values):
        values = data["norm"].sel(network=name)
        label = f"{name}: {float(exponents(values).mean()):.2f}"
        over_width(axes[int(name in FLAT)], values, label, f"C{number}")
    for axis, title in zip(axes, ("transition to linearity", "none"), strict=True):
        half(axis, data["norm"].sel(network=WIDE))
        width_axes(axis, data["width"], "spectral norm of the output's Hessian", title)
        legend(axis, fontsize=7, title="exponents", title_fontsize=7)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The exponent −1/2, and 1/2 more where the norm stays."""
    norm, widths = data["norm"], data["width"]
    found = exponents(norm)
    wide = found.sel(network=WIDE)
    rows = []
    for name, source in SOURCES.items():
        mine = found.sel(network=name)
        if name not in FLAT:
            said = claim(f"{name}: exponent of the Hessian norm over width", source)
            within = exponent_bound(mine, widths)
            rows.append(
                said.equals(mine.mean(), HALF, within=within, because=BECAUSE, rate=1 - LEVEL)
            )
            continue
        said = claim(f"{name}: the norm stays, exponent less that of fully connected", source)
        more = mine - wide
        within = exponent_bound(more, widths)
        rows.append(said.equals(more.mean(), -HALF, within=within, because=BECAUSE, rate=1 - LEVEL))
    return rows
