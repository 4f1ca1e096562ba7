"""Fig. 6: the error falls as a power law of α once students have specialised.

Left: flows from drawn teachers and students, averaged, beside the law of the late stage in which
every level starts unlearned, which has no free parameter. Right: Eq. 17 from the flow's state at
α₀. The quick preset has K = M = 2 instead of 40 and fewer starts and exponents.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Sentence, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.worschech2024scaling import _erf
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.late_stage import deviations
from learndyn.theory.committee.late_stage import erf as erf_late
from learndyn.theory.committee.power_law import learning_curve

TITLE = "The asymptotic regime: error ∝ α^(−β/(1+β)), and Eq. 17 against the flow"
VISIBLE = 0.2  # where finite L changes an exponent by more, a fit does not decide about it
NEAR = 0.25  # |J − B|/|B| up to which a run is called late
ALIGNED = 0.9  # overlap, as a cosine, from which on a student has found its teacher
NO_TEACHER = "asymptotic regime: students without a teacher of their own at the end, median"
NEGLECTED = "levels learn from α = 0 or from the escape; next order |J − B|/|B|"


@dataclasses.dataclass(frozen=True)
class Params:
    """Left: exponents β, units, N = L, last α, starts. Fits use α from `fit_from` to the end.

    Right: number of eigenvalues, dimension, last α and where Eq. 17 begins.
    """

    betas: tuple[float, ...] = (0.75, 1.0, 1.5)
    M: int = 2
    N: int = 512
    eta: float = 0.01
    sigma_J: float = 1e-6
    end: float = 5e4
    fit_from: float = 1e4
    points: int = 61
    starts: int = 4
    right_L: int = 9
    right_N: int = 9000
    right_end: float = 3000.0
    alpha_0: float = 1000.0
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(betas=(0.5, 0.75, 1.0, 1.25, 1.5), M=40, starts=10),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flows of every β and start with their late law, and the late stage on the right."""
    starts = range(params.key, params.key + params.starts)
    jobs = [(beta, key) for beta in params.betas for key in starts]
    rows = {job: _one(params, *job) for job in cases(jobs, report, end=0.9)}
    flows = [xr.concat([rows[beta, key] for key in starts], "start") for beta in params.betas]
    left = xr.concat(flows, xr.Variable("beta", list(params.betas), {"long_name": "β"}))
    times = np.linspace(0, params.right_end, 121)
    right = _erf.late_stage(params.right_L, params.right_N, times, params.alpha_0, params.key)
    report(1.0)
    right = right.drop_vars("slow_rate").rename(time="alpha")
    right = {f"right_{name}": values for name, values in right.data_vars.items()}
    names = ("M", "N", "eta", "sigma_J", "fit_from", "right_L", "right_N", "alpha_0")
    return left.assign(right).assign_attrs({name: getattr(params, name) for name in names})


def _one(params: Params, beta: float, key: int) -> xr.Dataset:
    """One flow, the law of its teacher, when it specialised and how far it is at the end."""
    M, spectrum = params.M, ld.PowerLaw(params.N, params.N, beta)
    system = committee_system("erf", spectrum, K=M, M=M, eta=params.eta, sigma_J=params.sigma_J)
    start = ld.start(system, key=key)
    times = np.concatenate([[0.0], np.geomspace(10.0, params.end, params.points)])
    record = ld.solve(system, times, start=start, order="flow", rtol=1e-6, atol=1e-9)
    t, lam = start.state.T, spectrum.values
    plateau, T = float(_erf.predictions(system, start.state)["error_exact"]), moment(t, lam, 1)
    left = float(_erf.leaving(record, plateau, 0.5).fillna(params.end))
    law = lambda alphas: erf_late.late_curve(alphas, t, T, lam, params.eta)
    last = ld.Overlaps(record["Q"].values[-1], record["R"].values[-1], T)
    # Summed over levels, the overlaps are those of one level with λ = 1.
    last = deviations.in_teachers_order(last, [1.0])
    return xr.Dataset(
        {
            "error": ("time", record["error"].values),
            "law": ("time", law(times)),
            "law_from_escape": ("time", law(np.maximum(times - left, 0))),
            "escape": left,
            "distance": deviations.distance(last, [1.0]),
            "apart": int(np.sum(deviations.alignments(last, [1.0]) < ALIGNED)),
        },
        {"time": ("time", times, {"long_name": "α", "unit": "steps / N"})},
    )


def draw(data: xr.Dataset) -> Figure:
    """Left: error against α. Middle: compensated by the power law. Right: Eq. 17."""
    figure, axes = panels(3, columns=3, size=(4.3, 3.6))
    late = data.isel(time=slice(1, None))
    for i, beta in enumerate(data["beta"].values):
        s, color = learning_curve.exponent(beta), f"C{i}"
        error, law = (late[name].sel(beta=beta).mean("start") for name in ("error", "law"))
        axes[0].plot(late["time"], law, ":", color=color, lw=1.4)
        axes[0].plot(late["time"], error, color=color, label=f"β = {beta:g}")
        flat = late["time"] ** s / float(error[-1]) / float(late["time"][-1]) ** s
        axes[1].plot(late["time"], law * flat, ":", color=color, lw=1.4)
        axes[1].plot(late["time"], error * flat, color=color)
    _label_left(axes, data)
    _draw_right(axes[2], data)
    return figure


