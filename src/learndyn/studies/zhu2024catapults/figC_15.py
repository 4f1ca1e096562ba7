"""Fig. C.15: pictures of the AGOP after catapults, beside that of the target.

The runs of Fig. 4.8 (a): x₁x₂ learned by full-batch descent whose rate is raised k times. Shown is
the AGOP on the training inputs at the smallest validation loss, over its largest entry, in the
corner of the first inputs, with its alignment with the exact EGOP, whose only two entries are on
the diagonal. Two numbers of a picture are claimed to grow from no raise to the most, by pairs of
the same seed and Student's t: the alignment, and the share of the trace in the two inputs on which
the target depends. With the most raises these must have the largest entries of the diagonal for
every seed. The quick preset is smaller.

Notes: docs/results/zhu2024catapults/figC_15/notes.md.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import PLANNED, Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._cases import PAPER, SHALLOW, Sizes, drawn_case
from learndyn.studies.zhu2024catapults._data import polynomial
from learndyn.studies.zhu2024catapults._descent import descents
from learndyn.studies.zhu2024catapults._ordering import positive
from learndyn.studies.zhu2024catapults.fig4_8 import SHARES

TITLE = "Pictures of the AGOP after catapults, beside that of the target"
DIFFERS = (
    "three raises of the rate, the first of the six in App. C.6, in units of η_crit; no biases; "
    "entries over the largest one instead of within 0 to 1; the number of runs is not stated, "
    "here 5"
)
TASK = "rank2"
CLAIMS = {
    "alignment": claim("catapults bring the AGOP to that of the target: mean gain in alignment",
                       "Fig. C.15 (a)"),
    "trace": claim("catapults bring the AGOP into the target's two inputs: mean gain in its "
                   "trace", "Fig. C.15 (a)", kind="finding"),
    "largest": claim("with the most raises the target's inputs are the largest of the diagonal, "
                     "seeds", "Fig. C.15 (a)", kind="finding", because="all seeds", rate=PLANNED),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params(Sizes):
    """Steps between raises of the rate, how many inputs are shown, and seeds."""

    lengths: tuple[int, ...] = (40, 60, 60, 240)
    shown: int = 10
    seeds: int = 5
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(**dataclasses.asdict(PAPER), lengths=(50, 100, 70, 380)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The AGOP by seed and number of raises, and the EGOP."""
    rows = [_seed(params, params.key + i) for i in cases(range(params.seeds), report)]
    target = ld.probes.egop(polynomial(TASK, params.dim)).value
    data = xr.concat(rows, "seed").assign(egop=(("input", "other"), target))
    return data.assign_attrs(size=params.shallow_label, shown=params.shown)


def _seed(params: Params, seed: int) -> xr.Dataset:
    task, model = drawn_case(TASK, params, seed)
    x = task.data.x
    probes = {"agop": lambda model: ld.probes.agop(model, x)}
    run = descents(task, model, SHARES[TASK in SHALLOW], params.lengths, probes=probes)
    return run[["agop", "catapults"]].rename(agop_1="input", agop_2="other")


def draw(data: xr.Dataset) -> Figure:
    """The corner of the target's matrix and of those of one seed's networks."""
    figure, axes = panels(1 + data.sizes["raises"], columns=3, size=(2.3, 2.5))
    number, size = data.attrs["shown"], data.attrs["size"]
    image = _picture(axes[0], data["egop"], number, "target")
    cosines = _alignments(data).isel(seed=0)
    for axis, k in zip(axes[1:], data["raises"].values, strict=True):
        title = f"{k} raises: alignment {float(cosines.sel(raises=k)):.2f}"
        _picture(axis, data["agop"].sel(raises=k).isel(seed=0), number, title)
    figure.colorbar(image, ax=axes, label="entry / largest", shrink=0.8)
    figure.suptitle(f"AGOP of the first {number} inputs; x₁x₂, {size}, one seed", fontsize=9)
    return figure


def _picture(axis: Any, matrix: xr.DataArray, shown: int, title: str) -> Any:
    values = matrix.values[:shown, :shown] / np.abs(matrix.values).max()
    edge = 0.5, shown + 0.5
    image = axis.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, extent=(*edge, *edge[::-1]))
    axis.grid(visible=False)
    ticks = range(2, shown + 1, 2)
    axis.set(xlabel="input", ylabel="input", xticks=ticks, yticks=ticks)
    axis.set_title(title, fontsize=8)
    return image


def check(data: xr.Dataset) -> list[Claim]:
    """What the pictures show, in numbers."""
    gain = lambda values: values.isel(raises=-1) - values.isel(raises=0)
    diagonal = xr.DataArray(
        np.diagonal(data["agop"].transpose(..., "input", "other"), axis1=-2, axis2=-1),
        dims=(*(d for d in data["agop"].dims if d not in ("input", "other")), "input"),
    )
    target = np.diagonal(data["egop"].values) > 0  # the inputs on which it depends
    inside, outside = diagonal.isel(input=target), diagonal.isel(input=~target)
    trace = inside.sum("input") / diagonal.sum("input")
    largest = (inside.min("input") > outside.max("input")).isel(raises=-1).mean()
    return [
        positive(CLAIMS["alignment"], gain(_alignments(data))),
        positive(CLAIMS["trace"], gain(trace)),
        CLAIMS["largest"].equals(largest, 1.0),
    ]


def _alignments(data: xr.Dataset) -> xr.DataArray:
    each = lambda matrix: ld.probes.alignment(matrix, data["egop"].values)
    both = [["input", "other"]]
    return xr.apply_ufunc(each, data["agop"], input_core_dims=both, vectorize=True)
