"""Sec. 7.2: the Hessian at the stationary points, with every eigenvalue and multiplicity.

Predicted spectra against numerical diagonalisation of the full p N × p N Hessian, the ratio of
Eq. 29, and the null directions of zero-error points told apart. Both presets are the same but for
the input dimension of the ratio; the section is analytic and has no size of its own.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.numerics import linalg
from learndyn.numerics.types import Int
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.errata import printed_extreme_ratio
from learndyn.theory.committee.landscape import (
    dimensions,
    flat_directions,
    risk,
    solutions,
    spectra,
    stationary,
)

TITLE = "Spectra of the Hessian at the stationary points, predicted and diagonalised"
EPS = float(np.finfo(float).eps)
ROUNDED = "rounding of the risk, 64 ε (1 + R(0))"
WHAT = ["tangent", "tangent predicted", "other", "other predicted"]
NAMES = {
    "tabula_rasa": "tabula rasa",
    "plateau": "plateau",
    "zero_error": "zero error",
    "aligned": "all aligned to one teacher",
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes N, p, p* that belong together by place, and those of the ratio of Eq. 29."""

    N: tuple[int, ...] = (12, 15, 10, 9)
    p: tuple[int, ...] = (3, 5, 2, 4)
    p_star: tuple[int, ...] = (2, 3, 2, 1)
    N_ratio: int = 12
    p_star_ratio: int = 2
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N_ratio=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Spectra, signs on the plateau, null directions and the risk along them."""
    rng = np.random.default_rng(params.key)
    sizes = list(zip(params.N, params.p, params.p_star, strict=True))
    levels = _spectra(sizes, rng)
    report(0.3)
    null = [_null_counts(size, rng) for size in sizes]
    ratio = _ratios(params.N_ratio, params.p_star_ratio, rng)
    report(0.9)
    along = _along_null_directions(sizes[1], rng)
    report(1.0)
    label = [f"({N}, {p}, {q})" for N, p, q in sizes]
    counts = xr.DataArray(null, dims=("size", "what"), coords={"what": WHAT}, name="null")
    data = xr.merge([levels, counts, ratio, along], join="exact")
    attributes = {"N": params.N_ratio, "p_star": params.p_star_ratio} | along.attrs
    return data.assign_coords(size=label, kind=list(NAMES)).assign_attrs(attributes)


def _spectra(sizes: list[tuple[int, int, int]], rng: np.random.Generator) -> xr.Dataset:
    shape = (len(NAMES), len(sizes), max(N * p for N, p, _ in sizes))
    predicted, measured = np.full(shape, np.nan), np.full(shape, np.nan)
    for k, kind in enumerate(NAMES):
        for i, (N, p, q) in enumerate(sizes):
            values, counts = zip(*spectra.predicted_spectrum(kind, N, p, q), strict=True)
            predicted[k, i, : N * p] = np.repeat(values, counts)
            hessian = risk.hessian(*stationary.realise(_point(kind, p, q), N, rng))
            measured[k, i, : N * p] = np.linalg.eigvalsh(hessian)
    dims = ("kind", "size", "index")
    return xr.Dataset({"predicted": (dims, predicted), "measured": (dims, measured)})


def _point(kind: str, p: Int, p_star: Int) -> stationary.StationaryPoint:
    ranks = {"tabula_rasa": (0, 0), "plateau": (0, p), "zero_error": (p_star, 0), "aligned": (1, 0)}
    return stationary.stationary_point(p, p_star, *ranks[kind])


def _null_counts(size: tuple[int, int, int], rng: np.random.Generator) -> list[int]:
    """Null directions of a zero-error point: along its rotations, and the rest."""
    N, p, q = size
    V, V_star = stationary.realise(_point("zero_error", p, q), N, rng)
    null = dict(linalg.distinct_eigenvalues(risk.hessian(V, V_star)))[0.0]
    tangent = int(np.linalg.matrix_rank(dimensions.rotation_directions(V)))
    predicted = [len(basis) for basis in flat_directions.null_directions(V, V_star)]
    return [tangent, predicted[0], null - tangent, predicted[1]]


def _ratios(N: Int, p_star: Int, rng: np.random.Generator) -> xr.Dataset:
    """Negative over null eigenvalues on the plateau, for every width that has one."""
    widths = range(1, N - p_star + 1)
    predicted = [spectra.negative_to_null_ratio(N, p, p_star) for p in widths]
    counted = []
    for p in widths:
        V, V_star = stationary.realise(_point("plateau", p, p_star), N, rng)
        spectrum = linalg.distinct_eigenvalues(risk.hessian(V, V_star))
        negative = sum(count for value, count in spectrum if value < 0)
        counted.append(negative / dict(spectrum)[0.0])
    table = {"ratio_predicted": ("p", predicted), "ratio": ("p", counted)}
    return xr.Dataset(table, {"p": list(widths)})


def _along_null_directions(size: tuple[int, int, int], rng: np.random.Generator) -> xr.Dataset:
    """Risk along a null direction of each kind; a tangent one is followed on the manifold."""
    N, p, q = size
    V, V_star = stationary.realise(_point("zero_error", p, q), N, rng)
    step, other = (
        np.tensordot(rng.standard_normal(len(basis)), basis, 1) / np.sqrt(len(basis))
        for basis in flat_directions.null_directions(V, V_star)
    )
    h = np.geomspace(0.03, 3, 21)
    moved = [solutions.nearest_weights(V + x * step, V_star) for x in h]
    table = {
        "risk_tangent": ("h", [risk.risk(weights, V_star) for weights in moved]),
        "way_tangent": ("h", [np.linalg.norm(weights - V) for weights in moved]),
        "risk_other": ("h", [risk.risk(V + x * other, V_star) for x in h]),
        "risk_quartic": ("h", flat_directions.quartic_growth(other) * h**4),
    }
    rounding = risk.rounding(risk.risk(0 * V, V_star))
    return xr.Dataset(table, {"h": h}, {"rounding": rounding, "along": str(size)})


def draw(data: xr.Dataset) -> Figure:
    """Four spectra, the ratio of Eq. 29, and the risk along null directions."""
    figure, axes = panels(6, columns=3, size=(4.0, 3.3))
    for axis, kind in zip(axes, NAMES, strict=False):
        _draw_spectrum(axis, data.sel(kind=kind), NAMES[kind])
    axes[0].plot([], [], "o", color="0.3", fillstyle="none", markersize=8, label="predicted")
    axes[0].plot([], [], "o", color="0.3", markersize=3, label="diagonalised")
    legend(axes[0], title="(N, p, p*)", title_fontsize=8)
    _draw_ratio(axes[4], data)
    _draw_risk(axes[5], data)
    return figure


def _draw_spectrum(axis: Axes, data: xr.Dataset, title: str) -> None:
    for i, size in enumerate(data["size"].values):
        row, color = data.sel(size=size).dropna("index"), f"C{i}"
        values, counts = np.unique(row["predicted"].round(9), return_counts=True)
        axis.vlines(values, 0.5, counts, color=color, linewidth=1, label=size)
        axis.plot(values, counts, "o", color=color, fillstyle="none", markersize=8)
        values, counts = np.unique(row["measured"].round(9), return_counts=True)
        axis.plot(values, counts, "o", color=color, markersize=3)
    axis.set(yscale="log", ylim=(0.5, 200), xlabel="eigenvalue", ylabel="multiplicity")
    axis.set_title(title, fontsize=9)


def _draw_ratio(axis: Axes, data: xr.Dataset) -> None:
    N, q = data.attrs["N"], data.attrs["p_star"]
    axis.plot(data["p"], data["ratio_predicted"], color="0.3", label="Eq. 29")
    axis.plot(data["p"], data["ratio"], "o", markersize=4, label="counted")
    axis.plot([N], [_printed_extreme(data)], "x", color="C3", label="printed, at p = N")
    axis.axvline(N - q, color="0.6", linestyle=":", label="p = N − p*")
    axis.set(xlabel=f"student units p (N = {N}, p* = {q})", ylabel="negative / null eigenvalues")
    axis.set_title("plateau", fontsize=9)
    legend(axis)


def _draw_risk(axis: Axes, data: xr.Dataset) -> None:
    axis.loglog(data["h"], data["risk_quartic"], color="0.3", label=r"predicted, $\propto h^4$")
    axis.loglog(data["h"], data["risk_other"], "o", markersize=4, label="not tangent")
    flat = np.maximum(data["risk_tangent"], EPS / 4)
    axis.loglog(data["h"], flat, "s", markersize=4, label="on the manifold")
    axis.axhline(data.attrs["rounding"], color="0.6", linestyle=":", label="rounding")
    axis.set(xlabel="step h along a null direction", ylabel="population risk")
    axis.set_title(f"zero error, {data.attrs['along']}", fontsize=9)
    legend(axis)


def check(data: xr.Dataset) -> list[Claim]:
    """Spectra to rounding, counts exactly."""
    spectra_claims = [_spectrum(data.sel(kind=kind), name) for kind, name in NAMES.items()]
    return [*spectra_claims, *_ratio(data), *_null(data)]


def _spectrum(data: xr.Dataset, name: str) -> Claim:
    rows = [data.sel(size=size).dropna("index") for size in data["size"].values]
    gaps = [abs(row["measured"] - row["predicted"]).max() for row in rows]
    errors = [linalg.eigenvalue_error(row["predicted"].values) for row in rows]
    said = f"{name}: all p N eigenvalues, largest deviation in units of p N ε |H|"
    because = "backward error of the eigenvalue solver"
    return claim(said, "Sec. 7.2.2").equals(
        np.max(np.divide(gaps, errors)), 0.0, within=1.0, because=because
    )


def _ratio(data: xr.Dataset) -> list[Claim]:
    N, last = data.attrs["N"], data.isel(p=-1)
    gap, extreme = abs(data["ratio"] - data["ratio_predicted"]).max(), _printed_extreme(data)
    rounded = {"within": 4 * EPS, "because": "rounding of a quotient of integers"}
    said = f"plateau: negative/null = p*/(N − p* − p/2 − 1/2), p = 1 … N − p*, N = {N}: deviation"
    end = f"the ratio grows up to p = N − p* = {int(last['p'])}, the last width with a plateau"
    printed = f"up to p = N, where p*/(N/2 − p* − 1/2) = {extreme:.4g}"
    return [
        claim(said, "Eq. 29").equals(gap, 0.0, **rounded),
        claim(end, "Sec. 7.2.2")
        .erratum(printed, extreme)
        .equals(last["ratio"], last["ratio_predicted"], **rounded),
    ]


def _printed_extreme(data: xr.Dataset) -> float:
    return printed_extreme_ratio(data.attrs["N"], data.attrs["p_star"])


def _null(data: xr.Dataset) -> list[Claim]:
    counted = lambda name: data["null"].sel(what=name)
    wrong = lambda name: (counted(name) != counted(f"{name} predicted")).sum()
    quartic = abs(data["risk_other"] - data["risk_quartic"]) / (1 + data["risk_quartic"])
    exact = {"within": 0.0, "because": "integers"}
    rounded = {"within": data.attrs["rounding"], "because": ROUNDED}
    source, where = "Sec. 7.2.3", "zero error: p p* − p*(p*+1)/2 null directions are tangent to the"
    tangent = f"{where} manifold: sizes where the rank of the rotations differs"
    other = "zero error: (N−p*)(p−p*) null directions are not: sizes where the rest differs"
    along = "along a tangent direction, followed on the manifold, the risk stays zero: largest"
    rest = "along the others the risk is (|U|⁴ + 2 |UUᵀ|²) h⁴/p²: largest relative deviation"
    return [
        claim(tangent, source).equals(wrong("tangent"), 0.0, **exact),
        claim(other, source).equals(wrong("other"), 0.0, **exact),
        claim(along, source, kind="theorem").equals(
            abs(data["risk_tangent"]).max(), 0.0, **rounded
        ),
        claim(rest, source, kind="finding").equals(quartic.max(), 0.0, **rounded),
    ]