def _label_left(axes, data: xr.Dataset) -> None:
    a, starts = data.attrs, data.sizes["start"]
    axes[0].set(xscale="log", yscale="log", xlabel="α [steps / N]", ylabel=r"mean $\epsilon_g$")
    axes[0].set_title(f"flow, K = M = {a['M']}, L = N = {a['N']}, {starts} starts", size=9)
    legend(axes[0], {"late law, no fit": {"ls": ":"}}, loc="lower left")
    axes[1].axvspan(a["fit_from"], float(data["time"][-1]), color="0.92", zorder=0)
    axes[1].axhline(1, color="0.5", lw=0.8)
    axes[1].set(xscale="log", yscale="log", xlabel="α [steps / N]")
    axes[1].set(ylabel=r"$\epsilon_g\,\alpha^{\beta/(1+\beta)}$, 1 at the end")
    axes[1].set_title("flat where the power law holds (grey: fitted)", size=9)
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
    """Exponents as they are and corrected for finite L, the late law, and Eq. 17."""
    betas = [float(beta) for beta in data["beta"].values]
    students, end = data.attrs["M"], float(data["time"][-1])
    without = f"of {students} students those without a teacher of their own at α = {end:g}"
    regime = f"asymptotic regime: {without} (cosine below {ALIGNED:g}), median"
    return [
        _aligned(claim(regime, "Fig. 6 left, Sec. 5.2", name=NO_TEACHER), data),
        *(found for beta in betas for found in _exponents(data, beta)),
        *(_law(data, beta) for beta in betas),
        *_right(data),
    ]


def _aligned(sentence: Sentence, data: xr.Dataset) -> Claim:
    """Whether the asymptotic regime has begun; where not, nothing is said of it."""
    apart = float(data["apart"].median())
    if apart:
        return sentence.open(f"the flow ends before: {apart:g} students are without a teacher")
    return sentence.equals(apart, 0.0, within=0.0, because="integers")


def _exponents(data: xr.Dataset, beta: float) -> list[Claim]:
    """The exponent fitted, and what is left of its deviation when the late law's is taken off."""
    one = data.sel(beta=beta, time=slice(data.attrs["fit_from"], None))
    s, source = learning_curve.exponent(beta), "Fig. 6 left, Sec. 5.2"
    error, law, late = (_fitted(one, name) for name in ("error", "law", "law_from_escape"))
    finite_size = float(np.median(law) - s)
    tolerance = float(np.median(abs(late - law) + law * one["distance"].values))
    decided = abs(finite_size) <= VISIBLE * s and not one["apart"].median()
    same = f"β = {beta:g}: the same, less the finite-L correction of the late law"
    fall = f"β = {beta:g}: the error falls as α to minus, median start"
    sentences = [claim(text, source) for text in (fall, same)]
    plain = sentences[0].equals(
        np.median(error),
        s,
        within=abs(finite_size) + tolerance,
        because=f"finite L in the late law; {NEGLECTED}",
    )
    corrected = sentences[1].equals(
        s + float(np.median(error - law)), s, within=tolerance, because=NEGLECTED
    )
    so = f"finite L makes it {np.median(law):.3g} in the late law{_early(one)}"
    if one["apart"].median():  # no numbers of a regime that has not begun
        return [blank.open(f"not asymptotic{_early(one)}") for blank in sentences]
    return [
        plain if decided else plain.open(so),
        corrected if tolerance <= s / 2 else corrected.open(f"too early{_early(one)}"),
    ]


def _early(one: xr.Dataset) -> str:
    """What to say of students that have not specialised."""
    apart = int(one["apart"].median())
    return f"; {apart} students have not found their teacher" if apart else ""


def _fitted(one: xr.Dataset, name: str) -> np.ndarray:
    curves = one[name].transpose("start", "time").values
    return np.array([-ld.analysis.fit_power_law(one["time"], curve).slope for curve in curves])


def _law(data: xr.Dataset, beta: float) -> Claim:
    one, end = data.sel(beta=beta), float(data["time"][-1])
    last, far = one.isel(time=-1), float(one["distance"].median())
    allowed = (one["distance"] + last["law_from_escape"] / last["law"] - 1).values
    gap = abs(last["error"] / last["law"] - 1).values
    worst = int(np.argmax(gap / allowed))
    said = f"β = {beta:g}: gap of the error to the late law at α = {end:g}, no fit"
    first_order = "first order in the overlaps, all levels unlearned at α = 0"
    sentence = claim(said, first_order, kind="finding")
    if one["apart"].median():
        return sentence.open(f"not asymptotic{_early(one)}")
    found = sentence.equals(gap[worst], 0.0, within=allowed[worst], because=NEGLECTED)
    return found.open(f"too early: |J − B|/|B| is {far:.2g}{_early(one)}") if far > NEAR else found


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
