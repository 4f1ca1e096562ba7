"""The Hessian norm of the output against width, architecture by architecture.

Thm 2.3.6 (fully connected and any graph of large in-degrees), App. A.4 (skip connections), A.5
(convolutions), A.6 (bottlenecks); Section 2.3 says that relu should behave alike. With a non-linear
output the norm does not decay. The theorems give upper bounds with powers of log m; here the norm
is shown to follow a power whose exponent is −1/2 rather than 0, where the norm stays. Exponents are
fitted for each seed; the interval of their mean decides. The width of the convolution is four times
its number of channels: its in-degrees are nine times the latter. With a non-linear output the norm
is about |σ''(f)| ‖∇f‖², which is small for some inputs: it is averaged over several. It also has a
decaying part σ'‖H_z‖, with H_z the Hessian of the pre-activation. The quick preset has fewer and
smaller widths.

Notes: docs/results/zhu2024linearity/hessian_norm/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
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
    NETWORKS,
    STAYS,
    drawn,
    inputs,
)

TITLE = "The Hessian norm of the output against width, for eight architectures"
DIFFERS = "theorems without a figure; here widths 32 to 256 and 32 seeds"
WIDE, BENT = "fully connected", "non-linear output"
FLAT = ("bottleneck layer", BENT)
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
CLAIMS = {
    "decays": claim("{network}: exponent of the Hessian norm over width", "{source}",
                    within=BETWEEN),
    "stays": claim("{network}: the norm stays, exponent over width", "{source}", within=BETWEEN),
    "weyl": claim(f"{BENT}: largest distance of the norm from |σ''| ‖∇z‖², over σ' ‖H_z‖",
                  "Section 2.4", kind="theorem", within=Tolerance(1e-6, "Weyl's inequality")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Widths, multiples of four; draws of the weights; inputs where the output is non-linear."""

    widths: tuple[int, ...] = (16, 48, 144)
    seeds: int = 32
    examples: int = 4
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widths=(32, 64, 128, 256), examples=6)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Norms at the initial weights."""
    given = [(name, m) for name in NETWORKS for m in params.widths]
    rows = [_norms(params, name, m) for name, m in cases(given, report)]
    shape = len(NETWORKS), len(params.widths), params.seeds, 3
    norm, rank_one, linear = np.moveaxis(np.reshape(rows, shape), -1, 0)
    over, last = ("network", "width", "seed"), list(NETWORKS).index(BENT)
    parts = {"rank_one": (over[1:], rank_one[last]), "linear_part": (over[1:], linear[last])}
    coords = {"network": list(NETWORKS), "width": list(params.widths)}
    return xr.Dataset({"norm": (over, norm), **parts}, coords)


def _norms(params: Params, name: str, m: int) -> list[tuple[float, float, float]]:
    network, count = NETWORKS[name](m), params.examples if name == BENT else 1
    found = []
    for key in range(params.key, params.key + params.seeds):
        x = inputs(name, count, key)
        model = drawn(network, x.shape[1:], key)
        norm = float(ld.probes.output_hessian_norm(model, x).values.mean())
        parts = _parts(model, x, NETWORKS[WIDE](m)) if name == BENT else (np.nan, np.nan)
        found.append((norm, *parts))
    return found


def _parts(model: ld.Model, x: np.ndarray, before: ld.MLP) -> tuple[float, float]:
    """|σ''| ‖∇z‖² and σ' ‖H_z‖ for the output f = tanh z, means over the inputs.

    σ' = 1 − f², σ'' = −2 f (1 − f²), and ∇f = σ' ∇z.
    """
    f, slopes = model.outputs(x), np.diag(ld.probes.ntk(model, x))
    norms = ld.probes.output_hessian_norm(ld.Model(before, model.weights), x).values[0, :, 0]
    return float(np.mean(2 * np.abs(f) * slopes / (1 - f**2))), float(np.mean((1 - f**2) * norms))


def draw(data: xr.Dataset) -> Figure:
    """Geometric means over seeds and their spread, those that decay and those that do not."""
    figure, axes = panels(2, size=(5.2, 4.2))
    for number, name in enumerate(data["network"].values):
        values = data["norm"].sel(network=name)
        exponent = float(exponents(values, "width").mean())
        over_width(axes[int(name in FLAT)], values, f"{name}: {exponent:.2f}", f"C{number}")
    for axis, title in zip(axes, ("transition to linearity", "none"), strict=True):
        half(axis, data["norm"].sel(network=WIDE))
        width_axes(axis, data["width"], "spectral norm of the output's Hessian", title)
        legend(axis, fontsize=7, title="exponents", title_fontsize=7)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The exponent −1/2, or 0 where the norm stays."""
    found, rows = exponents(data["norm"], "width"), []
    for name, source in SOURCES.items():
        key, expected = ("stays", STAYS) if name in FLAT else ("decays", HALF)
        mean = intervals.of_mean(found.sel(network=name), "seeds")
        rows.append(CLAIMS[key].format(network=name, source=source).equals(mean, expected))
    apart = np.abs(data["norm"].sel(network=BENT) - data["rank_one"]) / data["linear_part"]
    return [*rows, CLAIMS["weyl"].at_most(apart.max(), 1.0)]
