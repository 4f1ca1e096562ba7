"""Fig. 6: the error falls as a power law of α once students have specialised.

Left: flows from drawn teachers and students, averaged, real students beside some of them, and the
law of the late stage in which every level starts unlearned, which has no free parameter. Exponents
are means over starts with their intervals. Nothing is said of a regime that has not begun: where a
student has no teacher of its own when the fit begins, rows are open, without numbers. Right: Eq. 17
from the flow's state at α₀.

The quick preset has K = M = 2 and 4 instead of 40, fewer starts and exponents, and η = 0.1 instead
of 0.01, which rescales the clock of a flow; its students learn until ηα = 100 (200 in the other
preset), not 500. K = M = 8 (a minute a flow) and 40 are left to the other preset. K = M = 4 and 8
run ten and a hundred times as long as 40, since a start in some stays on its plateau for long, and
at β = 1.5, where finite L matters least by then.

Sizes were chosen after flows at the keys 100 and 101, where K = M = 4 has found its teachers at ηα
of 13 to 27. At key 0 one start of five did so at ηα = 200 and β = 1, in the midst of the fit, and
one at ηα of 400 to 1000 and β = 1.5: so the rule is asked where the fit begins, and these runs
became as long as they are. Chance above a fifth of an exponent no longer leaves a row open. For the
time of the quick preset its students' was halved, and flows have tolerances ten times as wide,
after it was seen at the keys 0 and 2 that their errors at K = M = 4 change by 10⁻⁵ or less where
they are fitted. No verdict changed. At key 0 the last student of K = M = 8 finds its teacher at
ηα = 3600, before a fit to ηα = 5·10⁴ begins: that end was chosen after it, and was 5·10³.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_bound
from learndyn.studies.worschech2024scaling import _erf
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.late_stage import deviations
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.power_law import corrections, learning_curve

TITLE = "The asymptotic regime: error ∝ α^(−β/(1+β)), and Eq. 17 against the flow"
VISIBLE = 0.2  # where finite L changes an exponent by more, a fit does not decide about it; chance
# that leaves more of it open is no excuse
NEAR = 0.25  # |J − B|/|B| up to which a run is called late
ALIGNED = 0.9  # overlap, as a cosine, from which on a student has found its teacher
UNITS_BETA = 1.5  # of further units: finite L matters least there
FIT = 5  # fits are over the last factor 5 in α
LEVEL = 0.01  # chance of a false alarm of each statistical claim
LEFT = "Fig. 6 left, Sec. 5.2"
NEGLECTED = "levels learn from α = 0 or from the escape; next order |J − B|/|B|"
NOT_RUN = "not run at this size, which the paper preset has"
SETTLED = 4  # students are compared from half of their last α on, where flows left by a quarter
RTOL, ATOL = 1e-5, 1e-8  # of flows


@dataclasses.dataclass(frozen=True)
class Params:
    """Left: exponents β at K = M, then further `units` at UNITS_BETA until last α of their own.

    The first `students` starts of K = M at β = 1 are also simulated, until `student_end`; sizes
    `not_run` are said to be open. Right: number of eigenvalues, dimension, last α and where Eq. 17
    begins.
    """

    betas: tuple[float, ...] = (1.0, 1.5)
    M: int = 2
    N: int = 512
    eta: float = 0.1
    sigma_J: float = 1e-6
    end: float = 5e3
    units: tuple[int, ...] = (4,)
    units_end: tuple[float, ...] = (5e4,)
    not_run: tuple[int, ...] = (8, 40)
    students: int = 5
    student_end: float = 1e3
    points: int = 61
    starts: int = 5
    right_L: int = 9
    right_N: int = 9000
    right_end: float = 3000.0
    alpha_0: float = 1000.0
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        betas=(0.5, 0.75, 1.0, 1.25, 1.5),
        M=40,
        eta=0.01,
        end=5e4,
        units=(4, 8),
        units_end=(5e5, 5e6),
        not_run=(),
        student_end=2e4,
        starts=10,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flows of every case and start with their late law, students, and the late stage."""
    sizes = [(params.M, beta, params.end) for beta in params.betas]
    further = zip(params.units, params.units_end, strict=True)
    sizes += [(M, UNITS_BETA, end) for M, end in further]
    keys = range(params.starts * params.key, params.starts * (params.key + 1))
    jobs = [(size, key) for size in sizes for key in keys]
    rows = {job: _one(params, *job) for job in cases(jobs, report, end=0.7)}
    flows = [xr.concat([rows[size, key] for key in keys], "start") for size in sizes]
    M, beta, _ = zip(*sizes, strict=True)
    left = xr.concat(flows, "case").assign_coords(M=("case", [*M]), beta=("case", [*beta]))
    left = left.assign(_students(params, [*keys][: params.students]))
    times = np.linspace(0, params.right_end, 121)
    right = _erf.late_stage(params.right_L, params.right_N, times, params.alpha_0, params.key)
    report(1.0)
    right = right.drop_vars("slow_rate").rename(time="alpha")
    right = {f"right_{name}": values for name, values in right.data_vars.items()}
    names = ("M", "N", "eta", "sigma_J", "right_L", "right_N", "alpha_0")
    kept = {name: getattr(params, name) for name in names}
    not_run = " ".join(map(str, params.not_run))
    return left.assign(right).assign_attrs({**kept, "not_run": not_run})


