"""Fig. 4: the symmetric plateau of R^(1), Q^(1) and the error, and how long it lasts.

One start, in the limit of a flow; the quick preset has the paper's size. Where the plateau ends,
growth is not linear, and linear theory cannot predict when that happens. It predicts when students
are apart by a small fraction of R*, and that is what is compared and marked.

Notes: docs/results/worschech2024scaling/fig4/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import curves, legend, panels
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling._erf import (
    ETA,
    LINEAR,
    SETTLED,
    SETTLING,
    SIGMA_J,
    apart,
    eigenvalues,
    flattest_point,
    growth_time,
    linear_folds,
    linear_stage,
    plateau_system,
    predictions,
    spread,
)
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.plateau import erf_uniform

TITLE = "Symmetric plateau of the order parameters and its length, L = 10, K = M = 4 (Fig. 4)"
DIFFERS = "sizes are the paper's; β is not stated, here 0.25 as in Fig. 17"
PRINTED_TIME, PRINTED_LENGTH = 239, 2751  # App. C.4
LEFT, CENTRE = "Sec. 5.1.1, Fig. 4 left", "Sec. 5.1.1, Fig. 4 centre"
MIX = "the {modes} growth times mix; growth is linear up to 2 % of R*"
CLAIMS = {
    "R": claim("R on the plateau has the {M} heights of the fixed point (largest gap)",
               f"{LEFT}; exact fixed point",
               because="spread of R over students; it acts on their mean at second order"),
    "distinct": claim("spread of these heights over the spread of students at one", LEFT,
                      because="heights as wide as their distance would not be distinct"),
    "Q": claim("Q on the plateau has one height, that of the fixed point (largest gap)",
               f"{CENTRE}; exact fixed point",
               because="σ_J² of the start, which stays, and the deviations of two students"),
    "Eq. 13": claim("Eq. 13 is the mean of the heights of R", "Eq. 13, Sec. 5.1.1",
                    because="unevenness of T, squared"),
    "error": claim("error on the plateau", "Fig. 4 right; exact fixed point", because=SETTLED),
    "Eq. 99": claim("error on the plateau, closed form for uniform T", "Eq. 99, Fig. 4 right",
                    because="unevenness of T, squared")
    .erratum("{printed:.3g}, with arcsin(D/(1+T))"),
    "τ": claim("τ_esc at T = 1, D = 0: Eq. 116 against the exact rate", "Eq. 116, App. C.4",
               because="rounding").erratum(f"{PRINTED_TIME}, half of it", PRINTED_TIME),
    "growth": claim("e-folding time of R on the plateau, of {modes} exact ones",
                    "App. C.4; Jacobian of the flow",
                    because="{low:.0f} … {high:.0f} mix; growth is linear up to 2 % of R*",
                    rate=0.9)
    .erratum(str(PRINTED_TIME), PRINTED_TIME),
    "length": claim(f"e-folds from α = {SETTLING:g} τ until students are apart by 2 % of R*: "
                    "ln(0.02 R*/σ)", "Eq. 117, App. C.4", because=MIX)
    .erratum(f"½ ln N besides, {{printed:.1f}} here: in {PRINTED_LENGTH}/{PRINTED_TIME} it is added"
             " to a σ_P that is ∝ 1/√N"),
}  # fmt: skip
WEAK = {CLAIMS["growth"].statement.format(modes=3): 0.82}  # 18 of 20 keys, then 15 of 20 others


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; times are α."""

    L: int = 10
    M: int = 4
    N: int = 7000
    begin: float = 300.0
    grown: float = 500.0
    end: float = 7000.0
    points: int = 701
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow from one start, and what is predicted for its teacher."""
    system = plateau_system(params.L, params.M, params.N)
    start = ld.start(system, key=params.key)
    expected = predictions(system, start.state)
    report(0.1)
    times = np.linspace(0, params.end, params.points)
    record = ld.solve(system, times, start=start, order="flow")
    report(1.0)
    lam, R_star = eigenvalues(system), float(expected["R_exact"].max())
    uniform = erf_uniform.uniform_part(moment(start.state.T, lam, 1))
    numbers = {
        "error_99_printed": errata.printed_eq99(*uniform, params.M),
        # τ_esc for T = 1, D = 0: Eq. 116, and exactly.
        "typical_116": erf_uniform.typical_escape_time(lam, params.M, ETA),
        "typical_exact": ld.theory_of(system).landmarks()["escape_time_constant"] / ETA,
        **flattest_point(record, float(expected["times_exact"].max())),
        "sigma_P": float(spread(record).sel(time=params.begin, method="nearest")),
        "growth": growth_time(record, params.grown, R_star),
        **linear_stage(record, float(expected["times_exact"].mean()), R_star),
    }
    sizes = {"L": params.L, "N": system.dim, "begin": params.begin}
    return record[["R", "Q", "error"]].merge(expected).assign(numbers).assign_attrs(sizes)


def draw(data: xr.Dataset) -> Figure:
    """R and Q with the plateau enlarged, and the error with the predicted lengths."""
    figure, (left, middle, right) = panels(3, columns=3)
    for axis, name in ((left, "R"), (middle, "Q")):
        curves(axis, data[name])
        _enlarge(axis.inset_axes((0.19, 0.5, 0.33, 0.45)), data, name)
    left.set_title(
        f"K = M = {data.sizes['teacher']}, L = {data.attrs['L']}, N = {data.attrs['N']}, flow",
        fontsize=9,
    )
    exact, printed = {"color": "k", "ls": "--", "lw": 0.9}, {"color": "C3", "ls": ":", "lw": 1.6}
    legend(middle, {"exact fixed point": exact, "Eq. 13": printed}, fontsize=7, loc="lower left")
    _draw_error(right, data)
    return figure


def _enlarge(inset, data: xr.Dataset, name: str) -> None:
    begin = data.attrs["begin"] + 100
    curves(inset, data[name].sel(time=slice(begin, begin + 600)))
    for height in np.atleast_1d(data[f"{name}_exact"]):
        inset.axhline(float(height), color="k", ls="--", lw=0.9)
    inset.axhline(float(data[f"{name}_13"]), color="C3", ls=":", lw=1.6)
    inset.set(xlabel="", ylabel="")
    inset.tick_params(labelsize=6)


def _draw_error(axis, data: xr.Dataset) -> None:
    begin, tau = data.attrs["begin"], float(data["times_exact"].mean())
    R_star = float(data["R_exact"].max())
    axis.plot(data["time"], data["error"], color="C0", lw=1.4, label="ODE")
    axis.axhline(float(data["error_exact"]), color="k", ls="--", lw=0.9, label="exact fixed point")
    predicted = SETTLING * tau + tau * linear_folds(data, R_star)[0]
    measured = SETTLING * tau + float(data["linear_length"])
    label = "predicted: to 2 % of $R^*$ apart"
    axis.axvspan(SETTLING * tau, predicted, color="C2", alpha=0.2, lw=0, label=label)
    axis.axvline(predicted, color="C2", lw=1.4)
    height = float(np.interp(measured, data["time"], data["error"]))
    axis.plot(measured, height, "o", color="C2", ms=5, mfc="none", label="measured")
    sigma_P, N = float(data["sigma_P"]), data.attrs["N"]
    printed = errata.printed_plateau_length(float(data["time_116"]), R_star, sigma_P, SIGMA_J, N)
    label = "its end as printed (App. C.4)"
    axis.axvline(begin + printed, color="C3", ls=":", lw=1.6, label=label)
    axis.set(xlabel="time [steps / N]", ylabel="generalisation error")
    axis.set(ylim=(0, 1.25 * float(data["height"])))
    legend(axis, fontsize=7, loc="lower left", frameon=True, framealpha=1, edgecolor="none")


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Heights of R, Q and the error; growth of R; length of the plateau."""
    return [*_heights(data), *_times(data)]


