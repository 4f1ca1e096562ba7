"""The approximate formulas of the plateau, each beside its exact partner.

For uniform teachers that overlap (D ≠ 0) Newton's fixed point of the flow and the eigenvalues of
its Jacobian decide over Eqs. 96 to 99, 115 and 116 to rounding. For drawn teachers they show by how
much Eqs. 13, 95, 99 and 116 miss.

Two things are wrong in Eq. 115: its prefactor has T for ((1+T)/2)², and its exponent lacks a
factor 2. At T = 1, as in the paper's figures, T and ((1+T)/2)² are both 1, and print and correction
differ in the exponent alone. The uniform teacher here has T = 2, where both can be told apart.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.solving.fixed_points import find_fixed_point, jacobian_spectrum
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling._erf import (
    ETA,
    eigenvalues,
    plateau_system,
    predictions,
)
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform

TITLE = "Approximate formulas of the plateau against Newton's fixed point and the Jacobian"
POWER = 2  # of the moments that Eq. 98 is shown for
ROOT = "eigenvalues of a matrix that is not normal: root of the rounding"
SAME = 1e-6  # rates that differ by less, relative to the largest, are one


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study.

    The uniform teacher has rows of squared norm `norm` that overlap by `overlap` in the first
    level only; students start `apart` from its plateau and run `lasts` times τ_esc. For each
    number of levels `draws` teachers are drawn.
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
    uniform = _uniform(params)
    report(0.5)
    newton = _drawn_exactly(params)
    report(0.7)
    rows = [_misses(params, L) for L in cases(params.levels, report, begin=0.7)]
    misses = xr.concat(rows, xr.Variable("L", list(params.levels), {"long_name": "levels L"}))
    return uniform.merge(newton).merge(misses).assign_attrs(M=params.M, N=params.N)


def _uniform(params: Params) -> xr.Dataset:
    """Fixed point, Jacobian and escape for a uniform teacher with D ≠ 0."""
    system, t = plateau_system(params.uniform_levels, params.M, params.N), _uniform_teacher(params)
    theory, lam, M = ld.theory_of(system), eigenvalues(system), params.M
    near = erf_plateau.near_plateau(t, lam, params.apart)
    point = find_fixed_point(theory, near, symmetry=erf_plateau.equal_students)
    rates = np.real(jacobian_spectrum(theory, point.state).rates)
    (T, D), (T_2, D_2) = (erf_uniform.uniform_part(moment(t, lam, l)) for l in (1, POWER))
    tau = erf_uniform.escape_time(T, D, T_2, D_2, M, ETA)
    both = lambda l: [moment(x, lam, l)[0, 0] for x in (point.state.R, point.state.Q)]
    error = float(theory.observe(point.state)["error"])
    found = {
        "T": T,
        "D": D,
        "error": error,
        "error_99": erf_uniform.plateau_error(T, D, M),
        "error_printed": errata.printed_eq99(T, D, M),
        "overlaps": ("kind", both(1)),
        "overlaps_97": ("kind", list(erf_uniform.plateau_overlaps(T, D, M))),
        "moments": ("kind", both(POWER)),
        "moments_98": ("kind", list(erf_uniform.plateau_moments(T_2, D_2, T, D, M))),
        "moments_printed": ("kind", list(errata.printed_eq98(T_2, T, D, M))),
        "tau": 1 / rates[0],
        "tau_116": tau,
        "multiplicity": int(np.sum(rates > rates[0] * (1 - SAME))),
    }
    parts = _without_overlap(params, lam), _escape(params, system, near, error, tau)
    return xr.merge([xr.Dataset(found), *parts])


def _without_overlap(params: Params, lam: np.ndarray) -> xr.Dataset:
    """Eq. 96 where it is exact: D = 0."""
    t = _uniform_teacher(dataclasses.replace(params, overlap=0.0))
    T1, Tl = (moment(t, lam, l) for l in (1, POWER))
    found = {
        "separate": moment(erf_plateau.plateau_state(t, lam).R, lam, POWER)[0, 0],
        "separate_96": erf_uniform.approximate_moments(Tl, T1)[0][0],
        "separate_printed": errata.printed_eq96(Tl, T1)[0][0],
    }
    return xr.Dataset(found)


def _uniform_teacher(params: Params) -> np.ndarray:
    """t^k of a teacher whose rows have equal norms, and overlap in the first level only."""
    M, norm, later = params.M, params.norm / params.uniform_levels, params.uniform_levels - 1
    overlaps = [params.overlap * norm * (M - 1)] + [0.0] * later
    return np.stack([erf_uniform.uniform_overlaps(norm, D, M) for D in overlaps])


def _escape(params: Params, system: ld.System, near, error: float, tau: float) -> xr.Dataset:
    """r of R_ii = R* + r, R_im = R* − r/(M−1), and ε* − ε_g, from close to the plateau."""
    times = np.linspace(0, params.lasts * tau, params.points)
    begin = ld.start(system, state=near)
    # The error falls by parts in 10⁸.
    record = ld.solve(system, times, start=begin, order="flow", rtol=1e-12, atol=1e-15)
    R = record["R"].values
    r = np.einsum("tii->t", R) / params.M - R.mean(axis=(1, 2))
    return xr.Dataset(
        {"r": ("alpha", r), "drop": ("alpha", error - record["error"].values)}, {"alpha": times}
    )


def _drawn_exactly(params: Params) -> xr.Dataset:
    """Newton from a uniform teacher's plateau, and the Jacobian, for a teacher that is drawn."""
    system = plateau_system(params.uniform_levels, params.M, params.N)
    theory, lam, M = ld.theory_of(system), eigenvalues(system), params.M
    t = ld.start(system, key=params.key).state.T
    begin, closed = (erf_plateau.plateau_state(x, lam) for x in (_uniform_teacher(params), t))
    begin = ld.Overlaps(begin.Q, begin.R, t)
    point = find_fixed_point(theory, begin, symmetry=erf_plateau.equal_students)
    heights = lambda state: np.concatenate([state.R[:, 0].ravel(), state.Q[:, 0, 0]])
    rates = np.real(jacobian_spectrum(theory, point.state).rates)[: (M - 1) ** 2]
    exact = ETA * erf_plateau.escape_rates(moment(t, lam, 1), moment(t, lam, 2))[: M - 1]
    distinct = 1 + int(np.sum(rates[:-1] - rates[1:] > SAME * rates[0]))
    return xr.Dataset(
        {
            "drawn_heights": ("height", heights(point.state)),
            "drawn_heights_exact": ("height", heights(closed)),
            "drawn_rates": ("growing", rates),
            "drawn_rates_exact": ("growing", np.repeat(exact, M - 1)),
            "distinct": distinct,
        }
    )


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
    _draw_escape(right, data)
    return figure


