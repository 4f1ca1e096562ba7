"""Eq. 6 for the left and the third panel of Fig. 2, and what linear students need there.

Every function named after a panel takes the figure's parameters.
"""

from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.statistics import mean_tolerance
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.setting import CommitteeSetting

LEFT = {"beta": 1.0, "eta": 1.0, "sigma_J": 1.0}
FEW = {"beta": 1.0, "eta": 0.5, "sigma_J": 1.0}  # at η = 1 the printed form is zero
RARE = 0.1  # fraction of the runs that are called rare
CLAIMS = {
    "above": claim("N = L = {N}, η = 1: Eq. 6 over Eq. 8, smallest over α",
                   "Sec. 4.1: consistently above the small learning rate solution",
                   within=Tolerance(1e-12, "rounding")),
    "wide": claim("L = N, η = 1, α = 1: exact mean over Eq. 6, at four times the N",
                  "Fig. 2: a correction of order 1/N would leave a quarter of the excess",
                  kind="finding", because="an inequality"),
    "median": claim("N = L = {N}, η = 1, α = 1: median of runs over Eq. 6: typical runs lie above",
                    "Fig. 2, left, against a real student", kind="finding",
                    because="an inequality"),
    "rare": claim("N = L = {N}, η = 1, α = 1: rare runs carry the mean, share of the other 90 % in "
                  "the exact mean", "Fig. 2, left, against a real student", kind="finding",
                  because="less than a half"),
    "few": claim("L = {few_levels}, N = {few_dim}, η = 0.5: error at α = {alpha:.2g}",
                 "Eqs. 6 and 56")
    .erratum("{printed:.3g} (A₁ + ηU, 1/L, T^(l) from l = 1; for η = 1 at most {at_one:.0e} at any "
             "α)"),
}  # fmt: skip


def left(params: Any) -> xr.Dataset:
    """From the even start: the equations, the exact mean, and runs."""
    N, times = params.N_left, whole_steps(params.N_left, params.left_until, params.left_points)
    system, start = even_start(N, LEFT)
    options = {"runs": params.left_runs, "key": params.key, "method": "direct"}
    runs = ld.simulate(system, times, start=start, **options)["error"]
    orders = ("full", "flow", "finite")
    curves = {f"left_{order}": curve(system, times, start, order) for order in orders}
    curves |= {"left_median": runs.median("run").values, "left_mean": runs.mean("run").values}
    at_one = {"left_errors": ("left_run", runs.sel(time=1.0, method="nearest").values)}
    wide, begin = even_start(4 * N, LEFT)
    exact, ode = (curve(wide, [1.0], begin, order)[0] for order in ("finite", "full"))
    table = {name: ("left", values) for name, values in curves.items()}
    return xr.Dataset({**table, **at_one, "wide_ratio": exact / ode}, {"left": times})


def curve(system: ld.System, times, start: ld.Start, order: str) -> np.ndarray:
    """The error of a theory from this start."""
    return ld.solve(system, times, start=start, order=order)["error"].values


def even_start(N: int, sizes: dict[str, float]) -> tuple[ld.System, ld.Start]:
    """L = N, with every mode at its expected square."""
    system = _system(N, N, **sizes)
    return system, ld.start(system, state=linear.even_state(CommitteeSetting.of(system)))


def _system(N: int, levels: int, beta: float, eta: float, sigma_J: float) -> ld.System:
    return committee_system("linear", ld.PowerLaw(N, levels, beta), eta=eta, sigma_J=sigma_J)


def few(params: Any) -> xr.Dataset:
    """Few levels, many dimensions each: printed, corrected and simulated."""
    times = whole_steps(params.few_dim, params.few_until, params.points)
    system = _system(params.few_dim, params.few_levels, **FEW)
    setting = CommitteeSetting.of(system)
    start = ld.start(system, state=linear.mean_state(setting))
    runs = ld.simulate(system, times, start=start, runs=params.few_runs, key=params.key)
    printed = lambda at: errata.printed_eq6(times, setting.spectrum, at["eta"], at["sigma_J"])
    curves = {
        "few_full": curve(system, times, start, "full"),
        "few_finite": curve(system, times, start, "finite"),
        "few_printed": printed(FEW),
        "few_printed_at_one": printed(LEFT),
    }
    table = {name: ("few", values) for name, values in curves.items()}
    return xr.Dataset(
        {**table, "few_error": (("run", "few"), runs["error"].values)}, {"few": times}
    )


def whole_steps(N: int, last: float, points: int) -> np.ndarray:
    """Whole steps, about evenly spaced in ln α from some ten steps on, α = 1 and 2 included."""
    wanted = np.append(np.geomspace(0.08, last, points), [1.0, 2.0])
    return np.unique(np.rint(wanted * N)) / N


def check_left(data: xr.Dataset) -> list[Claim]:
    """Above Eq. 8; and not the mean, nor the median, of a student with N = L."""
    one, errors = data.sel(left=1.0, method="nearest"), data["left_errors"].values
    above, median, rare = (
        CLAIMS[name].format(N=data.attrs["N_left"]) for name in ("above", "median", "rare")
    )
    near = float(one["left_finite"] / one["left_full"])
    # The exact mean is known: that of the runs has a heavy tail, and differs from key to key.
    usual = np.where(errors <= np.quantile(errors, 1 - RARE), errors, 0) / float(one["left_finite"])
    return [
        above.at_least((data["left_full"] / data["left_flow"]).min(), 1.0),
        CLAIMS["wide"].at_least(data["wide_ratio"], 1 + (near - 1) / 4),
        median.at_least(intervals.of_median(errors / float(one["left_full"])), 1.0),
        rare.at_most(intervals.of_mean(usual), 0.5),
    ]


def check_few(data: xr.Dataset) -> list[Claim]:
    """Eq. 6 where N → ∞ is a good limit: few levels, many dimensions each."""
    claims, at_one = [], float(np.abs(data["few_printed_at_one"]).max())
    for row in (data.isel(few=0), data.sel(few=2.0)):
        printed, error = float(row["few_printed"]), row["few_error"]
        fields = {"alpha": float(row["few"]), "printed": printed, "at_one": at_one, **data.attrs}
        sentence = CLAIMS["few"].format(**fields).erratum(value=printed)
        size = Tolerance(
            abs(float(row["few_finite"] - row["few_full"])), "order 1/N, the exact mean − Eq. 6"
        )
        claims.append(sentence.equals(error.mean(), row["few_full"], mean_tolerance(error) + size))
    return claims