def _heights(data: xr.Dataset) -> list[Claim]:
    here, printed = data.sel(time=float(data["flattest"])), float(data["error_99_printed"])
    mean, width = here["R"].mean("student"), float(spread(here))
    R_gap, Q_gap = (
        np.abs(values - data[name]).max()
        for values, name in ((mean, "R_exact"), (here["Q"], "Q_exact"))
    )
    uneven, settled = data["uneven_1"] ** 2, float(data["distance"])
    closed = CLAIMS["Eq. 99"].format(printed=printed).erratum(value=printed)
    return [
        CLAIMS["R"].format(M=data.sizes["teacher"]).equals(R_gap, 0.0, width),
        CLAIMS["distinct"].at_least(mean.std() / width, 1.0),
        CLAIMS["Q"].equals(Q_gap, 0.0, SIGMA_J**2 + 2 * np.abs(apart(here)).max()),
        CLAIMS["Eq. 13"].equals(data["R_exact"].mean(), data["R_13"], data["R_13"] * uneven),
        CLAIMS["error"].equals(data["height"], data["error_exact"], settled),
        closed.equals(data["height"], data["error_99"], settled + data["error_99"] * uneven),
    ]


def _times(data: xr.Dataset) -> list[Claim]:
    low, high = float(data["times_exact"].min()), float(data["times_exact"].max())
    tau, typical = float(data["times_exact"].mean()), data["typical_116"]
    expected, within = linear_folds(data, float(data["R_exact"].max()))
    printed = expected + erf_uniform.printed_extra_folds(data.attrs["N"])
    fields = {"modes": data.sizes["teacher"] - 1, "low": low, "high": high, "printed": printed}
    growth = CLAIMS["growth"].format(**fields)
    length = CLAIMS["length"].format(**fields).erratum(value=printed)
    return [
        CLAIMS["τ"].equals(data["typical_exact"], typical, 1e-9 * typical),
        growth.equals(data["growth"], (low + high) / 2, (high - low) / 2 + LINEAR * tau),
        length.equals(data["linear_length"] / tau, expected, within),
    ]
