"""Sec. 7.2: the Hessian at the stationary points, with every eigenvalue and multiplicity.

Predicted spectra against numerical diagonalisation of the full p N × p N Hessian, the ratio of
Eq. 29, and the two kinds of null directions at zero-error points. Both presets are the same but for
the input dimension of the ratio; the section is analytic and has no size of its own.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.numerics import linalg
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report
from learndyn.theory.committee.errata import printed_extreme_ratio
from learndyn.theory.committee.landscape import dimensions, risk, solutions, spectra, stationary
from learndyn.theory.committee.landscape.flat_directions import null_directions, quartic_growth

TITLE = "Spectra of the Hessian at the stationary points, predicted and diagonalised"
DIFFERS = "Sec. 7.2 is analytic and states no sizes; here N = 9 to 15, and 20 for Eq. 29"
EPS = float(np.finfo(float).eps)
NAMES = {"tabula_rasa": "tabula rasa", "plateau": "plateau", "zero_error": "zero error",
         "aligned": "all aligned to one teacher"}  # fmt: skip
INTEGERS = Tolerance(0.0, "integers")
SOLVER = Tolerance(1.0, "backward error of the eigenvalue solver")
QUOTIENT = Tolerance(4 * EPS, "rounding of a quotient of integers")
ROUNDED = "rounding of the risk, 64 ε (1 + R(0))"
CLAIMS = {
    "spectrum": claim("{point}: all p N eigenvalues, largest deviation in units of p N ε |H|",
                      "Sec. 7.2.2", within=SOLVER),
    "ratio": claim("plateau: negative/null eigenvalues = p*/(N − p* − p/2 − 1/2), p = 1 … N − p*, "
                   "N = {N}: largest deviation", "Eq. 29", within=QUOTIENT),
    "extreme": claim("the ratio grows up to p = N − p* = {p}, the last width with a plateau",
                     "Sec. 7.2.2", within=QUOTIENT)
    .erratum("up to p = N, where p*/(N/2 − p* − 1/2) = {printed:.4g}"),
    "tangent": claim("zero error: p p* − p*(p*+1)/2 null directions are tangent to the manifold: "
                     "sizes where the rank differs", "Sec. 7.2.3", within=INTEGERS),
    "other": claim("zero error: (N−p*)(p−p*) null directions are not tangent: sizes where the "
                   "count differs", "Sec. 7.2.3", within=INTEGERS),
    "flat": claim("the risk stays zero along a tangent direction, followed on the manifold: "
                  "largest risk", "Sec. 7.2.3", kind="theorem", because=ROUNDED),
    "quartic": claim("along the other null directions the risk is [|U|⁴ + 2 |UUᵀ|²] h⁴/p²: largest "
                     "relative deviation", "Sec. 7.2.3", kind="finding", because=ROUNDED),
}  # fmt: skip


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
    what = ["tangent", "tangent predicted", "other", "other predicted"]
    null = [_null_counts(*size, rng) for size in sizes]
    counts = xr.DataArray(null, dims=("size", "what"), coords={"what": what}, name="null")
    ratio = _ratios(params.N_ratio, params.p_star_ratio, rng)
    report(0.9)
    along = _along_null_directions(*sizes[1], rng)
    report(1.0)
    data = xr.merge([levels, counts, ratio, along], join="exact")
    data = data.assign_coords(size=[f"({N}, {p}, {q})" for N, p, q in sizes], kind=list(NAMES))
    attributes = {"N": params.N_ratio, "p_star": params.p_star_ratio} | along.attrs
    return data.assign_attrs(attributes)


def _weights(kind: str, N: int, p: int, p_star: int, rng: np.random.Generator):
    """A random student V at a stationary point, and its teacher V*."""
    ranks = {"tabula_rasa": (0, 0), "plateau": (0, p), "zero_error": (p_star, 0), "aligned": (1, 0)}
    return stationary.realise(stationary.stationary_point(p, p_star, *ranks[kind]), N, rng)


def _spectra(sizes: list[tuple[int, int, int]], rng: np.random.Generator) -> xr.Dataset:
    shape = (2, len(NAMES), len(sizes), max(N * p for N, p, _ in sizes))
    predicted, measured = np.full(shape, np.nan)
    for k, kind in enumerate(NAMES):
        for i, (N, p, q) in enumerate(sizes):
            values, counts = zip(*spectra.predicted_spectrum(kind, N, p, q), strict=True)
            predicted[k, i, : N * p] = np.repeat(values, counts)
            hessian = risk.hessian(*_weights(kind, N, p, q, rng))
            measured[k, i, : N * p] = np.linalg.eigvalsh(hessian)
    dims = ("kind", "size", "index")
    return xr.Dataset({"predicted": (dims, predicted), "measured": (dims, measured)})


def _null_counts(N: int, p: int, p_star: int, rng: np.random.Generator) -> list[int]:
    """Null directions of a zero-error point: along its rotations, and the rest."""
    V, V_star = _weights("zero_error", N, p, p_star, rng)
    null = dict(linalg.distinct_eigenvalues(risk.hessian(V, V_star)))[0.0]
    tangent = int(np.linalg.matrix_rank(dimensions.rotation_directions(V)))
    predicted = [len(basis) for basis in null_directions(V, V_star)]
    return [tangent, predicted[0], null - tangent, predicted[1]]


def _ratios(N: int, p_star: int, rng: np.random.Generator) -> xr.Dataset:
    """Negative over null eigenvalues on the plateau, for every width that has one."""
    widths, counted = range(1, N - p_star + 1), []
    for p in widths:
        hessian = risk.hessian(*_weights("plateau", N, p, p_star, rng))
        spectrum = linalg.distinct_eigenvalues(hessian)
        negative = sum(count for value, count in spectrum if value < 0)
        counted.append(negative / dict(spectrum)[0.0])
    predicted = [spectra.negative_to_null_ratio(N, p, p_star) for p in widths]
    table = {"ratio_predicted": ("p", predicted), "ratio": ("p", counted)}
    return xr.Dataset(table, {"p": list(widths)})


def _along_null_directions(N: int, p: int, p_star: int, rng: np.random.Generator) -> xr.Dataset:
    """Risk along a null direction of each kind; a tangent one is followed on the manifold."""
    V, V_star = _weights("zero_error", N, p, p_star, rng)
    step, other = (
        np.tensordot(rng.standard_normal(len(basis)), basis, 1) / np.sqrt(len(basis))
        for basis in null_directions(V, V_star)
    )
    h = np.geomspace(0.03, 3, 21)
    moved = [solutions.nearest_weights(V + x * step, V_star) for x in h]
    table = {
        "risk_tangent": ("h", [risk.risk(weights, V_star) for weights in moved]),
        "way_tangent": ("h", [np.linalg.norm(weights - V) for weights in moved]),
        "risk_other": ("h", [risk.risk(V + x * other, V_star) for x in h]),
        "risk_quartic": ("h", quartic_growth(other) * h**4),
    }
    rounding = risk.rounding(risk.risk(0 * V, V_star))
    return xr.Dataset(table, {"h": h}, {"rounding": rounding, "along": str((N, p, p_star))})


def draw(data: xr.Dataset) -> Figure:
    """Four spectra, the ratio of Eq. 29, and the risk along null directions."""
    figure, axes = panels(6, columns=3, size=(4.0, 3.3))
    for axis, kind in zip(axes, NAMES, strict=False):
        _draw_spectrum(axis, data.sel(kind=kind), NAMES[kind])
    axes[0].plot([], [], "o", color="0.3", fillstyle="none", markersize=8, label="predicted")
    axes[0].plot([], [], "o", color="0.3", markersize=3, label="diagonalised")
    legend(axes[0], title="(N, p, p*)", title_fontsize=8)
    N, q, axis = data.attrs["N"], data.attrs["p_star"], axes[4]
    axis.plot(data["p"], data["ratio_predicted"], color="0.3", label="Eq. 29")
    axis.plot(data["p"], data["ratio"], "o", markersize=4, label="counted")
    axis.plot([N], [printed_extreme_ratio(N, q)], "x", color="C3", label="printed, at p = N")
    axis.axvline(N - q, color="0.6", linestyle=":", label="p = N − p*")
    units = f"student units p (N = {N}, p* = {q})"
    finish(axis, units, "negative / null eigenvalues", "plateau")
    h, flat, axis = data["h"], np.maximum(data["risk_tangent"], EPS / 4), axes[5]
    axis.loglog(h, data["risk_quartic"], color="0.3", label=r"predicted, $\propto h^4$")
    axis.loglog(h, data["risk_other"], "o", markersize=4, label="not tangent")
    axis.loglog(h, flat, "s", markersize=4, label="on the manifold")
    axis.axhline(data.attrs["rounding"], color="0.6", linestyle=":", label="rounding")
    title = f"zero error, {data.attrs['along']}"
    finish(axis, "step h along a null direction", "population risk", title)
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


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Spectra to rounding, counts exactly."""
    N, last, rounding = data.attrs["N"], data.isel(p=-1), data.attrs["rounding"]
    ratio, printed = data["ratio"], printed_extreme_ratio(N, data.attrs["p_star"])
    extreme = CLAIMS["extreme"].format(p=int(last["p"]), printed=printed).erratum(value=printed)
    null = {name: data["null"].sel(what=name).values for name in data["what"].values}
    wrong = lambda name: (null[name] != null[f"{name} predicted"]).sum()
    quartic = abs(data["risk_other"] - data["risk_quartic"]) / (1 + data["risk_quartic"])
    return [
        *(
            CLAIMS["spectrum"].format(point=name).equals(_spectrum_gap(data.sel(kind=kind)), 0.0)
            for kind, name in NAMES.items()
        ),
        CLAIMS["ratio"].format(N=N).equals(abs(ratio - data["ratio_predicted"]).max(), 0.0),
        extreme.equals(last["ratio"], last["ratio_predicted"]),
        CLAIMS["tangent"].equals(wrong("tangent"), 0.0),
        CLAIMS["other"].equals(wrong("other"), 0.0),
        CLAIMS["flat"].equals(abs(data["risk_tangent"]).max(), 0.0, rounding),
        CLAIMS["quartic"].equals(quartic.max(), 0.0, rounding),
    ]


def _spectrum_gap(data: xr.Dataset) -> float:
    """The largest deviation over sizes, in units of the solver's error at each."""
    rows = [data.sel(size=size).dropna("index") for size in data["size"].values]
    gaps = [abs(row["measured"] - row["predicted"]).max() for row in rows]
    errors = [linalg.eigenvalue_error(row["predicted"].values) for row in rows]
    return float(np.max(np.divide(gaps, errors)))
