"""Eq. 13 and Sec. 7.3: how the loss leaves the plateau, and how little that depends on p.

The time to half of the loss scatters with |ρ(0)| by more than the width changes it. The effect of
|ρ(0)| is known (an e-fold costs 1/ω_ρ), so each time is first corrected to a start of size ε. The
late form of Eq. 13 at half of the loss is an extrapolation, whose error is only roughly the same
for all widths: it is drawn, and no claim rests on it. The quick preset has fewer widths.

Notes: docs/results/bocchi2026escape/escape/notes.md.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.runtime.types import Int
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import nested, ode, sizes, small_overlaps
from learndyn.studies.claims import Claim, Interval, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL, mean_square_bound, student_tolerance
from learndyn.theory.committee.errata import printed_eq13_rate
from learndyn.theory.committee.plateau import quadratic

TITLE = "Loss reduction on the plateau (Eq. 13) and the time of escape against p (p* = 3)"
DIFFERS = "Eq. 13 and Sec. 7.3 have no figure and no sizes; here p* = 3, p = 3 to 12, 20 starts"
LINEAR = "linearisation: |ρ|² at the end"
EACH = "every width: largest relative deviation of a start from {} in units of its |ρ|² at the end"
TIME = "Sec. 4.1, Time of escape"
HALF = "from p = {first} to {last}, α at half loss, η = p, corrected to one |ρ(0)|,"
CLAIMS = {
    "mean": claim("p = {p}: mean relative loss reduction of starts on the plateau at ηα = {t:g}",
                  "Eq. 13", because="|ρ|² of {starts} starts, χ² distribution, 1 %",
                  rate=1 - LEVEL),
    "rate": claim("p = {p}: the reduction grows as exp(rate · ηα) − 1, with the rate",
                  "Eq. 13, with t = ηα as defined before it", because=LINEAR)
    .erratum("16/p* = {printed:.4g}, which is the rate per ηα/p, the time of Sec. 7.3"),
    "scale": claim("at η = p the reduction has the time scale p*/16 at every p: the scale farthest "
                   "from it", "Eq. 13, after it", because=LINEAR),
    "drawn": claim(EACH.format("Eq. 13 for its own ρ,"), "Eq. 13 and Sec. 7.3",
                   within=Tolerance(1.0, LINEAR)),
    "settled": claim(EACH.format("Eq. 13 times p/(p+2), once norms have settled,"),
                     "Eq. 13 and Sec. 7.3", kind="finding", within=Tolerance(1.0, LINEAR)),
    "weak": claim(f"{HALF} changes by less than one time scale p*/16: mean change", TIME),
    "falls": claim(f"{HALF} falls: mean change", TIME),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Runs from starts of size `small` last η α = `linear` p, from the paper's `whole` p."""

    widths: tuple[int, ...] = (3, 8)
    p_star: int = 3
    small: float = 1e-4
    epsilon: float = 0.01
    linear: float = 1.5
    whole: float = 3.0
    points: int = 121
    starts: int = 16
    key: int = 0


