"""Fig. 4: the symmetric plateau of R^(1), Q^(1) and the error, and how long it lasts.

One start, flow limit. The quick preset is the paper's size. Where the plateau ends, growth is not
linear, and linear theory cannot say when (its count of e-folds up to R = e R* was right to an order
only, and excluded nothing); it says when students are apart by a small share of R*, and that is
what is predicted and marked.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import curves, legend, panels
from learndyn.studies.claims import Claim, claim
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
PRINTED_TIME, PRINTED_LENGTH = 239, 2751  # App. C.4


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
    label = f"predicted: to {LINEAR:.0%} of $R^*$ apart"
    axis.axvspan(SETTLING * tau, predicted, color="C2", alpha=0.2, lw=0, label=label)
    axis.axvline(predicted, color="C2", lw=1.4)
    height = float(np.interp(measured, data["time"], data["error"]))
    axis.plot(measured, height, "o", color="C2", ms=5, mfc="none", label="measured")
    axis.axvline(begin + _printed(data), color="C3", ls=":", lw=1.6,
                 label="its end as printed (App. C.4)")  # fmt: skip
    axis.set(xlabel="time [steps / N]", ylabel="generalisation error")
    axis.set(ylim=(0, 1.25 * float(data["height"])))
    legend(axis, fontsize=7, loc="lower left", frameon=True, framealpha=1, edgecolor="none")


def _printed(data: xr.Dataset) -> float:
    """α_P − α_0 as App. C.4 computes it."""
    R_star, sigma_P, N = float(data["R_exact"].max()), float(data["sigma_P"]), data.attrs["N"]
    given = float(data["time_116"]), R_star, sigma_P, SIGMA_J, N
    return errata.printed_plateau_length(*given)


def check(data: xr.Dataset) -> list[Claim]:
    """Heights of R, Q and the error; growth of R; length of the plateau."""
    return [*_heights(data), *_error(data), *_times(data)]


def _heights(data: xr.Dataset) -> list[Claim]:
    here, M = data.sel(time=float(data["flattest"])), data.sizes["teacher"]
    mean, width, left = here["R"].mean("student"), float(spread(here)), "Sec. 5.1.1, Fig. 4 left"
    heights = f"R on the plateau has the {M} heights of the fixed point (largest gap)"
    one_height = "Q on the plateau has one height, that of the fixed point (largest gap)"
    return [
        claim(heights, f"{left}; exact fixed point").equals(
            np.abs(mean - data["R_exact"]).max(),
            0.0,
            within=width,
            because="spread of R over students; it acts on their mean at second order",
        ),
        claim("spread of these heights over the spread of students at one", left).at_least(
            mean.std() / width,
            1.0,
            because="heights as wide as their distance would not be distinct",
        ),
        claim(one_height, "Sec. 5.1.1, Fig. 4 centre; exact fixed point").equals(
            np.abs(here["Q"] - data["Q_exact"]).max(),
            0.0,
            within=SIGMA_J**2 + 2 * np.abs(apart(here)).max(),
            because="σ_J² of the start, which stays, and the deviations of two students",
        ),
        claim("Eq. 13 is the mean of the heights of R", "Eq. 13, Sec. 5.1.1").equals(
            data["R_exact"].mean(),
            data["R_13"],
            within=data["R_13"] * data["uneven_1"] ** 2,
            because="unevenness of T, squared",
        ),
    ]


def _error(data: xr.Dataset) -> list[Claim]:
    settled, printed = float(data["distance"]), float(data["error_99_printed"])
    return [
        claim("error on the plateau", "Fig. 4 right; exact fixed point").equals(
            data["height"], data["error_exact"], within=settled, because=SETTLED
        ),
        claim("error on the plateau, closed form for uniform T", "Eq. 99, Fig. 4 right")
        .erratum(f"{printed:.3g}, with arcsin(D/(1+T))", printed)
        .equals(
            data["height"],
            data["error_99"],
            within=settled + data["error_99"] * data["uneven_1"] ** 2,
            because="unevenness of T, squared",
        ),
    ]


def _times(data: xr.Dataset) -> list[Claim]:
    low, high = float(data["times_exact"].min()), float(data["times_exact"].max())
    tau, M = float(data["times_exact"].mean()), data.sizes["teacher"]
    added = f"in {PRINTED_LENGTH}/{PRINTED_TIME} it is added to a σ_P that is ∝ 1/√N"
    expected, within = linear_folds(data, float(data["R_exact"].max()))
    extra = erf_uniform.printed_extra_folds(data.attrs["N"])
    said = f"e-folds from α = {SETTLING:g} τ until students are apart by {LINEAR:.0%} of R*: "
    said += "ln(0.02 R*/σ)"
    return [
        claim("τ_esc at T = 1, D = 0: Eq. 116 against the exact rate", "Eq. 116, App. C.4")
        .erratum(f"{PRINTED_TIME}, half of it", PRINTED_TIME)
        .equals(
            data["typical_exact"],
            data["typical_116"],
            within=1e-9 * data["typical_116"],
            because="rounding",
        ),
        claim(
            f"e-folding time of R on the plateau, of {M - 1} exact ones",
            "App. C.4; Jacobian of the flow",
        )
        .erratum(str(PRINTED_TIME), PRINTED_TIME)
        .equals(
            data["growth"],
            (low + high) / 2,
            within=(high - low) / 2 + LINEAR * tau,
            because=f"{low:.0f} … {high:.0f} mix; linear up to {LINEAR:.0%} of R*",
        ),
        claim(said, "Eq. 117, App. C.4")
        .erratum(f"½ ln N besides, {expected + extra:.1f} here: {added}", expected + extra)
        .equals(
            data["linear_length"] / tau,
            expected,
            within=within,
            because=f"{M - 1} times of growth mix; linear up to {LINEAR:.0%} of R*",
        ),
    ]