def _system(params: Params, M: int, beta: float) -> ld.System:
    spectrum = ld.PowerLaw(params.N, params.N, beta)
    return committee_system("erf", spectrum, K=M, M=M, eta=params.eta, sigma_J=params.sigma_J)


def _times(params: Params, end: float) -> np.ndarray:
    first = 0.1 / params.eta
    return np.concatenate([[0.0], np.geomspace(first, end, params.points)])


def _one(params: Params, size: tuple[int, float, float], key: int) -> xr.Dataset:
    """One flow, the law of its teacher, when it specialised and how far it is at the end.

    `apart` counts students without a teacher of their own where the fit begins.
    """
    M, beta, end = size
    system, times = _system(params, M, beta), _times(params, end)
    start, lam = ld.start(system, key=key), _erf.eigenvalues(system)
    record = ld.solve(system, times, start=start, order="flow", rtol=RTOL, atol=ATOL)
    t, plateau = start.state.T, float(_erf.predictions(system, start.state)["error_exact"])
    T, left = moment(t, lam, 1), float(_erf.leaving(record, plateau, 0.5).fillna(end))
    law = lambda alphas: erf_late.late_curve(alphas, t, T, lam, params.eta)
    # Summed over levels, the overlaps are those of one level with λ = 1.
    overlaps = lambda i: ld.Overlaps(record["Q"].values[i], record["R"].values[i], T)
    fitted = int(np.argmax(times >= end / FIT))
    first, last = (deviations.in_teachers_order(overlaps(i), [1.0]) for i in (fitted, -1))
    return xr.Dataset(
        {
            "alpha_left": ("point", times),
            "error": ("point", record["error"].values),
            "law": ("point", law(times)),
            "law_from_escape": ("point", law(np.maximum(times - left, 0))),
            "escape": left,
            "distance": deviations.distance(last, [1.0]),
            "apart": int(np.sum(deviations.alignments(first, [1.0]) < ALIGNED)),
        }
    )


def _students(params: Params, keys: list[int]) -> xr.Dataset:
    """Real students of the first starts, and the flows from them, at the same α."""
    system = _system(params, params.M, 1.0)
    times = np.unique(np.rint(_times(params, params.student_end) * system.dim)) / system.dim
    starts = [ld.start(system, key=key) for key in keys]
    runs = ld.simulate(system, times, starts=starts, key=params.key, method="direct")
    flow = lambda start: ld.solve(system, times, start=start, order="flow", rtol=RTOL, atol=ATOL)
    curves = [flow(start)["error"].values for start in starts]
    found = {
        "student": (("student_start", "moment"), runs["error"].isel(run=0).values),
        "student_flow": (("student_start", "moment"), np.array(curves)),
    }
    return xr.Dataset(found, {"moment": ("moment", times, {"long_name": "α", "unit": "steps / N"})})


def draw(data: xr.Dataset) -> Figure:
    """Left: error against α. Middle: compensated by the power law. Right: Eq. 17."""
    figure, axes = panels(3, columns=3, size=(4.3, 3.6))
    for i, one in enumerate(_each(data)):
        _draw_case(axes, one.isel(point=slice(1, None)), f"C{i}")
    mean = data[["student"]].isel(moment=slice(1, None, 2)).mean("student_start")
    axes[0].plot(mean["moment"], mean["student"], "o", ms=2.5, color="k", zorder=3)
    _label_left(axes, data)
    _draw_right(axes[2], data)
    return figure


def _each(data: xr.Dataset) -> list[xr.Dataset]:
    """The cases: K = M and β of the left panel."""
    return [data.isel(case=case) for case in range(data.sizes["case"])]


