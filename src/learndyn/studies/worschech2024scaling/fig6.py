"""Fig. 6: the error falls as a power law of α once students have specialised.

Left: the mean error of flows from drawn teachers and students, some simulated students, and the
late law, in which every level starts unlearned and which has no free parameter. Exponents are means
over starts with their intervals. Where a student has no teacher of its own when the fit begins, the
asymptotic regime has not begun: that fails, and claims about the regime are open, without numbers.
Right: Eq. 17 from the flow's state at α₀.

The quick preset has K = M = 2 and 4 instead of 40, fewer starts and exponents, and η = 0.1 instead
of 0.01, which rescales the time of a flow; its students learn until ηα = 100 (200 in the paper
preset), not 500. K = M = 8 (a minute per flow) and 40 are left to the paper preset. K = M = 4 and 8
run ten and a hundred times as long as 40, since some starts stay long on the plateau, and at
β = 1.5, where finite L matters least by then.

Notes: docs/results/worschech2024scaling/fig6/notes.md.
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
from learndyn.studies.statistics import LEVEL, mean_tolerance
from learndyn.studies.worschech2024scaling import _asymptotic, _erf
from learndyn.studies.worschech2024scaling._asymptotic import (
    ALIGNED,
    FIT,
    VISIBLE,
    check_students,
    exponents,
    flow,
    students,
)
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.power_law import learning_curve

TITLE = "The asymptotic regime: error ∝ α^(−β/(1+β)), and Eq. 17 against the flow"
DIFFERS = (
    "left: 10 flows instead of 10 simulations, five students at β = 1 to α = 2·10⁴ instead of "
    "5·10⁴; K = M = 4, 8 are added, to 5·10⁵ and 5·10⁶; right: N is not stated, 9000 as in Fig. "
    "20"
)
NEAR = 0.25  # |J − B|/|B| up to which a run is called late
UNITS_BETA = 1.5  # of further units: finite L matters least there
EARLY = "not asymptotic where the fit begins"
LEFT = "Fig. 6 left, Sec. 5.2"
NEGLECTED = "levels learn from α = 0 or from the escape; next order |J − B|/|B|"
CHANCE = "Student's t, {count} starts, 1 %, at most a fifth of the exponent"
CLAIMS = _asymptotic.CLAIMS | {
    "regime": claim("{name}: asymptotic where the fit begins, every student has a teacher of its "
                    "own: least cosine between the two", LEFT, because="read as nine tenths"),
    "plain": claim("{name}: the error falls as α to minus, mean of starts (± {chance:.2g})", LEFT,
                   because=f"finite L in the late law; {NEGLECTED}; {CHANCE}", rate=1 - LEVEL),
    "corrected": claim("{name}: the error falls as α to minus, mean of starts, without the "
                       "finite-L part of the late law", LEFT, because=f"{NEGLECTED}; {CHANCE}",
                       rate=1 - LEVEL),
    "law": claim("{name}: gap of the error to the late law at the end, no fit",
                 "first order in the overlaps, all levels unlearned at α = 0", kind="finding",
                 because=NEGLECTED),
    "Eq. 17": claim("Eq. 17 gives the flow's error at α = {alpha:g}, relative gap", "Fig. 6 right",
                    because="second order in the overlaps: gap of Eq. 121 at α₀"),
    "hessian": claim("the Hessian at the teacher gives the flow's error, largest relative gap",
                     "leading order in J − B, from α₀", kind="finding",
                     because="next order: |J − B|/|B| at α₀"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Left: exponents β at K = M, then further `units` at UNITS_BETA, each with its own last α.

    The first `students` starts of K = M at β = 1 are also simulated, until `student_end`; claims on
    sizes `not_run` are open. Right: number of eigenvalues, dimension, last α and where Eq. 17
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
    "paper": Params(betas=(0.5, 0.75, 1.0, 1.25, 1.5), M=40, eta=0.01, end=5e4, units=(4, 8),
                    units_end=(5e5, 5e6), not_run=(), student_end=2e4, starts=10),
}  # fmt: skip

_PARTING = (
    "students still part when the fit begins: half of them or more have no teacher of their own"
)
FAILS = {
    "paper": {
        CLAIMS["regime"].format(name=f"M = 40, β = {beta:g}").statement: _PARTING
        for beta in PRESETS["paper"].betas
    }
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flows of every case and start with their late law, students, and the late stage."""
    sizes = [(params.M, beta, params.end) for beta in params.betas]
    further = zip(params.units, params.units_end, strict=True)
    sizes += [(M, UNITS_BETA, end) for M, end in further]
    keys = range(params.starts * params.key, params.starts * (params.key + 1))
    jobs = [(size, key) for size in sizes for key in keys]
    rows = {
        ((M, beta, end), key): flow(_system(params, M, beta), _times(params, end), key)
        for (M, beta, end), key in cases(jobs, report, end=0.7)
    }
    flows = [xr.concat([rows[size, key] for key in keys], "start") for size in sizes]
    M, beta, _ = zip(*sizes, strict=True)
    left = xr.concat(flows, "case").assign_coords(M=("case", [*M]), beta=("case", [*beta]))
    system, times = _system(params, params.M, 1.0), _times(params, params.student_end)
    left = left.assign(students(system, times, keys[: params.students], params.key))
    times = np.linspace(0, params.right_end, 121)
    late = _erf.late_stage(params.right_L, params.right_N, times, params.alpha_0, params.key)
    report(1.0)
    late = late.drop_vars("slow_rate").rename(time="alpha")
    right = {f"right_{name}": values for name, values in late.data_vars.items()}
    names = ("M", "N", "eta", "sigma_J", "right_L", "right_N", "alpha_0")
    kept = {name: getattr(params, name) for name in names}
    not_run = " ".join(map(str, params.not_run))
    return left.assign(right).assign_attrs({**kept, "not_run": not_run})


