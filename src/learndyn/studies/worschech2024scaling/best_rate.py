"""The learning rate with the smallest error, over β and K = M, by a sweep; not in the paper.

Students begin at half of their teachers, so that all levels are equally unlearned and there is no
plateau. The ODE with all terms in η is solved at rates between ¼ and ¾ of the critical one, through
the window of the power law; a parabola through the lowest points gives rate and error there.
Expected are the rate and the error of the linearised late stage with its noise, on the same grid,
and, for the largest β, where the window is long, the limit of long windows. Our first guess,
s/(1+s) of the critical rate for every K with s = β/(1+β), is right for one unit only. Nothing is
random. The quick preset has fewer β and K, and a smaller L.

Notes: docs/results/worschech2024scaling/best_rate/notes.md.
"""

import dataclasses
import functools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.sweeps import swept
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.late_stage import best_rate, power_law
from learndyn.theory.committee.power_law import learning_curve

TITLE = "The best learning rate of power-law erf students over β and K, and the error it leaves"
DIFFERS = "ours: the paper has no such figure"
MIDDLE, LAST = 0.5, 0.75  # of the window, in ln α
CROSS = {"ms": 7, "mew": 1.2}
SOURCE = "late stage with its noise, to first order"
WINDOW = "end and beginning of the window; |Q − T|/(1+s); parabola"
CLAIMS = {
    "rate": claim("β = {beta:g}: best rate in the middle of the window, relative gap to theory, "
                  "worst K", SOURCE, kind="finding",
                  because="second order in the overlaps, |Q − T|/(1+s); parabola through 3 or 5 "
                          "rates"),
    "exponent": claim("β = {beta:g}: exponent of the smallest error, without what theory adds at "
                      "finite L, worst K", "Sec. 5.2: ε ∝ α^-β/(1+β)", kind="finding",
                      because="second order in the overlaps, s |Q − T| where the fit begins"),
    "limit": claim("K = {K}: best rate over the critical one in the middle of a long window",
                   f"β = {{beta:g}}, {SOURCE}", kind="finding", because=WINDOW),
    "guess": claim("K = {K}: our first guess, s/(1+s) of the critical rate, misses it, in "
                   "tolerances", f"β = {{beta:g}}, {SOURCE}", kind="finding", because=WINDOW),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes; rates over the critical one; students begin as `begin` times their teacher."""

    betas: tuple[float, ...] = (0.5, 1.0, 3.0)
    units: tuple[int, ...] = (1, 2)
    L: int = 96
    smallest: float = 0.25
    largest: float = 0.75
    rates: int = 13
    points: int = 9
    begin: float = 0.5


PRESETS = {
    "quick": Params(),
    "paper": Params(betas=(0.5, 1.0, 2.0, 3.0), units=(1, 2, 3, 4), L=256, rates=17),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The error of the ODE and of the linearised late stage at every β, K, rate and time."""
    axes = {"beta": params.betas, "K": params.units}
    data = swept(functools.partial(point, params=params), axes, report)
    row = lambda beta: xr.concat([_expected(params, beta, K) for K in params.units], "K")
    expected = xr.concat([row(beta) for beta in params.betas], "beta")
    return data.merge(expected).assign_attrs(L=params.L)


def _times(params: Params, beta: float, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Places in the window, in ln α, and α there."""
    eta = best_rate.asymptotic(beta, K) * best_rate.critical_rate(K)
    first, last = power_law.window(L=params.L, beta=beta, M=K, eta=eta)
    place = np.linspace(1 - LAST, LAST, params.points)
    return place, first * (last / first) ** place


def _expected(params: Params, beta: float, K: int) -> xr.Dataset:
    place, alphas = _times(params, beta, K)
    middle = float(alphas[np.argmin(abs(place - MIDDLE))])
    numbers = {
        "limit": best_rate.asymptotic(beta, K),
        "guess": best_rate.asymptotic(beta, 1),
        "left_out": best_rate.omitted(middle, L=params.L, beta=beta, M=K),
        "exponent": learning_curve.exponent(beta),
    }
    return xr.Dataset({**numbers, "time": ("place", alphas)}, {"place": place})


def point(beta: float, K: int, params: Params) -> xr.Dataset:
    """All rates, which share what is compiled, of one β and K."""
    relative = np.geomspace(params.smallest, params.largest, params.rates)
    rows = [_curves(beta, K, float(each), params) for each in relative]
    return xr.concat(rows, xr.DataArray(relative, dims="relative", name="relative"))


def _curves(beta: float, K: int, relative: float, params: Params) -> xr.Dataset:
    """One rate: the error of both, and how far the largest overlap is from the teacher's."""
    (place, alphas), eta = _times(params, beta, K), relative * best_rate.critical_rate(K)
    inputs = ld.PowerLaw(params.L, params.L, beta)
    system = committee_system("erf", inputs, K=K, M=K, eta=eta, sigma_J=1.0, typical=True)
    T, c = ld.start(system).state.T, params.begin
    start = ld.start(system, state=ld.Overlaps(c**2 * T, c * T, T))
    record = ld.solve(system, [0.0, *alphas], start=start, rtol=1e-7, atol=1e-12)
    late = record.isel(time=slice(1, None))
    size = {"L": params.L, "beta": beta, "M": K}
    curves = {
        "error": late["error"].values,
        "linear": best_rate.error(alphas, **size, eta=eta, left=(1 - c) ** 2),
        "far": abs(late["Q"].values - np.eye(K)).max((1, 2)),
    }
    table = {name: ("place", values) for name, values in curves.items()}
    return xr.Dataset(table, {"place": place})


def _least(data: xr.Dataset, name: str) -> xr.Dataset:
    """Rate and value of the smallest error, by a parabola in logarithms through three or five."""
    rates, curves = np.log(data["relative"].values), np.log(data[name])

    def read(curve: np.ndarray) -> tuple[float, float, float]:
        low = int(np.clip(np.argmin(curve), 2, len(curve) - 3))
        around = slice(low - 2, low + 3)
        wide = ld.analysis.fit_parabola(rates[around], curve[around]).vertex
        near = ld.analysis.fit_minimum(rates, curve)
        return near.x, near.y, abs(wide - near.x)

    minima = xr.apply_ufunc(
        read, curves, input_core_dims=[["relative"]], output_core_dims=[[], [], []], vectorize=True
    )
    return xr.Dataset(dict(zip(("rate", "error", "interval"), minima, strict=True)))


def _exponents(data: xr.Dataset, least: xr.Dataset) -> xr.DataArray:
    """−d ln ε/d ln α of the smallest error, fitted from the middle of the window on."""
    fit = lambda t, y: -ld.analysis.fit_power_law(t, np.exp(y)).slope
    curves = (each.sel(place=slice(MIDDLE, None)) for each in (data["time"], least["error"]))
    return xr.apply_ufunc(fit, *curves, input_core_dims=[["place"], ["place"]], vectorize=True)


def draw(data: xr.Dataset) -> Figure:
    """Error against rate; best rates against β; the exponents of the smallest error."""
    figure, axes = panels(3, columns=3, size=(4.2, 3.7))
    _draw_errors(axes[0], data.sel(place=MIDDLE).isel(K=-1))
    least, linear = _least(data, "error"), _least(data, "linear")
    betas, fine = data["beta"], np.linspace(0.01, float(data["beta"].max()) * 1.03, 60)
    for i, (K, marker) in enumerate(zip(data["K"].values, "osD^", strict=False)):
        style = {"ls": "", "marker": marker, "ms": 5, "color": f"C{i}", "label": f"K = {K}"}
        at = {"K": K, "place": MIDDLE}
        limit = [best_rate.asymptotic(beta, K) for beta in fine]
        axes[1].plot(fine, limit, color=f"C{i}", lw=1)
        axes[1].plot(betas, np.exp(linear["rate"].sel(at)), "x", color=f"C{i}", **CROSS)
        axes[1].plot(betas, np.exp(least["rate"].sel(at)), **style)
        axes[2].plot(betas, _exponents(data, linear).sel(K=K), "x", color=f"C{i}", **CROSS)
        axes[2].plot(betas, _exponents(data, least).sel(K=K), **style)
    axes[2].plot(fine, [learning_curve.exponent(beta) for beta in fine], color="0.3", lw=1.2)
    axes[1].set(xlabel="β", ylabel="best η / $\\eta_c$", ylim=(0, 0.55))
    axes[1].set_title(f"L = {data.attrs['L']}, middle of the window", fontsize=9)
    axes[2].set(xlabel="β", ylabel="exponent of the smallest error", ylim=(0, 1))
    axes[2].set_title("from the middle of the window on", fontsize=9)
    for axis, line in zip(axes[1:], ("theory, long window", "β/(1+β)"), strict=True):
        styles = {"theory, finite L": {"color": "0.3", "ls": "", "marker": "x", **CROSS}}
        styles |= {line: {"color": "0.3"}}
        legend(axis, styles, loc="lower right")
    return figure


def _draw_errors(axis, one: xr.Dataset) -> None:
    """Markers: the ODE. Lines: theory."""
    for i, beta in enumerate(one["beta"].values):
        row, color = one.sel(beta=beta), f"C{i}"
        lowest = float(row["linear"].min())
        axis.plot(one["relative"], row["linear"] / lowest, lw=1.2, color=color)
        look = {"color": color, "label": f"β = {beta:g}"}
        axis.plot(one["relative"], row["error"] / lowest, "o", ms=4, **look)
    axis.set(
        xscale="log", yscale="log", xlabel="η / $\\eta_c$", ylabel="error / smallest in theory"
    )
    axis.set_title(f"K = M = {int(one['K'])}: ODE, and theory (lines)", fontsize=9)
    for which in (axis.xaxis, axis.yaxis):
        which.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 3, 4, 5, 7)))
        which.set_minor_locator(NullLocator())
        which.set_major_formatter("{x:g}")
    legend(axis)


