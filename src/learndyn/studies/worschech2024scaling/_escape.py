"""Fig. 5: flows that leave their plateau, and escape times of many teachers (lower panels)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.plotting import legend
from learndyn.studies.claims import Claim, claim
from learndyn.studies.statistics import LEVEL, normal_bound
from learndyn.studies.worschech2024scaling._erf import eigenvalues, leaving, predictions
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform
from learndyn.theory.committee.setting import CommitteeSetting

GROWING = (1e-4, 1e-2)  # spread of R over students between which its growth is fitted
CLAIMS = {
    "growth": claim("L = {L}: the students' spread grows at the exact rate, relative gap",
                    "exact partner of Eq. 116, which is {slower:.2g} times slower here",
                    kind="finding",
                    because="rest of the second mode; spread over R* at the end of the fit"),
    "rank one": claim("L = N = {N}: Eq. 116 exceeds τ_esc by M to the power "
                      "({times:.3g} times at M = {M})",
                      "one direction per level: T^(2) is nearly of rank one", kind="finding",
                      because="next order 1/M; standard error of {count} teachers", rate=1 - LEVEL),
    "N ≫ L": claim("L = {L}: Eq. 116 becomes exact for N ≫ L, its relative gap falls as N to the "
                   "power", "T^(2) is uniform up to √(M L/N)", kind="finding", rate=1 - LEVEL,
                   because="next order, the gap at the largest N; {count} teachers"),
}  # fmt: skip


def flows(params: Any, system: ld.System, end: float, number: int) -> xr.Dataset:
    """Flows of one size, each with its plateau, and simulated students from the first starts.

    Args:
        params: of the study; there are `draws` flows and `students` students.
        system: of this size.
        end: the last α.
        number: of this size among all sizes and keys; starts of two numbers differ.

    Returns:
        Flows along `draw`, students along `simulated`.
    """
    times = np.linspace(0, end, params.points)
    first = params.draws * number
    starts = [ld.start(system, key=key) for key in range(first, first + params.draws)]
    draws = [_flow(system, start, times) for start in starts]
    some = starts[: params.students]
    runs = ld.simulate(system, times, starts=some, key=params.key, method="direct").isel(run=0)
    leave = lambda i: float(leaving(runs.isel(start=i), float(draws[i]["height"]), 0.9))
    students = {
        "student": (("simulated", "time"), runs["error"].transpose("start", "time").values),
        "student_leaves": ("simulated", [leave(i) for i in range(len(some))]),
    }
    return xr.concat(draws, "draw").assign(students).assign_coords(time=times)


def _flow(system: ld.System, start: ld.Start, times: np.ndarray) -> xr.Dataset:
    """A flow's error, when it leaves its plateau, and how the students' spread grows."""
    flow = ld.solve(system, times, start=start, order="flow", rtol=1e-6, atol=1e-10)
    expected = predictions(system, start.state)
    height, growing = float(expected["error_exact"]), expected["times_exact"].values
    return xr.Dataset(
        {
            "error": ("time", flow["error"].values),
            "spread": ("time", flow["R"].std("student").max("teacher").values),
            "height": height,
            "overlap": float(expected["R_exact"].mean()),
            "leaves": float(leaving(flow, height, 0.9)),
            "tau": growing[0],
            "tau_second": growing[1],
        }
    )


def escape_times(name: str, systems: Sequence[ld.System], keys: Sequence[int]) -> xr.Dataset:
    """Exact and by Eq. 116 for the teachers of these keys, and typical: Eq. 116 at T = 1."""
    rows: dict[str, list] = {"exact": [], "uniform": [], "typical": []}
    for system in systems:
        drawn = [predictions(system, ld.start(system, key=key).state) for key in keys]
        rows["exact"].append([float(each["times_exact"][0]) for each in drawn])
        rows["uniform"].append([float(each["time_116"]) for each in drawn])
        setting = CommitteeSetting.of(system)
        M, eta = setting.student.units, float(setting.rule.learning_rate)
        rows["typical"].append(erf_uniform.typical_escape_time(eigenvalues(system), M, eta))
    dims = {"exact": (name, "teacher"), "uniform": (name, "teacher"), "typical": name}
    return xr.Dataset({f"{kind}_{name}": (dims[kind], rows[kind]) for kind in rows})


def draw_times(axis: Axes, data: xr.Dataset, name: str, label: str, title: str) -> None:
    """Medians over teachers with their 10 and 90 % quantiles, and Eq. 116 at T = 1."""
    x = data[name].values
    axis.plot(x, data[f"typical_{name}"], color="0.4", lw=1.2, label="Eq. 116, typical T")
    looks = (("uniform", "C1", "Eq. 116, T drawn"), ("exact", "C0", "exact, T drawn"))
    for kind, color, text in looks:
        low, middle, high = data[f"{kind}_{name}"].quantile([0.1, 0.5, 0.9], "teacher").values
        axis.fill_between(x, low, high, color=color, alpha=0.15, lw=0)
        axis.plot(x, middle, "o-", ms=4, color=color, label=f"{text}, 10 to 90 %")
    axis.set(xscale="log", yscale="log", xlabel=label, ylabel=r"$\tau_{esc}$ [steps / N]")
    axis.set_xticks(x, [str(size) for size in x])
    axis.set_xticks([], minor=True)
    axis.set_title(f"escape, {title}", size=9)
    legend(axis)


def growth(data: xr.Dataset) -> Claim:
    """The spread of R over students, on the longest plateau of the figure."""
    one, time = data.isel(right=0), data["right_time"].values
    names, gaps, bounds = ("spread", "tau", "tau_second", "overlap"), [], []
    for draw in range(data.sizes["draw"]):
        spread, tau, second, overlap = (one[f"right_{name}"].values[draw] for name in names)
        if spread.max() < GROWING[1]:
            continue  # slower than the run is long
        inside = (spread > GROWING[0]) & (np.cumsum(spread > GROWING[1]) == 0)
        gaps.append(abs(ld.analysis.fit_rate(time[inside], spread[inside]).slope * tau - 1))
        left = erf_plateau.second_mode_remainder(tau, second, GROWING[0] / spread[0])
        bounds.append(left + GROWING[1] / overlap)
    worst = int(np.argmax(np.array(gaps) / bounds))
    slower = float((data["uniform_right"] / data["exact_right"]).isel(right=0).median())
    sentence = CLAIMS["growth"].format(L=int(one["right"]), slower=slower)
    return sentence.equals(gaps[worst], 0.0, bounds[worst])


def check(data: xr.Dataset) -> list[Claim]:
    """The exact rate over that of Eq. 116, against M at L = N, and against N at fixed L."""
    by_M, by_N = (
        (data[f"uniform_{name}"] / data[f"exact_{name}"]).transpose(name, "teacher")
        for name in ("rate_M", "rate_N")
    )
    ratio, M = np.log(by_M.values), data["rate_M"].values
    fit = ld.analysis.fit_line(np.repeat(np.log(M), ratio.shape[1]), ratio.ravel())
    largest = {"times": float(np.exp(ratio[-1].mean())), "M": M[-1]}
    rank_one = CLAIMS["rank one"].format(**largest, N=data.attrs["left_N"], count=ratio.size)
    gap, N = by_N - 1, np.log(data["rate_N"].values[-3:])
    mean, count = gap.mean("teacher").values[-3:], gap.sizes["teacher"]
    error = gap.std("teacher").values[-3:] / np.sqrt(count) / mean
    noise = float(np.hypot(error[0], error[-1]) / (N[-1] - N[0]))
    averaging = CLAIMS["N ≫ L"].format(L=int(data["right"][0]), count=count)
    slope = np.polyfit(N, np.log(mean), 1)[0]
    return [
        rank_one.equals(fit.slope, 1.0, 1 / M[0] + normal_bound() * fit.error),
        averaging.equals(slope, -0.5, mean[-1] + normal_bound() * noise),
    ]