def _system(params: Params, M: int, beta: float) -> ld.System:
    spectrum = ld.PowerLaw(params.N, params.N, beta)
    return committee_system("erf", spectrum, K=M, M=M, eta=params.eta, sigma_J=params.sigma_J)


def _times(params: Params, end: float) -> np.ndarray:
    return np.concatenate([[0.0], np.geomspace(0.1 / params.eta, end, params.points)])


def draw(data: xr.Dataset) -> Figure:
    """Left: error against α. Middle: compensated by the power law. Right: Eq. 17."""
    figure, axes = panels(3, columns=3, size=(4.3, 3.6))
    for i, one in enumerate(_each(data)):
        _draw_case(axes, one.isel(point=slice(1, None)), f"C{i}")
    a, alpha = data.attrs, "α [steps / N]"
    dots, mean = {"marker": "o", "ms": 2.5}, data[["student"]].isel(moment=slice(1, None, 2))
    mean = mean.mean("student_start")
    axes[0].plot(mean["moment"], mean["student"], ls="", color="k", zorder=3, **dots)
    axes[0].set(xscale="log", yscale="log", xlabel=alpha, ylabel=r"mean $\epsilon_g$")
    starts = f"{data.sizes['start']} starts"
    axes[0].set_title(f"flow, K = M, L = N = {a['N']}, η = {a['eta']:g}, {starts}", size=9)
    label = f"{data.sizes['student_start']} students, M = {a['M']}, β = 1"
    looks = {"late law, no fit": {"ls": ":"}, label: dots}
    legend(axes[0], looks, loc="lower left")
    axes[1].axhline(1, color="0.5", lw=0.8)
    axes[1].set(xscale="log", yscale="log", xlabel=alpha)
    axes[1].set(ylabel=r"$\epsilon_g\,\alpha^{\beta/(1+\beta)}$, 1 at the end")
    axes[1].set_title("flat where the power law holds (wide: fitted)", size=9)
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_formatter("{x:g}")
    rows = (("error", "0.2", "-", "flow"), ("eq122", "C1", "-", "Eq. 17 from α₀"),
            ("hessian", "C2", "--", "Hessian from α₀"))  # fmt: skip
    for name, color, style, label in rows:
        axes[2].plot(data["alpha"], data[f"right_{name}"], style, color=color, label=label)
    axes[2].axvline(a["alpha_0"], color="0.6", ls=":", lw=1)
    axes[2].set(yscale="log", xlabel=alpha, ylabel=r"$\epsilon_g$")
    sizes = f"K = M = {_erf.LATE_M}, L = {a['right_L']}, N = {a['right_N']}"
    axes[2].set_title(f"{sizes}, η = {_erf.LATE_ETA:g}, β = {_erf.LATE_BETA:g}", size=9)
    legend(axes[2])
    return figure


