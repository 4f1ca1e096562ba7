"""Fig. 2: the linear student, Eq. 6 against Eq. 8 (left) and Eq. 9 against simulations (right).

Left, N = L: the first direction holds a fraction λ₁/N of the input's square that does not vanish
as N grows, so that Eq. 6 is not the mean of a student of any size: at η = 1 the exact mean
(order "finite") is carried by rare runs. Five initialisations scatter; an even start, with every
mode at its expected square (a student at 0, teacher entries ±√(1+σ_J²)), has the same mean and
no scatter, and gives the exponent. The third panel has few levels, where Eq. 6 in its
corrected form is exact and the printed one is not. The quick preset has fewer runs and shorter
ones.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling import _fig2_claims as claims
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import corrections, learning_curve
from learndyn.theory.committee.setting import Setting

TITLE = "Linear student: Eqs. 6 and 8 at η = 1, Eq. 9 against simulations, Eq. 6 as printed"
LEFT = {"beta": 1.0, "eta": 1.0, "sigma_J": 1.0}
RIGHT = {"beta": 0.75, "eta": 0.1, "sigma_J": 0.01}
FEW = {"beta": 1.0, "eta": 0.5, "sigma_J": 1.0}  # at η = 1 the printed form is zero


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the three panels; the third has `few_levels` levels in `few_dim` dimensions."""

    N_left: int = 128
    left_runs: int = 160
    left_until: float = 10.0
    left_points: int = 10
    N_right: int = 256
    initialisations: int = 5
    even_runs: int = 6
    right_until: float = 120.0
    few_dim: int = 512
    few_levels: int = 4
    few_runs: int = 12
    few_until: float = 6.0
    points: int = 40
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        left_runs=2000,
        left_until=100.0,
        left_points=30,
        right_until=1000.0,
        few_dim=2048,
        few_runs=40,
        points=80,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The three panels, each with its own times."""
    left = _left(params)
    report(0.4)
    right = _right(params, lambda part: report(0.4 + 0.4 * part))
    few = _few(params)
    report(1.0)
    attrs = {**dataclasses.asdict(params), "beta": RIGHT["beta"], "eta": RIGHT["eta"]}
    return xr.merge([left, right, few]).assign_attrs(attrs)


def _left(params: Params) -> xr.Dataset:
    """From the even start: the equations, the exact mean, and runs."""
    N, times = params.N_left, _times(params.N_left, params.left_until, params.left_points)
    system, start = _even_start(N, LEFT)
    runs = ld.simulate(
        system, times, start=start, runs=params.left_runs, key=params.key, method="direct"
    )
    curve = lambda order: ld.solve(system, times, start=start, order=order)["error"]
    return xr.Dataset(
        {
            "left_full": ("left", curve("full").values),
            "left_flow": ("left", curve("flow").values),
            "left_finite": ("left", curve("finite").values),
            "left_median": ("left", runs["error"].median("run").values),
            "left_mean": ("left", runs["error"].mean("run").values),
            "wide_ratio": _mean_over_ode(4 * N),
        },
        {"left": times},
    )


def _even_start(N: int, given: dict[str, float]) -> tuple[ld.System, ld.Start]:
    system = _system(N, given)
    mean = linear.mean_state(Setting.of(system))
    nothing = np.zeros_like(mean.R)
    return system, ld.start(system, state=ld.Overlaps(nothing, nothing, mean.T + mean.Q))


def _system(N: int, given: dict[str, float], levels: int | None = None) -> ld.System:
    spectrum = ld.PowerLaw(N, levels or N, given["beta"])
    return committee_system("linear", spectrum, eta=given["eta"], sigma_J=given["sigma_J"])


def _mean_over_ode(N: int) -> float:
    """The exact mean over Eq. 6 at α = 1."""
    system, start = _even_start(N, LEFT)
    exact, ode = (ld.solve(system, [1.0], start=start, order=o) for o in ("finite", "full"))
    return float(exact["error"][0] / ode["error"][0])


def _right(params: Params, report: Report) -> xr.Dataset:
    """Students with their teachers, runs from the even start, and the exact mean."""
    N, times = params.N_right, _times(params.N_right, params.right_until, params.points)
    system, even = _even_start(N, RIGHT)
    errors = []
    for number in range(params.initialisations):
        key = params.initialisations * params.key + number
        start = ld.start(system, key=key)
        run = ld.simulate(system, times, start=start, key=key, method="direct")
        errors.append(run["error"].values[0])
        report((number + 1) / (params.initialisations + 1))
    runs = ld.simulate(
        system, times, start=even, runs=params.even_runs, key=params.key, method="direct"
    )
    units = {**RIGHT, "lam_plus": learning_curve.lam_plus(N, RIGHT["beta"]), "L": N}
    forms = {
        "right_eq8": learning_curve.error_sum,
        "right_eq9": learning_curve.error_integral,
        "right_ends": learning_curve.end_correction,
        "right_remainder": corrections.sum_remainder,
        "right_noise": corrections.noise_remainder,
    }
    exact = ld.solve(system, times, start=even, order="finite")["error"]
    return xr.Dataset(
        {
            **{name: ("right", form(times, **units)) for name, form in forms.items()},
            "right_error": (("initialisation", "right"), np.array(errors)),
            "right_even": (("even", "right"), runs["error"].values),
            "right_exact": ("right", exact.values),
        },
        {"right": times},
    )


def _few(params: Params) -> xr.Dataset:
    """Few levels, many dimensions each: printed, corrected and simulated."""
    times = _times(params.few_dim, params.few_until, params.points)
    system = _system(params.few_dim, FEW, params.few_levels)
    setting = Setting.of(system)
    start = ld.start(system, state=linear.mean_state(setting))
    runs = ld.simulate(system, times, start=start, runs=params.few_runs, key=params.key)
    curve = lambda order: ld.solve(system, times, start=start, order=order)["error"].values
    printed = errata.printed_eq6(times, setting.spectrum, FEW["eta"], FEW["sigma_J"])
    at_one = errata.printed_eq6(times, setting.spectrum, LEFT["eta"], LEFT["sigma_J"])
    return xr.Dataset(
        {
            "few_full": ("few", curve("full")),
            "few_finite": ("few", curve("finite")),
            "few_printed": ("few", printed),
            "few_printed_at_one": ("few", at_one),
            "few_error": (("run", "few"), runs["error"].values),
        },
        {"few": times},
    )


def _times(N: int, last: float, points: int) -> np.ndarray:
    """Whole steps, about evenly spaced in ln α from some ten steps on, α = 1 and 2 included."""
    wanted = np.append(np.geomspace(0.08, last, points), [1.0, 2.0])
    return np.unique(np.rint(wanted * N)) / N


def draw(data: xr.Dataset) -> Figure:
    """Left and right as in the paper, and Eq. 6 as printed."""
    figure, axes = panels(3, columns=3, size=(4.4, 3.8))
    for axis, form in zip(axes, (_draw_left, _draw_right, _draw_few), strict=True):
        form(axis, data)
        axis.set(xscale="log", yscale="log", xlabel="α [steps / N]")
        axis.legend(frameon=False, fontsize=8, loc="lower left")
    axes[0].set_ylabel("generalisation error")
    return figure


def _draw_left(axis: Axes, data: xr.Dataset) -> None:
    time, runs = data["left"], data.attrs["left_runs"]
    axis.plot(time, data["left_finite"], color="C3", label="exact mean at this N")
    axis.plot(time, data["left_full"], color="C1", label="Eq. 6, corrected")
    axis.plot(time, data["left_flow"], color="C0", label="Eq. 8, η → 0")
    axis.plot(time, data["left_mean"], "x", color="0.5", ms=3, label=f"mean of {runs} runs")
    axis.plot(time, data["left_median"], "o", color="k", ms=2.5, label="their median")
    axis.set_title(f"N = L = {data.attrs['N_left']}, β = 1, η = 1", fontsize=9)


def _draw_right(axis: Axes, data: xr.Dataset) -> None:
    time, mean = data["right"], data["right_error"].mean("initialisation")
    axis.plot(time, data["right_eq9"], color="C1", label="Eq. 9")
    count = data.sizes["initialisation"]
    axis.plot(time, mean, "x", color="0.5", ms=3, label=f"mean of {count} initialisations")
    even = data["right_even"].mean("even")
    axis.plot(time, even, "o", color="k", ms=2.5, label=f"even start, {data.sizes['even']} runs")
    part = claims.window_part(data)
    for form, color, label in (
        ("corrected", "C2", "with finite-L term"),
        ("pure", "C4", "without"),
    ):
        fit, line = claims.fitted(data, even, form)
        label = f"0.6 × fit {label}, s = {fit:.3f}"
        axis.plot(part["right"], 0.6 * line, color=color, lw=1, label=label)
    beta, eta = data.attrs["beta"], data.attrs["eta"]
    axis.set_title(f"N = L = {data.attrs['N_right']}, β = {beta:g}, η = {eta:g}", fontsize=9)


def _draw_few(axis: Axes, data: xr.Dataset) -> None:
    runs = f"simulation, {data.sizes['run']} runs"
    axis.plot(data["few"], data["few_full"], color="C1", label="Eq. 6, corrected")
    axis.plot(data["few"], data["few_printed"], ":", color="C3", label="Eq. 6 as printed")
    axis.plot(data["few"], data["few_error"].mean("run"), "o", color="k", ms=2.5, label=runs)
    sizes = f"N = {data.attrs['few_dim']}, L = {data.attrs['few_levels']}"
    axis.set_title(f"{sizes}, β = {FEW['beta']:g}, η = {FEW['eta']:g}", fontsize=9)


def check(data: xr.Dataset) -> list[Claim]:
    """Left, right, and the erratum."""
    return [*claims.left(data), *claims.right(data), *claims.few(data)]