def _draw_case(axes: list[Axes], one: xr.Dataset, color: str) -> None:
    alpha, s = one["alpha_left"].isel(start=0), learning_curve.exponent(float(one["beta"]))
    error, law = (one[name].mean("start") for name in ("error", "law"))
    flat = alpha**s / float(error[-1]) / float(alpha[-1]) ** s
    for axis, factor in ((axes[0], 1), (axes[1], flat)):
        axis.plot(alpha, law * factor, ":", color=color, lw=1.4)
        axis.plot(alpha, error * factor, color=color, label=_name(one))
    late = (alpha >= alpha[-1] / FIT).values
    axes[1].plot(alpha[late], (error * flat)[late], color=color, lw=6, alpha=0.3)


def _name(one: xr.Dataset) -> str:
    return f"M = {int(one['M'])}, β = {float(one['beta']):g}"


def _label_left(axes: list[Axes], data: xr.Dataset) -> None:
    a, starts = data.attrs, data.sizes["start"]
    axes[0].set(xscale="log", yscale="log", xlabel="α [steps / N]", ylabel=r"mean $\epsilon_g$")
    about = f"K = M, L = N = {a['N']}, η = {a['eta']:g}, {starts} starts"
    axes[0].set_title(f"flow, {about}", size=9)
    students = f"{data.sizes['student_start']} students, M = {a['M']}, β = 1"
    styles = {"late law, no fit": {"ls": ":"}, students: {"marker": "o", "ms": 2.5}}
    legend(axes[0], styles, loc="lower left", fontsize=7.5)
    axes[1].axhline(1, color="0.5", lw=0.8)
    axes[1].set(xscale="log", yscale="log", xlabel="α [steps / N]")
    axes[1].set(ylabel=r"$\epsilon_g\,\alpha^{\beta/(1+\beta)}$, 1 at the end")
    axes[1].set_title("flat where the power law holds (wide: fitted)", size=9)
    for which in (axes[1].yaxis.set_major_formatter, axes[1].yaxis.set_minor_formatter):
        which("{x:g}")


def _draw_right(axis, data: xr.Dataset) -> None:
    alpha, a = data["alpha"], data.attrs
    axis.plot(alpha, data["right_error"], color="0.2", lw=1.6, label="flow")
    axis.plot(alpha, data["right_eq122"], color="C1", lw=1.4, label="Eq. 17 from α₀")
    axis.plot(alpha, data["right_hessian"], "--", color="C2", lw=1.4, label="Hessian from α₀")
    axis.axvline(a["alpha_0"], color="0.6", ls=":", lw=1)
    axis.set(yscale="log", xlabel="α [steps / N]", ylabel=r"$\epsilon_g$")
    about = f"K = M = {_erf.LATE_M}, L = {a['right_L']}, N = {a['right_N']}, η = {_erf.LATE_ETA:g}"
    axis.set_title(f"{about}, β = {_erf.LATE_BETA:g}", size=9)
    legend(axis)


def check(data: xr.Dataset) -> list[Claim]:
    """Exponents as they are and corrected for finite L, students, the late law, and Eq. 17."""
    rows = _each(data)
    return [
        *(
            _regime(_name(one), "students part when the fit begins")
            for one in rows
            if one["apart"].max()
        ),
        *(_regime(f"M = {M}", NOT_RUN) for M in data.attrs["not_run"].split()),
        *(found for one in rows for found in _exponents(one)),
        *map(_law, rows),
        *_beside(data),
        *_right(data),
    ]


def _regime(name: str, why: str) -> Claim:
    """A regime of which nothing is said: a student has no teacher of its own, or none was run."""
    return claim(f"{name}: asymptotic, every student has a teacher of its own", LEFT).open(why)


def _exponents(one: xr.Dataset) -> list[Claim]:
    """The exponent fitted, and what is left of its deviation when the late law's is taken off."""
    s, name = learning_curve.exponent(float(one["beta"])), _name(one)
    error, law, late = (_fitted(one, which) for which in ("error", "law", "law_from_escape"))
    finite_size = float(law.mean()) - s
    tolerance = float(np.median(abs(late - law) + law * one["distance"].values))
    chance, paired = (mean_bound(_starts(x), "start", LEVEL) for x in (error, error - law))
    fall = f"{name}: the error falls as α to minus, mean of starts"
    less = f"{fall} and less the finite-L part of the late law"
    if one["apart"].max():
        return [
            claim(text, LEFT).open("not asymptotic where the fit begins") for text in (fall, less)
        ]
    plain, corrected = (claim(text, LEFT) for text in (f"{fall} (± {chance:.2g})", less))
    because = f"{NEGLECTED}; Student t at {LEVEL:.0%}, {len(error)} starts"
    both = [
        plain.equals(
            error.mean(), s, within=abs(finite_size) + tolerance + min(chance, VISIBLE * s),
            because=f"finite L in the late law; {because}", rate=1 - LEVEL,
        ),
        corrected.equals(
            s + (error - law).mean(), s, within=tolerance + min(paired, VISIBLE * s),
            because=because,
            rate=1 - LEVEL,
        ),
    ]  # fmt: skip
    decided = abs(finite_size) <= VISIBLE * s, tolerance <= s / 2
    whys = f"finite L makes it {law.mean():.3g} in the late law", "too early to exclude half of it"
    rows = zip(both, decided, whys, strict=True)
    return [found if sure else found.open(why) for found, sure, why in rows]