def _fastest(data: xr.Dataset) -> xr.DataArray:
    """By how much Eq. 116 is longer than the time of the fastest growth, relative."""
    return data["time_116"] / data["time_fastest"] - 1


def _draw_escape(axis, data: xr.Dataset) -> None:
    T, D, tau, M = *(float(data[n]) for n in ("T", "D", "tau_116")), int(data.attrs["M"])
    late = _late(data)
    since, r0 = late["alpha"] - late["alpha"][0], float(late["r"][0])
    axis.plot(late["alpha"][::2], late["drop"][::2], "o", ms=4, color="0.3", label="ODE")
    corrected = erf_uniform.error_escape(since.values, r0, tau, T, D, M)
    axis.plot(late["alpha"], corrected, color="C2", lw=1.4, label="Eq. 115, corrected", zorder=1)
    printed = errata.printed_eq115(since.values, r0, tau, T, D, M)
    axis.plot(late["alpha"], printed, "--", color="C3", lw=1.4, label="Eq. 115, printed", zorder=1)
    axis.set(yscale="log", xlabel="time [steps / N]", ylabel="$\\epsilon^* - \\epsilon_g$")
    axis.set_title(f"uniform teacher, T = {T:g}, D = {D:.2f}", fontsize=9)
    legend(axis, loc="upper left")


def _late(data: xr.Dataset) -> xr.Dataset:
    """From the time α_0 on the plateau on: 2 τ after the start."""
    first = int(np.searchsorted(data["alpha"].values, 2 * float(data["tau_116"])))
    return data.isel(alpha=slice(first, None))


def check(data: xr.Dataset) -> list[Claim]:
    """Uniform teachers to rounding, the escape to first order, drawn teachers to second."""
    return [*_heights(data), *_rates(data), *_escapes(data), *_newton(data), *_drawn(data)]


def _heights(data: xr.Dataset) -> list[Claim]:
    """Measured, expected and, where it is wrong, printed."""
    point, higher = "Newton's fixed point", ("moments", "moments_98", "moments_printed")
    low = ("overlaps", "overlaps_97")
    separate = ("separate", "separate_96", "separate_printed")
    rows = [
        (f"R* of {point}", "Eq. 97", low, {"kind": 0}),
        (f"Q* of {point}", "Eq. 97", low, {"kind": 1}),
        (f"R*^({POWER}) of {point}", "Eq. 98", higher, {"kind": 0}),
        (f"Q*^({POWER}) of {point}", "Eq. 98", higher, {"kind": 1}),
        (f"ε* of {point}", "Eq. 99", ("error", "error_99", "error_printed"), {}),
        (f"R*^({POWER}) at D = 0 of exact fixed point", "Eq. 96", separate, {}),
    ]
    return [_height(*row[:2], *(data[name][row[3]] for name in row[2])) for row in rows]


