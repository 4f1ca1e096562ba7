"""The approximate formulas of the plateau, each beside its exact partner.

For uniform teachers that overlap (D ≠ 0), Newton's fixed point of the flow and the eigenvalues of
its Jacobian decide on Eqs. 96 to 99, 115 and 116 up to rounding. For drawn teachers they show by
how much Eqs. 13, 95, 99 and 116 miss.

Two things are wrong in Eq. 115: its prefactor has T instead of ((1+T)/2)², and its exponent lacks a
factor 2. At T = 1, as in the paper's figures, T and ((1+T)/2)² are both 1, and the printed and the
corrected form differ in the exponent alone. The uniform teacher here has T = 2, which separates the
two errors. The quick preset has fewer numbers of levels and fewer teachers.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _newton
from learndyn.studies.worschech2024scaling._erf import plateau_system, predictions
from learndyn.studies.worschech2024scaling._newton import POWER
from learndyn.theory.committee import errata
from learndyn.theory.committee.plateau import erf_uniform

TITLE = "Approximate formulas of the plateau against Newton's fixed point and the Jacobian"
DIFFERS = "ours: the paper has no such figure"
POINT, MISS = "of Newton's fixed point", "largest miss in squared unevenness of T"
ITERATION = "rounding of the iteration"
ROOT = "eigenvalues of a matrix that is not normal: square root of the rounding"
COUNT, SECOND = Tolerance(0.0, "a count"), "second order in T − uniform part"
FLOW = "App. C.2 and C.3; fixed point of the flow"
CLAIMS = {
    "R": claim(f"uniform teacher: R* {POINT}", "Eq. 97", because=ITERATION),
    "Q": claim(f"uniform teacher: Q* {POINT}", "Eq. 97", because=ITERATION),
    "R2": claim(f"uniform teacher: R*^({POWER}) {POINT}", "Eq. 98", because=ITERATION)
    .erratum("{printed:.5g}"),
    "Q2": claim(f"uniform teacher: Q*^({POWER}) {POINT}", "Eq. 98", because=ITERATION)
    .erratum("{printed:.5g}"),
    "error": claim(f"uniform teacher: ε* {POINT}", "Eq. 99", because=ITERATION)
    .erratum("{printed:.5g}"),
    "D = 0": claim(f"uniform teacher: R*^({POWER}) at D = 0 of the exact fixed point", "Eq. 96",
                   because=ITERATION).erratum("{printed:.5g}"),
    "tau": claim("uniform teacher: τ_esc against the largest eigenvalue of the Jacobian", "Eq. 116",
                 because=ROOT),
    "together": claim("uniform teacher: number of largest eigenvalues, [K−1][M−1]", "App. C.3",
                      kind="finding", within=COUNT),
    "growth": claim("ε* − ε_g grows as exp(c α/τ_esc), with c", "Eqs. 15 (text) and 115",
                    because="r/R* at the end").erratum("1", 1.0),
    "depth": claim("(ε* − ε_g)/r² on leaving the plateau", "Eq. 115", because="r/R* there")
    .erratum("{printed:.4g}, with T instead of ((1+T)/2)², the same at T = 1"),
    "heights": claim("drawn teacher: exact heights against Newton's fixed point",
                     FLOW, kind="finding", within=Tolerance(1e-12, "rounding")),
    "rates": claim("drawn teacher: exact rates against the Jacobian's, relative",
                   FLOW, kind="finding", within=Tolerance(1e-8, ROOT)),
    "distinct": claim("drawn teacher: number of distinct growth rates, M − 1",
                      FLOW, kind="finding", within=COUNT),
    "R_13": claim(f"drawn teachers: Eq. 13, mean of R, {MISS}", "Eq. 13", because=SECOND),
    "error_95": claim(f"drawn teachers: error at the fixed point of Eq. 95, {MISS}", "Eq. 95",
                      because=SECOND),
    "error_99_drawn": claim(f"drawn teachers: Eq. 99 (corrected), {MISS}", "Eq. 99",
                            because=SECOND),
    "mean_116": claim(f"drawn teachers: Eq. 116 against the mean of the M − 1 rates, {MISS}",
                      "Eq. 116", because=SECOND),
    "fastest": claim("drawn teachers: Eq. 116 is longer than the fastest growth (smallest excess)",
                     "Eq. 116; exact rates", kind="finding",
                     because="the largest rate exceeds their mean; unevenness of T^(2), squared"),
    "few levels": claim("Eq. 95 is better for few levels: miss at L = {many} over that at "
                        "L = {few}", "App. C.2, Fig. 17", because="an inequality"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study.

    The uniform teacher has rows of squared norm `norm` that overlap by `overlap` in the first
    level only; students start `apart` from its plateau and learn for `lasts` times τ_esc. For
    each number of levels, `draws` teachers are drawn.
    """

    M: int = 4
    N: int = 7000
    levels: tuple[int, ...] = (2, 10, 50)
    draws: int = 30
    uniform_levels: int = 3
    norm: float = 2.0
    overlap: float = 0.2
    apart: float = 1e-5
    lasts: float = 5.0
    points: int = 41
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(levels=(2, 4, 8, 12, 50, 100), draws=100)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """A uniform teacher in all detail, and the misses for drawn ones."""
    uniform = _newton.uniform(params)
    report(0.5)
    drawn = _newton.drawn(params)
    report(0.7)
    rows = [_misses(params, L) for L in cases(params.levels, report, begin=0.7)]
    misses = xr.concat(rows, xr.Variable("L", list(params.levels), {"long_name": "levels L"}))
    return uniform.merge(drawn).merge(misses).assign_attrs(M=params.M, N=params.N)