def check(data: xr.Dataset) -> list[Claim]:
    """Best rates and exponents against linear theory, worst K; the limit and the guess."""
    least, linear = _least(data, "error"), _least(data, "linear")
    s, far = data["exponent"], data["far"].max("relative").sel(place=MIDDLE)
    best, claims = least.sel(place=MIDDLE), []
    gap = abs(best["rate"] - linear["rate"].sel(place=MIDDLE))
    allowed = far / (1 + s) + best["interval"]
    more = _exponents(data, least) - _exponents(data, linear)
    rows = ("rate", 0 * s, gap, allowed), ("exponent", s, more, s * far)
    for name, *parts in rows:
        for beta in data["beta"].values:
            expected, off, within = (each.sel(beta=beta) for each in parts)
            worst = int(np.argmax(abs(off / within).values))  # over K
            sentence, at = CLAIMS[name].format(beta=beta), float(expected[worst])
            claims.append(sentence.equals(at + float(off[worst]), at, within[worst]))
    long = data.assign(best=np.exp(best["rate"]), allowed=allowed + data["left_out"]).isel(beta=-1)
    return [*claims, *(row for K in data["K"].values for row in _limit(long.sel(K=K)))]


def _limit(one: xr.Dataset) -> list[Claim]:
    """The limit of long windows, and our first guess where it differs."""
    fields = {"K": int(one["K"]), "beta": float(one["beta"])}
    limit, within = float(one["limit"]), float(one["allowed"] * one["limit"])
    holds = CLAIMS["limit"].format(**fields).equals(one["best"], limit, within)
    missed = float(abs(one["best"] - one["guess"])) / within
    guess = CLAIMS["guess"].format(**fields).at_least(missed, 1.0)
    return [holds] if fields["K"] == 1 else [holds, guess]
