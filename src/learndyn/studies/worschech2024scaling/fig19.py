"""Fig. 19: the length of the plateau for several L (M = 4) and several M (L = 10).

One start each, in the flow limit. Predicted is how long the growth is linear, as in Fig. 4. The
paper does not name L of the right panel: that of Fig. 4 is taken, and M = 8 runs until it has left
the plateau. N is rounded down to a multiple of L. The quick preset has fewer cases.

Notes: docs/results/worschech2024scaling/fig19/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _erf
from learndyn.theory.committee import errata
from learndyn.theory.committee.plateau import erf_uniform

TITLE = "Length of the plateau against the number of levels and of hidden units (Fig. 19)"
DIFFERS = (
    "L of the right panel is not stated, here 10 as in Fig. 4; runs last 16 mean times of "
    "growth instead of to α = 7000 and 10,000"
)
SMALL = f"{100 * _erf.LINEAR:g} % of R*"
CLAIMS = {
    "L": claim("time of growth on the plateau falls with L (ratio nearest to one)",
               "Eq. 15, Fig. 19", because="an inequality"),
    "M": claim("time of growth on the plateau rises with M (ratio nearest to one)",
               "Eq. 15, Fig. 19", because="an inequality"),
    "formula": claim("Eq. 116 against the mean of the exact rates, in unevenness of T^(2) squared",
                     "Eq. 116", because="second order in T^(2) − uniform part"),
    "growth": claim("L = {L}, M = {M}: e-folding time of R on the plateau",
                    "Eq. 116, Fig. 19; exact rates",
                    because=f"exact times {{low:.0f}} … {{high:.0f}} mix; linear up to {SMALL}"),
    "length": claim(f"L = {{L}}, M = {{M}}: e-folds from α = {_erf.SETTLING:g} τ until students "
                    f"are apart by {SMALL}", "Eq. 117, Fig. 19",
                    because=f"times of growth mix; linear up to {SMALL}")
    .erratum("½ ln N besides, {printed:.1f}"),
}  # fmt: skip
_ALONE = "one time of growth: nothing mixes, the tolerance is 0.02 alone, and 0.03 is not explained"
FAILS = {"paper": {CLAIMS["length"].format(L=10, M=2, printed=0).statement: _ALONE}}
LINES = 0.68  # height of vertical lines, below the legend
WIDE = 6  # width of the line on which the prediction is marked


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study: cases (L, M), the last L with every M of the right panel.

    Times are α; runs last `lasts` times the mean time of growth.
    """

    L: tuple[int, ...] = (2, 10, 10)
    M: tuple[int, ...] = (4, 4, 3)
    N: int = 7000
    begin: float = 500.0
    lasts: float = 16.0
    points: int = 801
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(L=(2, 4, 6, 8, *[10] * 5), M=(*[4] * 4, 2, 3, 4, 6, 8)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow from one start per case, and what is predicted for its teacher."""
    pairs = [*zip(params.L, params.M, strict=True)]
    rows = [_one(params, L, M) for L, M in cases(pairs, report)]
    coords = {"L": ("case", list(params.L)), "M": ("case", list(params.M))}
    sizes = {"begin": params.begin, "N": params.N}
    return xr.concat(rows, "case").assign_coords(coords).assign_attrs(sizes)


def _one(params: Params, L: int, M: int) -> xr.Dataset:
    system = _erf.plateau_system(L, M, params.N)
    start = ld.start(system, key=params.key)
    expected = _erf.predictions(system, start.state)
    growing, uniform = expected["times_exact"], float(expected["time_116"])
    tau, R_star = 1 / float((1 / growing).mean()), float(expected["R_exact"].max())
    times = np.linspace(0, params.lasts * tau, params.points)
    record = ld.solve(system, times, start=start, order="flow")
    sigma_P = float(_erf.spread(record).interp(time=params.begin))
    linear = _erf.linear_stage(record, tau, R_star)
    folds, miss = _erf.linear_folds(expected.assign(linear), R_star)
    printed = uniform, R_star, sigma_P, _erf.SIGMA_J, system.dim
    return xr.Dataset(
        {
            "time": ("number", times),
            "error": ("number", record["error"].values),
            "height": float(record["error"].interp(time=params.begin)),
            "growth": _erf.growth_time(record, params.begin, R_star),
            "length": linear["linear_length"],
            "folds": folds,
            "folds_miss": miss,
            "printed": errata.printed_plateau_length(*printed),
            "time_116": uniform,
            "tau": tau,
            "fastest": float(growing.min()),
            "slowest": float(growing.max()),
            "uneven_2": float(expected["uneven_2"]),
        }
    )


def draw(data: xr.Dataset) -> Figure:
    """The error in its plateau phase, with the predicted ends."""
    figure, axes = panels(2)
    titles = (f"K = M = {int(data['M'][0])}", f"L = {int(data['L'][-1])}")
    for axis, name, part, title in zip(axes, "LM", _parts(data), titles, strict=True):
        for k in range(part.sizes["case"]):
            _draw_case(axis, part.isel(case=k), name, f"C{k}", data.attrs["begin"])
        axis.set_title(f"{title}, N = {data.attrs['N']}, one start each, flow", fontsize=9)
        axis.set(xlabel="time [steps / N]", ylabel="generalisation error")
        axis.set(ylim=(0, 1.6 * float(part["height"].max())))
    styles = {
        "linear growth, predicted": {"lw": WIDE, "alpha": 0.3},
        "its end, predicted": {"ls": "--", "lw": 1.2},
        "its end, measured": {"marker": "o", "mfc": "none"},
        "end of the plateau, printed": {"ls": ":", "lw": 1.2},
    }
    for axis, shown in zip(axes, (styles, None), strict=True):
        legend(axis, shown, fontsize=7, ncols=2, loc="upper right")
    return figure


def _draw_case(axis: Axes, one: xr.Dataset, name: str, color: str, begin: float) -> None:
    axis.plot(one["time"], one["error"], color=color, lw=1.4, label=f"{name} = {int(one[name])}")
    tau, start = float(one["tau"]), _erf.SETTLING * float(one["tau"])
    end, measured = start + tau * float(one["folds"]), start + float(one["length"])
    linear = one.isel(number=((one["time"] >= start) & (one["time"] <= end)).values)
    axis.plot(linear["time"], linear["error"], color=color, lw=WIDE, alpha=0.3)
    height = float(np.interp(measured, one["time"], one["error"]))
    axis.plot(measured, height, "o", color=color, ms=5, mfc="none")
    axis.axvline(end, color=color, ls="--", lw=1.2, ymax=LINES)
    axis.axvline(begin + float(one["printed"]), color=color, ls=":", lw=1.2, ymax=LINES)


def _parts(data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Cases with the first M by rising L, and with the last L by rising M."""
    first, last = data["M"] == data["M"][0], data["L"] == data["L"][-1]
    return data.sel(case=first).sortby("L"), data.sel(case=last).sortby("M")


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Shorter with L, longer with M; growth and length in every case; Eq. 116."""
    by_levels, by_units = (part["growth"].values for part in _parts(data))
    rows = [data.isel(case=case) for case in range(data.sizes["case"])]
    miss = np.abs(data["time_116"] / data["tau"] - 1) / data["uneven_2"] ** 2
    return [
        CLAIMS["L"].at_most((by_levels[1:] / by_levels[:-1]).max(), 1.0),
        CLAIMS["M"].at_least((by_units[1:] / by_units[:-1]).min(), 1.0),
        CLAIMS["formula"].at_most(miss.max(), 1.0),
        *map(_growth, rows),
        *map(_length, rows),
    ]


def _growth(one: xr.Dataset) -> Claim:
    low, high = float(one["fastest"]), float(one["slowest"])
    sentence = CLAIMS["growth"].format(L=int(one["L"]), M=int(one["M"]), low=low, high=high)
    tolerance = (high - low) / 2 + _erf.LINEAR * float(one["tau"])
    return sentence.equals(one["growth"], (low + high) / 2, tolerance)


def _length(one: xr.Dataset) -> Claim:
    folds = float(one["folds"])
    printed = folds + erf_uniform.printed_extra_folds(int(one.attrs["N"]))
    sentence = CLAIMS["length"].format(L=int(one["L"]), M=int(one["M"]), printed=printed)
    length = one["length"] / one["tau"]
    return sentence.erratum(value=printed).equals(length, folds, one["folds_miss"])