def _draw_case(axes: list[Axes], one: xr.Dataset, color: str) -> None:
    alpha, s = one["alpha_left"].isel(start=0), learning_curve.exponent(float(one["beta"]))
    error, law = (one[name].mean("start") for name in ("error", "law"))
    flat = alpha**s / float(error[-1]) / float(alpha[-1]) ** s
    for axis, factor in ((axes[0], 1), (axes[1], flat)):
        axis.plot(alpha, law * factor, ":", color=color, lw=1.4)
        axis.plot(alpha, error * factor, color=color, label=_name(one))
    late = (alpha >= alpha[-1] / FIT).values
    axes[1].plot(alpha[late], (error * flat)[late], color=color, lw=6, alpha=0.3)


def _each(data: xr.Dataset) -> list[xr.Dataset]:
    """The cases: K = M and β of the left panel."""
    return [data.isel(case=case) for case in range(data.sizes["case"])]


def _name(one: xr.Dataset) -> str:
    return f"M = {int(one['M'])}, β = {float(one['beta']):g}"


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Exponents as they are and corrected for finite L, students, the late law, and Eq. 17."""
    rows, regime = _each(data), lambda name: CLAIMS["regime"].format(name=name)
    why = "not run at this size, which the paper preset has"
    return [
        *(regime(_name(one)).at_least(one["alignment"].min(), ALIGNED) for one in rows),
        *(regime(f"M = {M}").open(why) for M in data.attrs["not_run"].split()),
        *(claim for one in rows for claim in _exponents(one)),
        *map(_law, rows),
        *check_students(data),
        *_right(data),
    ]


def _exponents(one: xr.Dataset) -> list[Claim]:
    """The fitted exponent, and what remains of its deviation without that of the late law."""
    s, starts = learning_curve.exponent(float(one["beta"])), one.sizes["start"]
    error, law, late = (exponents(one, which) for which in ("error", "law", "law_from_escape"))
    finite_size = float(law.mean()) - s
    tolerance = float(np.median(abs(late - law) + law * one["distance"].values))
    chance, paired = (mean_tolerance(values).value for values in (error, error - law))
    fields = {"name": _name(one), "count": starts, "chance": chance}
    plain, corrected = (CLAIMS[name].format(**fields) for name in ("plain", "corrected"))
    if one["apart"].max():
        return [plain.open(EARLY), corrected.open(EARLY)]
    within = abs(finite_size) + tolerance + min(chance, VISIBLE * s)
    claims = [
        plain.equals(error.mean(), s, within),
        corrected.equals(s + (error - law).mean(), s, tolerance + min(paired, VISIBLE * s)),
    ]
    if abs(finite_size) > VISIBLE * s:
        claims[0] = claims[0].open(f"finite L makes it {law.mean():.3g} in the late law")
    if tolerance > s / 2:
        claims[1] = claims[1].open("too early to exclude half of it")
    return claims


def _law(one: xr.Dataset) -> Claim:
    last, far = one.isel(point=-1), float(one["distance"].median())
    allowed = (one["distance"] + last["law_from_escape"] / last["law"] - 1).values
    gap = abs(last["error"] / last["law"] - 1).values
    worst, sentence = int(np.argmax(gap / allowed)), CLAIMS["law"].format(name=_name(one))
    if one["apart"].max():
        return sentence.open(EARLY)
    claim = sentence.equals(gap[worst], 0.0, allowed[worst])
    return claim.open(f"too early: |J − B|/|B| is {far:.2g}") if far > NEAR else claim


def _right(data: xr.Dataset) -> list[Claim]:
    late = data.sel(alpha=slice(data.attrs["alpha_0"], None))
    gap = lambda name: abs(late[f"right_{name}"] / late["right_error"] - 1)
    eq17 = CLAIMS["Eq. 17"].format(alpha=float(late["alpha"][-1]))
    return [
        eq17.equals(gap("eq122")[-1], 0.0, gap("eq121")[0]),
        CLAIMS["hessian"].equals(gap("hessian").max(), 0.0, late["right_distance"][0]),
    ]
