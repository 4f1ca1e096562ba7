"""Sec. 4.2: all families of stationary points, including those between the paper's classes.

The paper lists points inside the span of the teacher and points orthogonal to it. Points with s
directions inside and r outside are stationary as well. They are checked one by one, and a blind
search for zeros of the gradient, which does not know the list, finds them. The quick preset
searches from fewer starts.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.numerics.linalg import eigenvalue_error
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.errata import printed_outside_norm
from learndyn.theory.committee.landscape import risk, spectra, stationary

TITLE = "The families of stationary points: the paper's classes and the mixed ones"
DIFFERS = "Sec. 4.2 is analytic and states no sizes; here N = 6, 8, 11 and 2000 searches"
RANK = 1e-3  # singular values below it count as zero: far above what a search leaves
ZERO = 1e-12  # a search that ends above it found no zero; below it, the risk is right to rounding
INTEGERS, ROUNDED = Tolerance(0.0, "integers"), "rounding, 64 ε (1 + R(0))"
FAMILIES = "Eqs. 24, 28, 30, Sec. 7.2.1"
CLAIMS = {
    # A theorem by the algebra of realised weights; the risk is a matter of numbers.
    "gradient": claim("every family (s, r): largest entry of the gradient", FAMILIES,
                      kind="theorem", because=ROUNDED),
    "risk": claim("every family (s, r): largest deviation from the predicted risk", FAMILIES,
                  because=ROUNDED),
    "mixed": claim("families of stationary points both inside and outside the teacher's span",
                   "Sec. 4.2, 'three fundamental classes'", within=INTEGERS)
    .erratum("0: the student lies inside the span or is orthogonal to it", 0.0),
    "norm": claim("rank r outside the teacher: norm p/(2+r) from 1 − α r/p − 2 α/p = 0, here "
                  "p = {p}, r = 2, mean over the finds of the search", "Sec. 7.2.1, Eq. 28",
                  because=ROUNDED)
    .erratum("1 − r/p − 2 α/p = 0, α = {printed:g}; and M Mᵀ = I_r for MᵀM = I_r"),
    "spectrum": claim("every family: all eigenvalues of the Hessian, largest deviation in units of "
                      "p N ε |H|", "Sec. 7.2.2", kind="theorem",
                      within=Tolerance(1.0, "backward error of the eigenvalue solver")),
    "negative": claim("(p−s)(p*−s) + (p−s−r)(N−p*−r) negative directions: families where the count "
                      "differs", "Sec. 7.2.2", kind="finding", within=INTEGERS),
    "saddles": claim("p ≥ p*: all minima have zero error: least number of negative directions "
                     "elsewhere", "Sec. 4.2", kind="finding", within=INTEGERS),
    "minima": claim("p < p*: a manifold of minima has a positive error, at s = p and r = 0: number "
                    "of negative directions there", "Sec. 4.2, last paragraph", within=INTEGERS),
    "listed": claim("every zero of the gradient that a blind search found ({count} of them) "
                    "belongs to a family (s, r): largest deviation of its risk", "Sec. 7.2.1",
                    kind="finding", because=ROUNDED),
    "found": claim("number of mixed points that the blind search finds", "Sec. 4.2", kind="finding",
                   within=INTEGERS),
}  # fmt: skip
STYLES = {"zero": ("k", "X"), "uncorrelated": ("C0", "o"), "correlated": ("C2", "s"),
          "zero_error": ("C3", "*"), "mixed": ("C1", "D")}  # fmt: skip


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
    finds = [_search(*sizes[0], rng) for _ in cases(range(params.searches), report)]
    table = {name: ("family", [row[name] for row in rows]) for name in rows[0]}
    table |= {f"found_{name}": ("search", [row[name] for row in finds]) for name in finds[0]}
    return xr.Dataset(table, attrs=dict(zip(("N", "p", "p_star"), sizes[0], strict=True)))


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
    axes[0].set(xlabel="rank r outside the teacher's span", xlim=(-0.4, 6))
    axes[1].set_xlabel("negative directions of the Hessian")
    for axis in axes[:2]:
        axis.set_ylabel("population risk")
        axis.set_title(f"p = {p}, p* = {q}, N = {int(shown['N'][0])}", fontsize=9)
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


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Stationarity, risk, spectrum; the mixed families; the blind search."""
    rounding, p0 = risk.rounding(float(data["risk_zero"].max())), data.attrs["p"]
    mixed = (data["inside"] > 0) & (data["outside"] > 0) & (data["gradient"] <= rounding)
    printed = printed_outside_norm(p0, r=2)
    norm = CLAIMS["norm"].format(p=p0, printed=printed).erratum(value=printed)
    outside = data["found_largest"].where((data["found_s"] == 0) & (data["found_r"] == 2))
    point = stationary.stationary_point(p0, data.attrs["p_star"], s=0, r=2)
    p, q, s, negative = data["p"], data["p_star"], data["s"], data["negative_counted"]
    least, left = negative.where((p >= q) & (s < q)).min(), negative.where((p < q) & (s == p)).max()
    return [
        CLAIMS["gradient"].equals(data["gradient"].max(), 0.0, rounding),
        CLAIMS["risk"].equals(abs(data["risk_computed"] - data["risk"]).max(), 0.0, rounding),
        CLAIMS["mixed"].equals(mixed.sum(), (data["kind"] == "mixed").sum()),
        norm.equals(outside.mean(), point.b, rounding),
        CLAIMS["spectrum"].equals(data["spectrum_gap"].max(), 0.0),
        CLAIMS["negative"].equals((negative != data["negative"]).sum(), 0.0),
        CLAIMS["saddles"].at_least(least, 1.0),
        CLAIMS["minima"].equals(left, 0.0),
        *_searches(data, rounding),
    ]


def _searches(data: xr.Dataset, rounding: float) -> list[Claim]:
    N, p, q = (data.attrs[name] for name in ("N", "p", "p_star"))
    data = data.isel(search=(data["found_left"] < ZERO).values)
    risks = {(x.s, x.r): x.risk for x in stationary.families(p, q, N)}
    finds = zip(data["found_s"].values, data["found_r"].values, strict=True)
    listed = np.array([risks.get(find, np.nan) for find in finds])
    gap = np.max(np.abs(data["found_risk"].values - listed))  # NaN where not in the list
    mixed = ((data["found_s"] > 0) & (data["found_r"] > 0)).sum()
    return [
        CLAIMS["listed"].format(count=len(listed)).equals(gap, 0.0, rounding),
        CLAIMS["found"].at_least(mixed, 1.0),
    ]