PARTS = {"widths": "p"}
PRESETS = {"quick": Params(), "paper": Params(widths=(3, 4, 6, 8, 12), starts=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow from starts on the plateau and from Q = I, for every width."""
    jobs = [(p, params.key + start) for p in params.widths for start in range(params.starts)]
    rows = [_one(params, *job) for job in cases(jobs, report)]
    widths = xr.Variable("p", list(params.widths), {"long_name": "student width p"})
    attributes = {name: getattr(params, name) for name in ("p_star", "small", "epsilon")}
    return nested(rows, widths, "start").assign_attrs(attributes)


def _one(params: Params, p: int, key: int) -> xr.Dataset:
    """Relative loss reductions, and α at half loss, from the same random directions."""
    start = lambda size, norm=1.0: small_overlaps(p, params.p_star, size, key, norm)
    # At η = p time α is that of Sec. 7.3. At first the loss changes by parts in a million.
    options = {"order": "flow", "rtol": 1e-12, "atol": 1e-15}
    times = lambda length: np.linspace(0, length, params.points)
    flow = lambda state, length: ode(state, float(p), times(length), **options)
    on_plateau = start(params.small, quadratic.norm_fixed_point(p))
    plateau, identity = (
        flow(state, params.linear)["error"] for state in (on_plateau, start(params.small))
    )
    reduction = lambda error, reference: ("time", ((reference - error) / reference).values)
    table = {
        "from_plateau": reduction(plateau, plateau[0]),
        "from_identity": reduction(identity, quadratic.plateau_risk(p, params.p_star)),
        "size": np.sqrt(np.mean(on_plateau.R**2)),
        "half": ld.analysis.fall_time(flow(start(params.epsilon), params.whole)),
    }
    return xr.Dataset(table, {"time": plateau["time"].values})


def draw(data: xr.Dataset) -> Figure:
    """Left: mean loss reduction of the last width. Right: α at half loss against p."""
    figure, (left, right) = panels(2)
    one, alpha, small = data.isel(p=-1), data["time"].values[1:], data.attrs["small"]
    p, p_star = sizes(one)
    rows = [
        ("from_plateau", quadratic.loss_reduction, "starts on the plateau", "Eq. 13"),
        ("from_identity", quadratic.late_loss_reduction, "starts at Q = I", "its late form"),
    ]
    for k, (name, form, label, form_label) in enumerate(rows):
        mean = one[name].mean("start")[1:]
        points, curve = mean.where(mean > 0)[2::4], form(alpha * p, p, p_star, small)
        left.plot(alpha[2::4], points, "o", ms=3, color=f"C{k}", label=f"{label}, ODE")
        left.plot(alpha, curve, color=f"C{k}", lw=1.2, label=form_label)
    title = f"p = {p}, p* = {p_star}, ε = {small:g}"
    finish(left, "ηα / p", "mean relative loss reduction", title, yscale="log")
    widths, (mean, error) = data["p"].values, _half(data)
    label = f"ODE, {data.sizes['start']} starts, at one |ρ(0)|"
    right.errorbar(widths, mean, error, fmt="o", ms=4, label=label)
    wide, late = range(widths[0], widths[-1] + 1), "late form of Eq. 13, extrapolated"
    right.plot(wide, [_late_half(data, w) for w in wide], color="0.3", lw=1.2, label=late)
    right.set_ylim(0, 1.4 * mean.max())
    title = f"p* = {p_star}, ε = {data.attrs['epsilon']:g}"
    finish(right, "student width p", "ηα / p at half of the initial loss", title)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Eq. 13, its clock, its form for starts at Q = I, and the escape against p."""
    one, small, end = data.isel(p=-1), data.attrs["small"], float(data["time"][-1])
    p, p_star = sizes(one)
    t, starts, printed = end * p, one.sizes["start"], printed_eq13_rate(p_star)
    expected = float(quadratic.loss_reduction(t, p, p_star, small))
    square = lambda p: quadratic.overlap_square(end * p, int(p), p_star, small)
    rises = data["from_plateau"].mean("start").transpose("p", "time").values
    rate = lambda rise, time: ld.analysis.doubling_rate(rise[len(rise) // 2], rise[-1], time)
    scales, scale = np.array([1 / rate(y, end) for y in rises]), quadratic.loss_time_scale(p_star)
    return [
        CLAIMS["mean"].format(p=p, t=t, starts=starts).equals(
            one["from_plateau"].isel(time=-1).mean(), expected,
            expected * mean_square_bound(p * p_star * starts),  # of all ρ together
        ),
        CLAIMS["rate"].format(p=p, printed=printed).erratum(value=printed).equals(
            rate(rises[-1], t), 2 * quadratic.growth_rate(p, p_star), square(p)
        ),
        CLAIMS["scale"].equals(
            scales[np.argmax(abs(scales - scale))], scale, max(map(square, data["p"].values))
        ),
        CLAIMS["drawn"].equals(_deviation(data, "from_plateau", quadratic.loss_reduction), 0.0),
        CLAIMS["settled"].equals(
            _deviation(data, "from_identity", quadratic.late_loss_reduction), 0.0
        ),
        *_widths(data, scale),
    ]  # fmt: skip


def _deviation(data: xr.Dataset, name: str, form: Callable) -> float:
    """The largest over widths and starts, with the ρ that was drawn instead of its variance."""
    largest = []
    for one in (data.sel(p=p) for p in data["p"]):
        size, t = sizes(one), float(one["time"][-1]) * int(one["p"])
        ratio = one[name].isel(time=-1) / form(t, *size, one["size"].values)
        squares = [quadratic.overlap_square(t, *size, float(drawn)) for drawn in one["size"]]
        largest.append(float((np.abs(ratio - 1) / squares).max()))
    return max(largest)


def _widths(data: xr.Dataset, scale: float) -> list[Claim]:
    """How much later or earlier the widest student escapes than the narrowest, at η ∝ p."""
    p, count, (mean, error) = data["p"].values, data.sizes["start"], _half(data)
    change = float(mean[-1] - mean[0])
    chance = student_tolerance(np.hypot(error[0], error[-1]), count, "starts", sides=1)
    found = Interval(change, change - chance.value, change + chance.value, chance.because)
    weak, falls = (CLAIMS[name].format(first=p[0], last=p[-1]) for name in ("weak", "falls"))
    return [
        weak.equals(found, 0.0, scale),
        falls.at_most(found, 0.0),
    ]


def _late_half(data: xr.Dataset, p: Int, relative: float = 1.0) -> float:
    """α at half loss by the late form of Eq. 13, extrapolated, at η = p and size ε · relative."""
    size = data.attrs["epsilon"] * relative
    return quadratic.half_loss_time(int(p), int(data.attrs["p_star"]), float(size)) / p


def _half(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over starts of α at half loss, at the size ε, for each width."""
    relative = (data["size"] / data.attrs["small"]).transpose("p", "start").values
    late = [
        [_late_half(data, p, size) for size in row]
        for p, row in zip(data["p"].values, relative, strict=True)
    ]
    at_epsilon = xr.DataArray([_late_half(data, p) for p in data["p"].values], dims="p")
    corrected = data["half"].transpose("p", "start") - np.array(late) + at_epsilon
    mean, error = ld.analysis.mean_and_error(corrected.rename(start="run"))
    return mean.values, error.values
