"""Sec. 4.2: all families of stationary points, those between the paper's classes too.

The paper lists points inside the span of the teacher and points orthogonal to it. Points with s
directions inside and r outside are stationary as well. They are checked one by one, and a blind
search for zeros of the gradient, which knows of no list, finds them. The quick preset searches
from fewer starts.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.numerics.linalg import eigenvalue_error
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Kind, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.errata import printed_outside_norm
from learndyn.theory.committee.landscape import risk, spectra, stationary

TITLE = "The families of stationary points: the paper's classes and the mixed ones"
EXACT = {"within": 0.0, "because": "integers"}
RANK = 1e-3  # singular values below count as none: far above what a search leaves
ZERO = 1e-12  # a search that ends above found no zero; below, the risk is right to rounding
STYLES = {
    "zero": ("k", "X"),
    "uncorrelated": ("C0", "o"),
    "correlated": ("C2", "s"),
    "zero_error": ("C3", "*"),
    "mixed": ("C1", "D"),
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes N, p, p* by place; the search takes the first of them."""

    N: tuple[int, ...] = (6, 11, 8)
    p: tuple[int, ...] = (3, 5, 2)
    p_star: tuple[int, ...] = (2, 3, 3)
    searches: int = 200
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(searches=2000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Gradient, risk and spectrum at each family, and what a blind search finds."""
    rng = np.random.default_rng(params.key)
    sizes = list(zip(params.N, params.p, params.p_star, strict=True))
    rows = [_family(point, N, rng) for N, p, q in sizes for point in stationary.families(p, q, N)]
    found = [_search(*sizes[0], rng) for _ in cases(range(params.searches), report)]
    table = {name: ("family", [row[name] for row in rows]) for name in rows[0]}
    table |= {f"found_{name}": ("search", [row[name] for row in found]) for name in found[0]}
    attributes = {"N": params.N[0], "p": params.p[0], "p_star": params.p_star[0]}
    return xr.Dataset(table, attrs=attributes)


def _family(point: stationary.StationaryPoint, N: int, rng: np.random.Generator) -> dict:
    V, V_star = stationary.realise(point, N, rng)
    spectrum = np.linalg.eigvalsh(risk.hessian(V, V_star))
    values, counts = zip(*spectra.full_spectrum(point, N), strict=True)
    predicted = np.repeat(values, counts)
    scale, (inside, outside) = np.abs(predicted).max(), stationary.ranks(V, V_star, RANK)
    return {
        **dataclasses.asdict(point),
        "N": N,
        "kind": point.kind,
        "inside": inside,
        "outside": outside,
        "gradient": np.abs(risk.gradient(V, V_star)).max(),
        "risk_computed": risk.risk(V, V_star),
        "risk_zero": risk.risk(0 * V, V_star),
        "negative": spectra.negative_directions(point, N),
        "negative_counted": int(np.sum(spectrum < -1e-9 * scale)),
        "spectrum_gap": np.abs(spectrum - predicted).max() / eigenvalue_error(predicted),
    }


def _search(N: int, p: int, p_star: int, rng: np.random.Generator) -> dict:
    """What a blind search found: ranks, risk, largest norm and what is left of the gradient."""
    V, V_star, left = stationary.search(N, p, p_star, rng)
    s, r = stationary.ranks(V, V_star, RANK)
    largest = float(np.linalg.norm(V, 2) ** 2)
    return {"s": s, "r": r, "risk": risk.risk(V, V_star), "left": left, "largest": largest}


def draw(data: xr.Dataset) -> Figure:
    """Risks of all families, their negative directions, and the finds of the search."""
    figure, axes = panels(3, columns=3, size=(4.1, 3.5))
    p, q = int(data["p"].max()), int(data["p_star"][int(data["p"].argmax("family"))])
    shown = data.isel(family=((data["p"] == p) & (data["p_star"] == q)).values)
    for kind, (color, marker) in STYLES.items():
        rows = shown.isel(family=(shown["kind"] == kind).values)
        label = kind.replace("_", " ") + (" (not in the paper)" if kind == "mixed" else "")
        look = {"color": color, "marker": marker, "linestyle": "none", "label": label}
        axes[0].plot(rows["r"], rows["risk_computed"], **look)
        axes[1].plot(rows["negative_counted"], rows["risk_computed"], **look)
    for s in range(q):
        rows = shown.isel(family=(shown["s"] == s).values)
        axes[0].plot(rows["r"], rows["risk"], color="0.6", linewidth=0.8, zorder=0)
        axes[0].annotate(f"s = {s}", (rows["r"][-1] + 0.12, rows["risk"][-1]), fontsize=8)
    title = f"p = {p}, p* = {q}, N = {int(shown['N'][0])}"
    axes[0].set(
        xlabel="rank r outside the teacher's span", ylabel="population risk", xlim=(-0.4, 6)
    )
    axes[1].set(xlabel="negative directions of the Hessian", ylabel="population risk")
    for axis in axes[:2]:
        axis.set_title(title, fontsize=9)
    legend(axes[0], fontsize=7)
    _draw_finds(axes[2], data)
    return figure


def _draw_finds(axis: Axes, data: xr.Dataset) -> None:
    N, p, q = (data.attrs[name] for name in ("N", "p", "p_star"))
    points = stationary.families(p, q, N)
    finds = list(zip(data["found_s"].values, data["found_r"].values, strict=True))
    counts = [finds.count((point.s, point.r)) for point in points]
    axis.bar(range(len(points)), counts, color=[STYLES[point.kind][0] for point in points])
    axis.set_xticks(range(len(points)), [f"{x.s}, {x.r}" for x in points], fontsize=8)
    axis.set(xlabel="family (s, r)", ylabel=f"finds of {len(finds)} blind searches")
    axis.set_title(f"p = {p}, p* = {q}, N = {N}", fontsize=9)


def check(data: xr.Dataset) -> list[Claim]:
    """Stationarity, risk, spectrum; the mixed families; the blind search."""
    rounding = risk.rounding(float(data["risk_zero"].max()))
    rounded = {"within": rounding, "because": "rounding, 64 ε (1 + R(0))"}
    return [*_families(data, rounded), *_errata(data, rounded), *_spectra(data), *_minima(data),
            *_searches(data, rounded)]  # fmt: skip


def _families(data: xr.Dataset, rounded: dict) -> list[Claim]:
    gap, source = abs(data["risk_computed"] - data["risk"]).max(), "Eqs. 24, 28, 30, Sec. 7.2.1"
    rows = {
        "largest entry of the gradient": data["gradient"].max(),
        "risk as predicted, largest deviation": gap,
    }
    said = lambda what, kind: claim(f"every family (s, r): {what}", source, kind=kind)
    kinds: tuple[Kind, ...] = ("theorem", "claim")  # by the algebra of realised weights; by numbers
    return [
        said(what, kind).equals(found, 0.0, **rounded)
        for kind, (what, found) in zip(kinds, rows.items(), strict=True)
    ]


def _errata(data: xr.Dataset, rounded: dict) -> list[Claim]:
    still = data["gradient"] <= rounded["within"]
    mixed = ((data["inside"] > 0) & (data["outside"] > 0) & still).sum()
    p, norm = data.attrs["p"], printed_outside_norm(data.attrs["p"], r=2)
    point = stationary.stationary_point(p, data.attrs["p_star"], s=0, r=2)
    found = data["found_largest"].where((data["found_s"] == 0) & (data["found_r"] == 2))
    both = "stationary points inside and outside the teacher's span at once: families"
    outside = f"rank r outside the teacher: norm p/(2+r) from 1 − α r/p − 2 α/p = 0, here p = {p}, "
    printed = f"1 − r/p − 2 α/p = 0, α = {norm:g}; and M Mᵀ = I_r for MᵀM = I_r"
    return [
        claim(both, "Sec. 4.2, 'three fundamental classes'")
        .erratum("0: the student lies inside the span or is orthogonal to it", 0.0)
        .equals(mixed, (data["kind"] == "mixed").sum(), **EXACT),
        claim(f"{outside}r = 2, mean of what the search found", "Sec. 7.2.1, Eq. 28")
        .erratum(printed, norm)
        .equals(found.mean(), point.b, **rounded),
    ]


def _spectra(data: xr.Dataset) -> list[Claim]:
    wrong, source = (data["negative_counted"] != data["negative"]).sum(), "Sec. 7.2.2"
    said = "every family: all eigenvalues of the Hessian, largest deviation in units of p N ε |H|"
    count = "(p−s)(p*−s) + (p−s−r)(N−p*−r) negative directions: families where the count differs"
    because = "backward error of the eigenvalue solver"
    return [
        claim(said, source, kind="theorem").equals(
            data["spectrum_gap"].max(), 0.0, within=1.0, because=because
        ),
        claim(count, source, kind="finding").equals(wrong, 0.0, **EXACT),
    ]


def _minima(data: xr.Dataset) -> list[Claim]:
    p, q, s, negative = data["p"], data["p_star"], data["s"], data["negative_counted"]
    none = "p ≥ p*: no minimum but those of zero error, least number of negative directions"
    some = "p < p*: a manifold of minima with an error (s = p, r = 0), negative directions there"
    least, left = negative.where((p >= q) & (s < q)).min(), negative.where((p < q) & (s == p)).max()
    return [
        claim(none, "Sec. 4.2", kind="finding").at_least(least, 1.0, because="integers"),
        claim(some, "Sec. 4.2, last paragraph").equals(left, 0.0, **EXACT),
    ]


def _searches(data: xr.Dataset, rounded: dict) -> list[Claim]:
    N, p, q = (data.attrs[name] for name in ("N", "p", "p_star"))
    data = data.isel(search=(data["found_left"] < ZERO).values)
    risks = {(x.s, x.r): x.risk for x in stationary.families(p, q, N)}
    finds = zip(data["found_s"].values, data["found_r"].values, strict=True)
    listed = np.array([risks.get(find, np.nan) for find in finds])
    gap = np.max(np.abs(data["found_risk"].values - listed))  # NaN where not in the list
    mixed = ((data["found_s"] > 0) & (data["found_r"] > 0)).sum()
    said = f"every zero of the gradient that a blind search found ({len(listed)} of them) is of a "
    said += "family (s, r): largest deviation of its risk"
    met = "the blind search meets mixed points: number"
    return [
        claim(said, "Sec. 7.2.1", kind="finding").equals(gap, 0.0, **rounded),
        claim(met, "Sec. 4.2", kind="finding").at_least(mixed, 1.0, because="integers"),
    ]
