"""Eq. 13 and Sec. 7.3: how the loss leaves the plateau, and how little that depends on p.

The time to half of the loss scatters with |ρ(0)| by more than the width changes it. What a start's
own |ρ(0)| does is known (an e-fold costs 1/ω_ρ), so each time is brought to the size ε of the law
before widths are compared: the scatter that is left is five times smaller, as seen at key 500. The
late form of Eq. 13 at half of the loss is an extrapolation, whose error is the same time for all
widths only roughly: no claim rests on it.

The quick preset has fewer widths.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, Kind, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_square_bound, student_bound
from learndyn.theory.committee.errata import printed_eq13_rate
from learndyn.theory.committee.plateau import quadratic

TITLE = "Loss reduction on the plateau (Eq. 13) and the time of escape against p (p* = 3)"
LEVEL = 0.01  # chance of a false alarm in each claim on random starts
LINEAR = "linearisation: |ρ|² at the end"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study. Runs last η α = `linear` p and `whole` p.

    Starts of size `small` stay in the linear regime, those of size `epsilon` are the paper's.
    """

    widths: tuple[int, ...] = (3, 8)
    p_star: int = 3
    small: float = 1e-4
    epsilon: float = 0.01
    linear: float = 1.5
    whole: float = 3.0
    points: int = 121
    starts: int = 16
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(widths=(3, 4, 6, 8, 12), starts=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow from starts on the plateau and from Q = I, for every width."""
    jobs = [(p, params.key + start) for p in params.widths for start in range(params.starts)]
    found = [_one(params, *job) for job in cases(jobs, report)]
    rows = [found[i : i + params.starts] for i in range(0, len(found), params.starts)]
    widths = xr.Variable("p", list(params.widths), {"long_name": "student width p"})
    data = xr.concat([xr.concat(row, "start") for row in rows], widths)
    return data.assign_attrs(p_star=params.p_star, small=params.small, epsilon=params.epsilon)


def _one(params: Params, p: int, key: int) -> xr.Dataset:
    """Relative loss reductions, and α at half loss, from the same random directions."""
    start = lambda size, norm=1.0: small_overlaps(p, params.p_star, size, key, norm)
    plateau = start(params.small, quadratic.norm_fixed_point(p))
    errors = [_flow(params, s, params.linear)["error"] for s in (plateau, start(params.small))]
    references = errors[0][0], quadratic.plateau_risk(p, params.p_star)
    names = ("from_plateau", "from_identity")
    reductions = {
        name: ("time", ((reference - error) / reference).values)
        for name, error, reference in zip(names, errors, references, strict=True)
    }
    whole = _flow(params, start(params.epsilon), params.whole)
    size = np.sqrt(np.mean(plateau.R**2))
    times = {"time": errors[0]["time"].values}
    return xr.Dataset({**reductions, "size": size, "half": ld.analysis.fall_time(whole)}, times)


def _flow(params: Params, state: ld.Overlaps, length: float) -> xr.Dataset:
    """The flow at η = p, so that its time α is that of Sec. 7.3."""
    p = state.R.shape[1]
    system = quadratic_system(p, params.p_star, eta=float(p), N=1000)
    times = np.linspace(0, length, params.points)
    begin = ld.start(system, state=state)
    # The loss changes by parts in a million at first.
    return ld.solve(system, times, start=begin, order="flow", rtol=1e-12, atol=1e-15)


def draw(data: xr.Dataset) -> Figure:
    """Left: mean loss reduction of the last width. Right: α at half loss against p."""
    figure, (left, right) = panels(2)
    one, alpha = data.isel(p=-1), data["time"].values[1:]
    p, p_star, small, _ = _sizes(one)
    rows = [
        ("from_plateau", quadratic.loss_reduction, "starts on the plateau", "Eq. 13"),
        ("from_identity", quadratic.late_loss_reduction, "starts at Q = I", "its late form"),
    ]
    for k, (name, form, label, law) in enumerate(rows):
        mean = one[name].mean("start")[1:]
        every = mean.where(mean > 0)[2::4]
        left.plot(alpha[2::4], every, "o", ms=3, color=f"C{k}", label=f"{label}, ODE")
        left.plot(alpha, form(alpha * p, p, p_star, small), color=f"C{k}", lw=1.2, label=law)
    left.set(yscale="log", xlabel="ηα / p", ylabel="mean relative loss reduction")
    left.set_title(f"p = {p}, p* = {p_star}, ε = {small:g}", fontsize=9)
    _draw_half(right, data)
    legend(left)
    legend(right)
    return figure


def _draw_half(axis, data: xr.Dataset) -> None:
    p, p_star, epsilon = data["p"].values, int(data.attrs["p_star"]), data.attrs["epsilon"]
    mean, error = _half(data)
    axis.errorbar(
        p, mean, error, fmt="o", ms=4, label=f"ODE, {data.sizes['start']} starts, at one |ρ(0)|"
    )
    wide = range(p[0], p[-1] + 1)
    axis.plot(
        wide, _late_form(data, wide), color="0.3", lw=1.2, label="late form of Eq. 13, extrapolated"
    )
    axis.set(xlabel="student width p", ylabel="ηα / p at half of the initial loss")
    axis.set(ylim=(0, 1.4 * mean.max()))
    axis.set_title(f"p* = {p_star}, ε = {epsilon:g}", fontsize=9)


def check(data: xr.Dataset) -> list[Claim]:
    """Eq. 13, its clock, its form for starts at Q = I, and the escape against p."""
    one = data.isel(p=-1)
    return [_average(one), _clock(one), _time_scale(data), *_each_start(data), *_widths(data)]


def _average(one: xr.Dataset) -> Claim:
    p, p_star, small, t = _sizes(one)
    expected = float(quadratic.loss_reduction(t, p, p_star, small))
    starts = one.sizes["start"]
    farther = mean_square_bound(p * p_star * starts, LEVEL)  # of all ρ together
    said = f"p = {p}: mean relative loss reduction of starts on the plateau, ηα = {t:g}"
    return claim(said, "Eq. 13").equals(
        one["from_plateau"].isel(time=-1).mean(), expected, within=expected * farther,
        because=f"|ρ|² of {starts} starts, χ² at {LEVEL:.0%}", rate=1 - LEVEL,
    )  # fmt: skip


def _clock(one: xr.Dataset) -> Claim:
    p, p_star, small, t = _sizes(one)
    rise, printed = one["from_plateau"].mean("start").values, printed_eq13_rate(p_star)
    said = f"p = {p}: the reduction grows as exp(rate · ηα) − 1, with the rate"
    text = f"16/p* = {printed:.4g}, true for the t̃ = ηα/p of Sec. 7.3 only"
    sentence = claim(said, "Eq. 13, with t = ηα as defined before it").erratum(text, printed)
    return sentence.equals(
        ld.analysis.doubling_rate(rise[len(rise) // 2], rise[-1], t),
        2 * quadratic.growth_rate(p, p_star),
        within=quadratic.overlap_square(t, p, p_star, small),
        because=LINEAR,
    )


def _time_scale(data: xr.Dataset) -> Claim:
    """The clock of every width in t̃ = ηα/p, which is the time of these runs."""
    p_star, small, end = int(data.attrs["p_star"]), data.attrs["small"], float(data["time"][-1])
    rises = data["from_plateau"].mean("start").transpose("p", "time").values
    scales = np.array([1 / ld.analysis.doubling_rate(y[len(y) // 2], y[-1], end) for y in rises])
    expected, widths = quadratic.loss_time_scale(p_star), data["p"].values
    within = max(quadratic.overlap_square(end * p, int(p), p_star, small) for p in widths)
    said = "at η = p the reduction has the time scale p*/16 whatever p is: farthest over widths"
    return claim(said, "Eq. 13, after it").equals(
        scales[np.argmax(abs(scales - expected))], expected, within=within, because=LINEAR
    )


def _each_start(data: xr.Dataset) -> list[Claim]:
    """Start by start, with the ρ that was drawn instead of its variance."""
    late = "Eq. 13 times p/(p+2), once norms have settled"
    rows: list[tuple[str, str, Callable, Kind]] = [
        ("from_plateau", "Eq. 13, for the ρ drawn", quadratic.loss_reduction, "claim"),
        ("from_identity", late, quadratic.late_loss_reduction, "finding"),
    ]
    said = lambda law: f"every width: largest relative deviation of a start from {law}, in units "
    return [
        claim(f"{said(law)}of its |ρ|² at the end", "Eq. 13 and Sec. 7.3", kind=kind).equals(
            max(_deviation(data.sel(p=p), name, form) for p in data["p"]), 0.0, within=1.0,
            because=LINEAR,
        )
        for name, law, form, kind in rows
    ]  # fmt: skip


def _deviation(one: xr.Dataset, name: str, form: Callable) -> float:
    p, p_star, _, t = _sizes(one)
    ratio = one[name].isel(time=-1) / form(t, p, p_star, one["size"].values)
    squares = [quadratic.overlap_square(t, p, p_star, float(size)) for size in one["size"]]
    return float((np.abs(ratio - 1) / squares).max())


def _widths(data: xr.Dataset) -> list[Claim]:
    """How much later or earlier the widest student escapes than the narrowest, at η ∝ p."""
    p, p_star, count = data["p"].values, int(data.attrs["p_star"]), data.sizes["start"]
    mean, error = _half(data)
    change = float(mean[-1] - mean[0])
    chance = student_bound(count, level=LEVEL, sides=1) * float(np.hypot(error[0], error[-1]))
    because = f"Student t, {count} starts, {LEVEL:.0%}"
    said = f"from p = {p[0]} to {p[-1]} α at half loss, η = p, brought to one |ρ(0)|"
    weak = f"{said}, changes by less than one time scale p*/16: upper confidence limit"
    earlier = f"{said}, falls: upper confidence limit of the change"
    of = "Sec. 4.1, Time of escape"
    ended = {"because": because, "rate": 1 - LEVEL}
    return [
        claim(weak, of).at_most(abs(change) + chance, quadratic.loss_time_scale(p_star), **ended),
        claim(earlier, of).at_most(change + chance, 0.0, **ended),
    ]


def _late_form(data: xr.Dataset, widths) -> list[float]:
    """The late form of Eq. 13, extrapolated to half loss: α at η = p, for each width."""
    given = int(data.attrs["p_star"]), data.attrs["epsilon"]
    return [quadratic.half_loss_time(int(p), *given) / p for p in widths]


def _half(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over starts of α at half loss, at the size ε, for each width."""
    sizes = data["size"] * (data.attrs["epsilon"] / data.attrs["small"])
    late = [
        [
            quadratic.half_loss_time(int(p), int(data.attrs["p_star"]), float(size)) / p
            for size in row
        ]
        for p, row in zip(data["p"].values, sizes.transpose("p", "start").values, strict=True)
    ]
    own = data["half"].transpose("p", "start") - np.array(late)
    at_law = own + xr.DataArray(_late_form(data, data["p"].values), dims="p")
    mean, error = ld.analysis.mean_and_error(at_law.rename(start="run"))
    return mean.values, error.values


def _sizes(one: xr.Dataset) -> tuple[int, int, float, float]:
    """p, p*, size of the small starts, and the last ηα of their runs."""
    p = int(one["p"])
    return p, int(one.attrs["p_star"]), one.attrs["small"], float(one["time"][-1]) * p