def _misses(params: Params, L: int) -> xr.Dataset:
    """Relative distances of the formulas from their exact partners, for every draw."""
    system, keys = plateau_system(L, params.M, params.N), params.key + np.arange(params.draws)
    drawn = [predictions(system, ld.start(system, key=int(key)).state) for key in keys]
    every = xr.concat(drawn, "draw")
    exact, heights = every["times_exact"], every["R_exact"]
    return xr.Dataset(
        {
            "R_13": heights.mean("teacher") / every["R_13"] - 1,
            "R_95": np.sqrt(((every["R_95"] / heights - 1) ** 2).mean("teacher")),
            "error_95": every["error_95"] / every["error_exact"] - 1,
            "error_99_drawn": every["error_99"] / every["error_exact"] - 1,
            "mean_116": every["time_116"] * (1 / exact).mean("mode") - 1,
            "time_116": every["time_116"],
            "time_fastest": exact.min("mode"),
            "uneven_1": every["uneven_1"],
            "uneven_2": every["uneven_2"],
        }
    )


def draw(data: xr.Dataset) -> Figure:
    """Left: misses for drawn teachers against L. Right: the escape from a uniform plateau."""
    figure, (left, right) = panels(2)
    rows = (
        ("fastest_116", "Eq. 116, fastest growth", "o-"),
        ("R_95", "Eq. 95, heights of R", "s-"),
        ("mean_116", "Eq. 116, mean of the rates", "o--"),
        ("error_99_drawn", "Eq. 99 corrected, error", "^--"),
        ("R_13", "Eq. 13, mean of R", "v--"),
        ("error_95", "Eq. 95, error", "s--"),
    )
    misses = data.assign(fastest_116=_fastest(data))
    for k, (name, label, style) in enumerate(rows):
        size = np.sqrt((misses[name] ** 2).mean("draw"))
        left.plot(data["L"], size, style, color=f"C{k}", ms=4, lw=1.1, label=label)
    left.set(xscale="log", yscale="log", xlabel="levels L")
    left.set_ylabel(f"relative miss, r.m.s. of {data.sizes['draw']} teachers")
    left.set_title(f"K = M = {data.attrs['M']}, N = {data.attrs['N']}, drawn teachers", fontsize=9)
    left.set_xticks(data["L"].values, [str(L) for L in data["L"].values])
    left.set_xticks([], minor=True)
    lines = left.get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower left", ncols=3, frameon=False, fontsize=8)
    (T, D, tau, M), late = _teacher(data), _late(data)
    at = (late["alpha"] - late["alpha"][0]).values, float(late["r"][0]), tau, T, D, M
    right.plot(late["alpha"][::2], late["drop"][::2], "o", ms=4, color="0.3", label="ODE")
    look = {"lw": 1.4, "zorder": 1}
    corrected, printed = erf_uniform.error_escape(*at), errata.printed_eq115(*at)
    right.plot(late["alpha"], corrected, color="C2", label="Eq. 115, corrected", **look)
    right.plot(late["alpha"], printed, "--", color="C3", label="Eq. 115, printed", **look)
    right.set(yscale="log", xlabel="time [steps / N]", ylabel="$\\epsilon^* - \\epsilon_g$")
    right.set_title(f"uniform teacher, T = {T:g}, D = {D:.2f}", fontsize=9)
    legend(right, loc="upper left")
    return figure


