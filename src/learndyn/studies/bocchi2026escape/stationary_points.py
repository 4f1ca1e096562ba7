"""Sec. 4.2: all families of stationary points, those between the paper's classes too.

The paper lists points inside the span of the teacher and points orthogonal to it. Points with s
directions inside and r outside are stationary as well. They are checked one by one, and a blind
search for zeros of the gradient, which knows of no list, finds them. The quick preset searches
from fewer starts.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import least_squares

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee.landscape import risk, spectra, stationary

TITLE = "The families of stationary points: the paper's classes and the mixed ones"
EPS = float(np.finfo(float).eps)
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
    found = []
    for i in range(params.searches):
        found.append(_search(*sizes[0], rng))
        report((i + 1) / params.searches)
    table = {name: ("family", [row[name] for row in rows]) for name in rows[0]}
    table |= {f"found_{name}": ("search", [row[name] for row in found]) for name in found[0]}
    attributes = {"N": params.N[0], "p": params.p[0], "p_star": params.p_star[0]}
    return xr.Dataset(table, attrs=attributes)


def _family(point: stationary.StationaryPoint, N: int, rng: np.random.Generator) -> dict:
    V, V_star = stationary.realise(point, N, rng)
    spectrum = np.linalg.eigvalsh(risk.hessian(V, V_star))
    values, counts = zip(*spectra.full_spectrum(point, N), strict=True)
    predicted = np.repeat(values, counts)
    scale = np.abs(predicted).max()
    return {
        **dataclasses.asdict(point),
        "N": N,
        "kind": point.kind,
        "inside": _ranks(V, V_star)[0],
        "outside": _ranks(V, V_star)[1],
        "gradient": np.abs(risk.gradient(V, V_star)).max(),
        "risk_computed": risk.risk(V, V_star),
        "risk_zero": risk.risk(0 * V, V_star),
        "negative": spectra.negative_directions(point, N),
        "negative_counted": int(np.sum(spectrum < -1e-9 * scale)),
        "spectrum_gap": np.abs(spectrum - predicted).max() / (len(spectrum) * EPS * scale),
    }


def _search(N: int, p: int, p_star: int, rng: np.random.Generator) -> dict:
    """A zero of the gradient, by Levenberg-Marquardt from a random start."""
    V_star = np.eye(p_star, N)
    start = rng.uniform(0, 2) * rng.standard_normal(p * N) / np.sqrt(N)
    gradient = lambda x: risk.gradient(x.reshape(p, N), V_star).ravel()
    hessian = lambda x: risk.hessian(x.reshape(p, N), V_star)
    tight: dict[str, Any] = {"method": "lm", "xtol": EPS, "ftol": EPS, "gtol": EPS}
    zero = least_squares(gradient, start, jac=hessian, **tight)  # pyright: ignore[reportArgumentType]
    V = zero.x.reshape(p, N)
    s, r = _ranks(V, V_star)
    largest = float(np.linalg.norm(V, 2) ** 2)
    left = np.abs(zero.fun).max()
    return {"s": s, "r": r, "risk": risk.risk(V, V_star), "left": left, "largest": largest}


def _ranks(V: np.ndarray, V_star: np.ndarray) -> tuple[int, int]:
    """Ranks inside the span of an orthonormal teacher and orthogonal to it."""
    inside = V @ V_star.T
    parts = (inside, V - inside @ V_star)
    s, r = (int(np.linalg.matrix_rank(part, tol=RANK)) for part in parts)
    return s, r


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
    axes[0].legend(frameon=False, fontsize=7)
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
    scale = 1 + float(data["risk_zero"].max())
    gap = abs(data["risk_computed"] - data["risk"]).max()
    wrong = (data["negative_counted"] != data["negative"]).sum()
    return [
        _zero("every family (s, r): largest entry of the gradient", data["gradient"].max(), scale),
        _zero("every family (s, r): risk as predicted, largest deviation", gap, scale),
        *_class_errata(data, scale),
        Claim(
            "every family: all eigenvalues of the Hessian, largest deviation in units of p N ε |H|",
            "Sec. 7.2.2", "=", 0.0, float(data["spectrum_gap"].max()), 1.0,
            "backward error of the eigenvalue solver", "finding",
        ),
        Claim(
            "(p−s)(p*−s) + (p−s−r)(N−p*−r) negative directions: families where the count differs",
            "Sec. 7.2.2", "=", 0.0, float(wrong), 0.0, "integers", "finding",
        ),
        *_minima(data),
        *_search_claims(data, scale),
    ]  # fmt: skip


def _zero(statement: str, measured, scale: float) -> Claim:
    tolerance_from = "rounding, 64 ε (1 + R(0))"
    source = "Eqs. 24, 28, 30, Sec. 7.2.1"
    return Claim(statement, source, "=", 0.0, float(measured), 64 * EPS * scale, tolerance_from)


def _class_errata(data: xr.Dataset, scale: float) -> list[Claim]:
    stationary_too = data["gradient"] <= 64 * EPS * scale
    mixed = ((data["inside"] > 0) & (data["outside"] > 0) & stationary_too).sum()
    p, q = data.attrs["p"], data.attrs["p_star"]
    point = stationary.stationary_point(p, q, s=0, r=2)
    found = data["found_largest"].where((data["found_s"] == 0) & (data["found_r"] == 2))
    return [
        Claim(
            "stationary points inside and outside the teacher's span at once: families",
            "Sec. 4.2, 'three fundamental classes'", "=",
            float((data["kind"] == "mixed").sum()), float(mixed), 0.0, "integers", "erratum",
            "0: the student lies inside the span or is orthogonal to it", printed_value=0.0,
        ),
        Claim(
            f"rank r outside the teacher: norm p/(2+r) from 1 − α r/p − 2 α/p = 0, here p = {p}, "
            "r = 2, mean of what the search found",
            "Sec. 7.2.1, Eq. 28", "=", point.b, float(found.mean()), 64 * EPS * scale,
            "rounding, 64 ε (1 + R(0))", "erratum",
            f"1 − r/p − 2 α/p = 0, α = {(p - 2) / 2:g}; and M Mᵀ = I_r for MᵀM = I_r",
            printed_value=(p - 2) / 2,
        ),
    ]  # fmt: skip


def _minima(data: xr.Dataset) -> list[Claim]:
    enough = (data["p"] >= data["p_star"]) & (data["s"] < data["p_star"])
    least = data["negative_counted"].where(enough).min()
    narrow = (data["p"] < data["p_star"]) & (data["s"] == data["p"])
    left = data["negative_counted"].where(narrow).max()
    return [
        Claim(
            "p ≥ p*: no minimum but those of zero error, least number of negative directions",
            "Sec. 4.2", "≥", 1.0, float(least), 0.0, "integers", "finding",
        ),
        Claim(
            "p < p*: a manifold of minima with an error (s = p, r = 0), negative directions there",
            "Sec. 4.2, last paragraph", "=", 0.0, float(left), 0.0, "integers",
        ),
    ]  # fmt: skip


def _search_claims(data: xr.Dataset, scale: float) -> list[Claim]:
    N, p, q = (data.attrs[name] for name in ("N", "p", "p_star"))
    data = data.isel(search=(data["found_left"] < ZERO).values)
    risks = {(x.s, x.r): x.risk for x in stationary.families(p, q, N)}
    finds = zip(data["found_s"].values, data["found_r"].values, strict=True)
    listed = np.array([risks.get(find, np.nan) for find in finds])
    gap = float(np.max(np.abs(data["found_risk"].values - listed)))  # NaN where not in the list
    mixed = int(((data["found_s"] > 0) & (data["found_r"] > 0)).sum())
    return [
        Claim(
            f"every zero of the gradient that a blind search found ({len(listed)} of them) is of a "
            "family (s, r): largest deviation of its risk",
            "Sec. 7.2.1", "=", 0.0, gap, 64 * EPS * scale, "rounding, 64 ε (1 + R(0))", "finding",
        ),
        Claim(
            "the blind search meets mixed points: number", "Sec. 4.2", "≥", 1.0, float(mixed), 0.0,
            "integers", "finding",
        ),
    ]  # fmt: skip
