"""Fig. 19: the length of the plateau for several L (M = 4) and several M (L = 10).

One start each, flow limit. The paper does not name L of the right panel; that of Fig. 4 is taken,
and M = 8 runs on until it has left. The quick preset has fewer cases. N goes down to a multiple
of L.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim, Relation
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._symmetric import (
    FOLDS,
    LINEAR,
    departure,
    folds_tolerance,
    growth_time,
    length_prediction,
    plateau_system,
    predictions,
    printed_length,
    spread,
)

TITLE = "Length of the plateau against the number of levels and of hidden units (Fig. 19)"

LINES = 0.76  # height of vertical lines, below the legend


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
    """The flow from one start for each case, and what is predicted for its teacher."""
    rows = []
    for L, M in zip(params.L, params.M, strict=True):
        rows.append(_one(params, L, M))
        report(len(rows) / len(params.L))
    cases = {"L": ("case", list(params.L)), "M": ("case", list(params.M))}
    sizes = {"begin": params.begin, "N": params.N}
    return xr.concat(rows, "case").assign_coords(cases).assign_attrs(sizes)


def _one(params: Params, L: int, M: int) -> xr.Dataset:
    system = plateau_system(L, M, params.N)
    start = ld.start(system, key=params.key)
    expected = predictions(system, start.state)
    tau, R_star = 1 / float((1 / expected["times_exact"]).mean()), float(expected["R_exact"].max())
    times = np.linspace(0, params.lasts * tau, params.points)
    record = ld.solve(system, times, start=start, order="flow")
    sigma_P = float(spread(record).interp(time=params.begin))
    return xr.Dataset(
        {
            "time": ("number", times),
            "error": ("number", record["error"].values),
            "height": float(record["error"].interp(time=params.begin)),
            "growth": growth_time(record, params.begin, R_star),
            "length": departure(record, R_star) - params.begin,
            "largest": float(record["R"].max() / R_star),
            "predicted": length_prediction(tau, R_star, sigma_P),
            "printed": printed_length(float(expected["time_116"]), R_star, sigma_P, system.dim),
            "time_116": float(expected["time_116"]),
            "tau": tau,
            "fastest": float(expected["times_exact"].min()),
            "slowest": float(expected["times_exact"].max()),
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
        axis.axvline(data.attrs["begin"], color="k", lw=0.9, ymax=LINES)
        axis.set_title(f"{title}, N = {data.attrs['N']}, one start each, flow", fontsize=9)
        axis.set(xlabel="time [steps / N]", ylabel="generalisation error")
        axis.set(ylim=(0, 1.45 * float(part["height"].max())))
    styles = (("k-", "$\\alpha_0$"), ("k--", "$\\tau\\,\\ln(B/\\sigma_P)$"), ("k:", "as App. C.4"))
    for style, label in styles:
        axes[0].plot([], [], style, lw=1.2, label=label)
    for axis in axes:
        axis.legend(frameon=False, fontsize=7, ncols=3, loc="upper right")
    return figure


def _draw_case(axis, one: xr.Dataset, name: str, color: str, begin: float) -> None:
    label = f"{name} = {int(one[name])}"
    axis.plot(one["time"], one["error"], color=color, lw=1.4, label=label)
    axis.axvline(begin + float(one["predicted"]), color=color, ls="--", lw=1.2, ymax=LINES)
    axis.axvline(begin + float(one["printed"]), color=color, ls=":", lw=1.2, ymax=LINES)


def _parts(data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Cases with the first M by rising L, and with the last L by rising M."""
    first, last = data["M"] == data["M"][0], data["L"] == data["L"][-1]
    return data.sel(case=first).sortby("L"), data.sel(case=last).sortby("M")


def check(data: xr.Dataset) -> list[Claim]:
    """Shorter with L, longer with M; growth and length in every case; Eq. 116."""
    by_levels, by_units = _parts(data)
    cases = [data.isel(case=case) for case in range(data.sizes["case"])]
    return [
        _steps("L", "falls", "≤", by_levels["growth"].values),
        _steps("M", "rises", "≥", by_units["growth"].values),
        _formula(data),
        *[_growth(one) for one in cases],
        *[_length(one) for one in cases],
    ]


def _steps(name: str, how: str, relation: Relation, times: np.ndarray) -> Claim:
    ratios = times[1:] / times[:-1]
    return Claim(
        statement=f"time of growth on the plateau {how} with {name} (ratio nearest to one)",
        source="Eq. 15, Fig. 19",
        relation=relation,
        expected=1.0,
        measured=float(ratios.max() if relation == "≤" else ratios.min()),
        tolerance=0.0,
        tolerance_from="the order itself",
    )


def _formula(data: xr.Dataset) -> Claim:
    miss = np.abs(data["time_116"] / data["tau"] - 1) / data["uneven_2"] ** 2
    return Claim(
        statement="Eq. 116 against the mean of the exact rates, in unevenness of T^(2) squared",
        source="Eq. 116",
        relation="≤",
        expected=1.0,
        measured=float(miss.max()),
        tolerance=0.0,
        tolerance_from="second order in T^(2) − uniform part",
    )


def _growth(one: xr.Dataset) -> Claim:
    low, high, tau = (float(one[name]) for name in ("fastest", "slowest", "tau"))
    return Claim(
        statement=f"{_name(one)}: e-folding time of R on the plateau",
        source="Eq. 116, Fig. 19; exact rates",
        relation="=",
        expected=(low + high) / 2,
        measured=float(one["growth"]),
        tolerance=(high - low) / 2 + LINEAR * tau,
        tolerance_from=f"exact ones of {low:.0f} … {high:.0f} mix; linear up to {LINEAR:.0%} of R*",
    )


def _length(one: xr.Dataset) -> Claim:
    if np.isnan(float(one["length"])):
        return Claim(
            statement=f"{_name(one)}: R never reaches e R*, by which α_P is defined (largest R/R*)",
            source="App. C.4",
            relation="≤",
            expected=np.e,
            measured=float(one["largest"]),
            tolerance=0.0,
            tolerance_from="the definition",
            kind="finding",
        )
    return Claim(
        statement=f"{_name(one)}: length of the plateau, τ ln(B/σ_P)",
        source="Eq. 117 (without ½ ln N), Fig. 19",
        relation="=",
        expected=float(one["predicted"]),
        measured=float(one["length"]),
        tolerance=folds_tolerance(int(one["M"])) * float(one["tau"]),
        tolerance_from=FOLDS,
    )


def _name(one: xr.Dataset) -> str:
    return f"L = {int(one['L'])}, M = {int(one['M'])}"