def _height(what: str, source: str, measured, expected, printed=None) -> Claim:
    said, within = claim(f"uniform teacher: {what}", source), 1e-11 * abs(float(expected))
    if printed is not None:
        said = said.erratum(f"{float(printed):.5g}", float(printed))
    return said.equals(measured, expected, within=within, because="rounding of the iteration")


def _rates(data: xr.Dataset) -> list[Claim]:
    M, tau = int(data.attrs["M"]), float(data["tau_116"])
    largest = "uniform teacher: τ_esc against the largest eigenvalue of the Jacobian"
    together = "uniform teacher: eigenvalues that are largest together, (K−1)(M−1)"
    return [
        claim(largest, "Eq. 116").equals(data["tau"], tau, within=1e-8 * tau, because=ROOT),
        claim(together, "App. C.3", kind="finding").equals(
            data["multiplicity"], (M - 1) ** 2, within=0, because="a count"
        ),
    ]


def _escapes(data: xr.Dataset) -> list[Claim]:
    T, D, tau, M = *(float(data[n]) for n in ("T", "D", "tau_116")), int(data.attrs["M"])
    late = _late(data)
    window = float(late["alpha"][0]), float(late["alpha"][-1])
    fit = ld.analysis.fit_rate(data["alpha"].values, data["drop"].values, window=window)
    depth, small = erf_uniform.escape_depth(T, D, M), float(late["r"][-1] / data["overlaps"][0])
    printed = float(errata.printed_eq115(0.0, 1.0, tau, T, D, M))
    return [
        claim("ε* − ε_g grows as exp(c α/τ_esc), with c", "Eqs. 15 (text) and 115")
        .erratum("1", 1.0)
        .equals(fit.slope * tau, 2.0, within=2 * small, because="r/R* at the end"),
        claim("(ε* − ε_g)/r² on leaving the plateau", "Eq. 115")
        .erratum(f"{printed:.4g}, with T for ((1+T)/2)², the same at T = 1", printed)
        .equals(
            late["drop"][-1] / late["r"][-1] ** 2,
            depth,
            within=depth * small,
            because="r/R* there",
        ),
    ]


def _newton(data: xr.Dataset) -> list[Claim]:
    M, source = int(data.attrs["M"]), "App. C.2 and C.3; fixed point of the flow"
    off = np.abs(data["drawn_heights"] - data["drawn_heights_exact"]).max()
    miss = np.abs(data["drawn_rates"] / data["drawn_rates_exact"] - 1).max()
    rows = [
        ("exact heights against Newton's fixed point", 0, off, 1e-12, "rounding"),
        ("exact rates against the Jacobian's, relative", 0, miss, 1e-8, ROOT),
        ("distinct rates of growth, M − 1", M - 1, data["distinct"], 0, "a count"),
    ]
    return [
        claim(f"drawn teacher: {what}", source, kind="finding").equals(
            measured, expected, within=within, because=because
        )
        for what, expected, measured, within, because in rows
    ]


def _drawn(data: xr.Dataset) -> list[Claim]:
    """Largest misses in units of the squared unevenness; Eq. 116 is above the fastest."""
    rows = [
        ("R_13", "Eq. 13, mean of R", "Eq. 13", "uneven_1"),
        ("error_95", "error at the fixed point of Eq. 95", "Eq. 95", "uneven_1"),
        ("error_99_drawn", "Eq. 99 (corrected)", "Eq. 99", "uneven_1"),
        ("mean_116", "Eq. 116 against the mean of the M − 1 rates", "Eq. 116", "uneven_2"),
    ]
    second = [
        claim(f"drawn teachers: {what}, largest miss in unevenness of T squared", source).at_most(
            np.abs(data[name] / data[unit] ** 2).max(),
            1.0,
            because="second order in T − uniform part",
        )
        for name, what, source, unit in rows
    ]
    size, (few, many) = np.sqrt((data["error_95"] ** 2).mean("draw")), data["L"].values[[0, -1]]
    longer = "drawn teachers: Eq. 116 is longer than the fastest growth (least excess)"
    better = f"Eq. 95 is better for few levels: miss at L = {many} over that at L = {few}"
    return [
        *second,
        claim(longer, "Eq. 116; exact rates", kind="finding").at_least(
            _fastest(data).min(),
            0.0,
            within=float((data["uneven_2"] ** 2).max()),
            because="the largest rate exceeds their mean; unevenness of T^(2), squared",
        ),
        claim(better, "App. C.2, Fig. 17").at_least(
            size[-1] / size[0], 1.0, because="the order itself"
        ),
    ]