def _fastest(data: xr.Dataset) -> xr.DataArray:
    """By how much Eq. 116 is longer than the time of the fastest growth, relative."""
    return data["time_116"] / data["time_fastest"] - 1


def _teacher(data: xr.Dataset) -> tuple[float, float, float, int]:
    """T, D, τ_esc and M of the uniform teacher."""
    T, D, tau = (float(data[name]) for name in ("T", "D", "tau_116"))
    return T, D, tau, int(data.attrs["M"])


def _late(data: xr.Dataset) -> xr.Dataset:
    """What follows the time α_0 on the plateau, 2 τ after the start."""
    first = int(np.searchsorted(data["alpha"].values, 2 * float(data["tau_116"])))
    return data.isel(alpha=slice(first, None))


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Uniform teachers to rounding, the escape to first order, drawn teachers to second."""
    return [*_heights(data), *_escapes(data), *_exact(data), *_drawn(data)]


def _heights(data: xr.Dataset) -> list[Claim]:
    """Measured, expected and, where it is wrong, printed."""
    low, higher = ("overlaps", "overlaps_97"), ("moments", "moments_98", "moments_printed")
    rows = {
        "R": (low, 0),
        "Q": (low, 1),
        "R2": (higher, 0),
        "Q2": (higher, 1),
        "error": (("error", "error_99", "error_printed"), 0),
        "D = 0": (("separate", "separate_96", "separate_printed"), 0),
    }
    claims = []
    for key, (names, place) in rows.items():
        measured, expected, *printed = (data[name].values.flat[place] for name in names)
        sentence = CLAIMS[key]
        if printed:
            sentence = sentence.format(printed=printed[0]).erratum(value=float(printed[0]))
        claims.append(sentence.equals(measured, expected, 1e-11 * abs(expected)))
    return claims


def _escapes(data: xr.Dataset) -> list[Claim]:
    """Rates of growth near the plateau of a uniform teacher, and the error on leaving it."""
    (T, D, tau, M), late = _teacher(data), _late(data)
    window = float(late["alpha"][0]), float(late["alpha"][-1])
    fit = ld.analysis.fit_rate(data["alpha"].values, data["drop"].values, window=window)
    depth, small = erf_uniform.escape_depth(T, D, M), float(late["r"][-1] / data["overlaps"][0])
    printed = float(errata.printed_eq115(0.0, 1.0, tau, T, D, M))
    leaving = CLAIMS["depth"].format(printed=printed).erratum(value=printed)
    return [
        CLAIMS["tau"].equals(data["tau"], tau, 1e-8 * tau),
        CLAIMS["together"].equals(data["multiplicity"], (M - 1) ** 2),
        CLAIMS["growth"].equals(fit.slope * tau, 2.0, 2 * small),
        leaving.equals(late["drop"][-1] / late["r"][-1] ** 2, depth, depth * small),
    ]


def _exact(data: xr.Dataset) -> list[Claim]:
    off = np.abs(data["drawn_heights"] - data["drawn_heights_exact"]).max()
    miss = np.abs(data["drawn_rates"] / data["drawn_rates_exact"] - 1).max()
    return [
        CLAIMS["heights"].equals(off, 0),
        CLAIMS["rates"].equals(miss, 0),
        CLAIMS["distinct"].equals(data["distinct"], int(data.attrs["M"]) - 1),
    ]


def _drawn(data: xr.Dataset) -> list[Claim]:
    """Largest misses in units of the squared unevenness; Eq. 116 is above the fastest."""
    units = dict.fromkeys(("R_13", "error_95", "error_99_drawn"), "uneven_1")
    units |= {"mean_116": "uneven_2"}
    misses = {name: np.abs(data[name] / data[unit] ** 2).max() for name, unit in units.items()}
    size, (few, many) = np.sqrt((data["error_95"] ** 2).mean("draw")), data["L"].values[[0, -1]]
    return [
        *(CLAIMS[name].at_most(miss, 1.0) for name, miss in misses.items()),
        CLAIMS["fastest"].at_least(_fastest(data).min(), 0.0, (data["uneven_2"] ** 2).max()),
        CLAIMS["few levels"].format(few=few, many=many).at_least(size[-1] / size[0], 1.0),
    ]