def _starts(values: np.ndarray) -> xr.DataArray:
    return xr.DataArray(values, dims="start")


def _fitted(one: xr.Dataset, name: str) -> np.ndarray:
    """−d ln/d ln α over the last factor FIT, for every start."""
    alpha = one["alpha_left"].isel(start=0).values
    late = alpha >= alpha[-1] / FIT
    curves = one[name].transpose("start", "point").values[:, late]
    return np.array([-ld.analysis.fit_power_law(alpha[late], curve).slope for curve in curves])


def _law(one: xr.Dataset) -> Claim:
    last, far = one.isel(point=-1), float(one["distance"].median())
    allowed = (one["distance"] + last["law_from_escape"] / last["law"] - 1).values
    gap = abs(last["error"] / last["law"] - 1).values
    worst = int(np.argmax(gap / allowed))
    said = f"{_name(one)}: gap of the error to the late law at the end, no fit"
    first_order = "first order in the overlaps, all levels unlearned at α = 0"
    sentence = claim(said, first_order, kind="finding")
    if one["apart"].max():
        return sentence.open("not asymptotic where the fit begins")
    found = sentence.equals(gap[worst], 0.0, within=allowed[worst], because=NEGLECTED)
    return found.open(f"too early: |J − B|/|B| is {far:.2g}") if far > NEAR else found


def _beside(data: xr.Dataset) -> list[Claim]:
    """Students over the flows from their own starts, and their exponents, where flows are late."""
    late = data["moment"] >= float(data["moment"][-1]) / 2
    part, beta = data.isel(moment=late.values), 1.0
    first = _each(data)[[float(b) for b in data["beta"]].index(beta)]
    left = first["escape"].values[: part.sizes["student_start"]]
    soon = left <= float(data["moment"][-1]) / SETTLED
    source = "Fig. 6 left: students beside flows"
    said = [
        f"M = {data.attrs['M']}, β = 1: error of students over that of their flows, second half",
        f"M = {data.attrs['M']}, β = 1: exponent of students less that of their flows there",
    ]
    sentences = [claim(text, source) for text in said]
    if soon.sum() < 2:
        return [each.open("too few flows have left by a quarter") for each in sentences]
    part = part.isel(student_start=soon)
    ratio = (part["student"] / part["student_flow"]).mean("moment")
    slope = lambda row: ld.analysis.fit_power_law(part["moment"].values, row).slope
    slopes = {
        name: np.array([*map(slope, part[name].values)]) for name in ("student", "student_flow")
    }
    less = xr.DataArray(slopes["student_flow"] - slopes["student"], dims="student_start")
    noise, s = corrections.noise_factor(data.attrs["eta"]) - 1, learning_curve.exponent(beta)
    bound = lambda values: mean_bound(values, "student_start", LEVEL)
    chance = f"Student t at {LEVEL:.0%}, {int(soon.sum())} students"
    more = f"order η, as of linear units, whose slope is larger; {chance}"
    return [
        sentences[0].equals(
            ratio.mean(), 1.0, within=noise + bound(ratio), because=more, rate=1 - LEVEL
        ),
        sentences[1].equals(
            less.mean(), 0.0, within=min(bound(less), VISIBLE * s), because=chance, rate=1 - LEVEL
        ),
    ]


def _right(data: xr.Dataset) -> list[Claim]:
    late = data.sel(alpha=slice(data.attrs["alpha_0"], None))
    gap = lambda name: abs(late[f"right_{name}"] / late["right_error"] - 1)
    said = f"Eq. 17 gives the flow's error at α = {float(late['alpha'][-1]):g}, relative gap"
    hessian = "the Hessian at the teacher gives the flow's error, largest relative gap"
    return [
        claim(said, "Fig. 6 right").equals(
            gap("eq122")[-1],
            0.0,
            within=gap("eq121")[0],
            because="second order in the overlaps: gap of Eq. 121 at α₀",
        ),
        claim(hessian, "leading order in J − B, from α₀", kind="finding").equals(
            gap("hessian").max(),
            0.0,
            within=late["right_distance"][0],
            because="next order: |J − B|/|B| at α₀",
        ),
    ]
