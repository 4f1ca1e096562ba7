"""Fig. C.15: pictures of the AGOP after catapults, beside that of the target.

The runs of Fig. 4.8 (a): x₁x₂ learned by full-batch descent whose rate is raised k times. Shown is
the AGOP on the training inputs at the least validation loss, over its largest entry, in the corner
of the first inputs; its alignment with the exact EGOP stands beside it. The EGOP has two entries,
both on the diagonal.

Two numbers of a picture are claimed: the alignment, and the share of its trace that lies in the two
inputs on which the target depends. Both grow from no raise to the most, by pairs of the same seed
and Student's t. That these two inputs have the largest entries of the diagonal is asked of every
seed with the most raises. All that was written before the run.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound
from learndyn.studies.zhu2024catapults._cases import PAPER, SHALLOW, Sizes, model_of, task_of
from learndyn.studies.zhu2024catapults._data import polynomial
from learndyn.studies.zhu2024catapults._descent import descents
from learndyn.studies.zhu2024catapults._ordering import LEVEL, t_of
from learndyn.studies.zhu2024catapults.fig4_8 import SHARES

TITLE = "Pictures of the AGOP after catapults, beside that of the target"
SOURCE, TASK = "Fig. C.15 (a)", "rank2"


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
    said = f"d = {params.dim}, n = {params.n}, width {params.shallow}"
    data = xr.concat(rows, "seed").assign(egop=(("input", "other"), target))
    return data.assign_attrs(size=said, shown=params.shown)


def _seed(params: Params, seed: int) -> xr.Dataset:
    task = task_of(TASK, params, seed, params.key)
    model, x = model_of(TASK, task, params, seed), task.data.x
    probes = {"agop": lambda model: ld.probes.agop(model, x)}
    found = descents(task, model, SHARES[TASK in SHALLOW], params.lengths, probes=probes)
    return found[["agop", "catapults"]].rename(agop_1="input", agop_2="other")


def draw(data: xr.Dataset) -> Figure:
    """The corner of the target's matrix and of those of one seed's networks."""
    figure, axes = panels(1 + data.sizes["raises"], columns=5, size=(2.3, 2.5))
    number, size = data.attrs["shown"], data.attrs["size"]
    drawn = _picture(axes[0], data["egop"], number, "target")
    cosines = _alignments(data).isel(seed=0)
    for axis, k in zip(axes[1:], data["raises"].values, strict=True):
        title = f"{k} raises: alignment {float(cosines.sel(raises=k)):.2f}"
        _picture(axis, data["agop"].sel(raises=k).isel(seed=0), number, title)
    figure.colorbar(drawn, ax=axes, label="entry / largest", shrink=0.8)
    figure.suptitle(f"AGOP of the first {number} inputs; x₁x₂, {size}, one seed", fontsize=9)
    return figure


def _picture(axis: Any, matrix: xr.DataArray, shown: int, title: str) -> Any:
    values = matrix.values[:shown, :shown] / np.abs(matrix.values).max()
    edge = 0.5, shown + 0.5
    drawn = axis.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, extent=(*edge, *edge[::-1]))
    axis.grid(visible=False)
    axis.set(xlabel="input", ylabel="input")
    axis.set_title(title, fontsize=8)
    return drawn


def check(data: xr.Dataset) -> list[Claim]:
    """What the pictures show, in numbers."""
    count = data.sizes["seed"]
    bound = student_bound(count, level=LEVEL, sides=1)
    why = f"Student's one-sided bound, {count} pairs, 1 %"
    gain = lambda values: t_of(values.isel(raises=-1) - values.isel(raises=0))
    aligned = "catapults bring the AGOP to that of the target: t of the gain in alignment"
    inside = "catapults bring the AGOP into the target's two inputs: t of the gain in its trace"
    largest = "with the most raises the target's inputs are the largest of the diagonal, seeds"
    return [
        claim(aligned, SOURCE).at_least(gain(_alignments(data)), bound, because=why),
        claim(inside, SOURCE, kind="finding").at_least(gain(_inside(data)), bound, because=why),
        claim(largest, SOURCE, kind="finding")
        .equals(_largest(data).mean(), 1.0, within=0.0, because="all of them"),
    ]  # fmt: skip


def _alignments(data: xr.Dataset) -> xr.DataArray:
    each = lambda matrix: ld.probes.alignment(matrix, data["egop"].values)
    both = [["input", "other"]]
    return xr.apply_ufunc(each, data["agop"], input_core_dims=both, vectorize=True)


def _diagonals(data: xr.Dataset) -> tuple[xr.DataArray, np.ndarray]:
    """Diagonals of the AGOPs over `input`, and on which inputs the target depends."""
    rows = xr.apply_ufunc(
        lambda a: np.diagonal(a, axis1=-2, axis2=-1), data["agop"],
        input_core_dims=[["input", "other"]], output_core_dims=[["input"]],
    )  # fmt: skip
    return rows, np.diagonal(data["egop"].values) > 0


def _inside(data: xr.Dataset) -> xr.DataArray:
    """The share of each trace in the target's inputs."""
    rows, target = _diagonals(data)
    return rows.isel(input=target).sum("input") / rows.sum("input")


def _largest(data: xr.Dataset) -> xr.DataArray:
    """Whether the target's inputs are the largest of the diagonal, by seed, after most raises."""
    rows, target = _diagonals(data.isel(raises=[-1]))
    least, most = rows.isel(input=target).min("input"), rows.isel(input=~target).max("input")
    return (least > most).astype(float).isel(raises=0)
