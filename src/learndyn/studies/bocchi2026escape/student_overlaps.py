"""Sec. 3: small overlaps between students at the start, which Eq. 8 leaves out.

"The qualitative dynamical behavior remains unchanged" is read as: norms settle at the same value,
the escape moves by no more than the overlaps change ρ, and the loss goes to zero along the same
tail. More can be said: the overlaps die out on the plateau, and what they leave behind is known. A
start (Q, ρ) escapes together with the orthonormalised start (I, Q^(-1/2) ρ), and to the solution
which that one selects. This is not its own nearest solution, from which it differs by the size of
the overlaps. The quick preset has fewer starts and sizes of the overlaps.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import nested, ode, sizes
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic as late
from learndyn.theory.committee.plateau import quadratic as plateau

TITLE = "Small initial overlaps between students: plateau, escape and solution (p = 6, p* = 3)"
DIFFERS = (
    "Sec. 3 mentions numerics without sizes; here p = 6, p* = 3, 20 starts, overlaps of 10⁻³ to "
    "10⁻¹"
)
LEARNED = 0.01  # of the initial loss: less than one direction not yet learned would leave
WITH, PAPER = "with overlaps between students,", "Sec. 3, Initialization of the student network"
LEFT = "first order in the overlaps that are left at half loss"
CLAIMS = {
    "norm": claim(f"{WITH} norms still settle at p/(p+2): norm farthest from it", PAPER,
                  because="the transient left, and |ρ|²"),
    "tail": claim(f"{WITH} the loss goes to zero along the same tail: R t² over its limit, "
                  "farthest from 1", PAPER,
                  because="the tail's clock starts before the loss is at 1 %"),
    "escape": claim(f"{WITH} the escape moves by fewer e-folds than Q^(-1/2) stretches ρ: largest "
                    "ratio of the two", PAPER, because="what is left of the overlaps at half loss"),
    "time": claim("a start (Q, ρ) escapes when the start (I, Q^(-1/2) ρ) does: largest difference "
                  "in e-folds, over what is left of Q − I", "Sec. 3; plateau of starts Q ≠ I",
                  kind="finding", because=LEFT),
    "end": claim("a start (Q, ρ) ends at the solution of the start (I, Q^(-1/2) ρ): largest "
                 "distance of S(∞), over what is left of Q − I", "Sec. 3; plateau of starts Q ≠ I",
                 kind="finding", because=LEFT),
    "moves": claim("so the solution is not the nearest one: S moves by the size of the overlaps to "
                   "a power, exponent", "Sec. 3 and Eqs. 19, 22", kind="finding",
                   because="second order in the largest overlaps"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; time is t = η α, norms are read at `settled`.

    `overlaps` are standard deviations of Q_kk', k ≠ k'; the paper's is that of ρ, `epsilon`.
    """

    p: int = 6
    p_star: int = 3
    epsilon: float = 1e-3
    overlaps: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    settled: float = 6.0
    escaped: float = 40.0
    end: float = 400.0
    points: int = 401
    starts: int = 5
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(starts=20, overlaps=(1e-3, 3e-3, 1e-2, 3e-2, 1e-1))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The flow from each start, from its orthonormalised form, and without the overlaps."""
    jobs = [(size, start) for size in params.overlaps for start in range(params.starts)]
    rows = [_one(params, *job) for job in cases(jobs, report)]
    axis = xr.Variable("overlap", list(params.overlaps), {"long_name": "overlap of students"})
    return nested(rows, axis, "start").assign_attrs(dataclasses.asdict(params))


def _one(params: Params, size: float, start: int) -> xr.Dataset:
    rng = np.random.default_rng([params.key, start])  # the same directions for every size
    rho = params.epsilon * rng.standard_normal((params.p, params.p_star))
    noise = np.triu(rng.standard_normal((params.p, params.p)), 1)
    I, T = np.eye(params.p), np.eye(params.p_star)
    Q = I + size * (noise + noise.T)
    states = {
        "own": ld.Overlaps(Q, rho, T),
        "orthonormalised": ld.Overlaps(I, plateau.orthonormalised(Q, rho), T),
        "without": ld.Overlaps(I, rho, T),
    }
    flows = [_flow(params, state) for state in states.values()]
    data = xr.concat(flows, xr.Variable("kind", list(states)))
    left = lambda t: plateau.unlike_left(t, params.p, Q)
    half = float(data["half"].sel(kind="own"))
    return data.assign(left=left(half), unlike=left(0.0), stretch=plateau.largest_stretch(Q))


def _flow(params: Params, state: ld.Overlaps) -> xr.Dataset:
    early = np.linspace(0, params.escaped, params.points)
    t = np.concatenate([early, np.geomspace(params.escaped, params.end, 21)[1:]])
    record = ode(state, 1.0, t, order="flow", rtol=1e-10, atol=1e-14)
    error, S = record["error"].values, solutions.polar_factor(record["R"].values[[0, -1]])
    norms = np.einsum("...kk->...k", record["Q"].values).mean(-1)
    # Half of the loss of orthonormal students, at which all starts are compared.
    level = plateau.start_risk(params.p, params.p_star) / 2
    half = CubicSpline(early, np.log(error[: len(early)] / level)).roots(extrapolate=False)
    table = {
        "error": ("t", error),
        "norm": norms[np.searchsorted(t, params.settled)],
        "half": float(half[0]),
        "learned": float(ld.analysis.fall_time(record, fraction=LEARNED)),
        "S": (("when", "student", "teacher"), S),
    }
    return xr.Dataset(table, {"t": t})


def draw(data: xr.Dataset) -> Figure:
    """The loss from one start at every size, how far the escape moves, and how far the solution."""
    figure, axes = panels(3, columns=3, size=(4.2, 3.5))
    first, overlaps = data["error"].isel(start=0), data["overlap"].values
    without = first.isel(overlap=0).sel(kind="without")
    axes[0].plot(data["t"], without, color="black", lw=2.5, label="0, as in Eq. 8")
    for k, size in enumerate(overlaps):
        own = first.sel(overlap=size, kind="own")
        axes[0].plot(data["t"], own, color=f"C{k}", label=f"{size:g}")
    axes[0].set(xlim=(0, data.attrs["escaped"]), yscale="log", ylim=(1e-4, 2), xlabel="time t = ηα")
    axes[0].set_ylabel("generalisation error, one start")
    legend(axes[0], title="overlap of students", title_fontsize=8)
    looks = {
        "from (I, ρ)": ("without", {"marker": "o", "color": "C0"}),
        "from (I, $Q^{-1/2}$ρ)": ("orthonormalised", {"marker": "s", "color": "C1"}),
    }
    grey = {"color": "0.5", "lw": 0.9}
    for axis, distance in zip(axes[1:], (lambda *of: abs(_moved(*of)), _turned), strict=True):
        for kind, look in looks.values():
            y = distance(data, kind).transpose("overlap", "start").values.ravel()
            x = np.repeat(overlaps, data.sizes["start"])
            axis.loglog(x, np.maximum(y, 1e-12), ls="none", ms=3, alpha=0.7, **look)
        axis.loglog(overlaps, data["unlike"].mean("start") / 2, **grey)
        axis.set_xlabel("overlap of students")
        names = {label: look for label, (_, look) in looks.items()} | {"‖Q − I‖/2": grey}
        legend(axis, names, fontsize=7)
    axes[1].set_ylabel(r"shift of the half-loss time, in $1/\omega_\rho$")
    axes[2].set_ylabel(r"distance of $S(\infty)$")
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Plateau, escape and end as without overlaps; and what remains of these exactly."""
    (p, p_star), settled, own = sizes(data), data.attrs["settled"], data.sel(kind="own")
    time, left, stretch = float(data["t"][-1]), data["left"], data["stretch"]
    # |ρ|² when norms are read, of starts on the plateau.
    grown = float(plateau.overlap_square(settled, p, p_star, data.attrs["epsilon"]))
    tails = own["error"].isel(t=-1) * time**2 / late.tail_risk(p, p_star, 0.0)
    fixed, relaxed = plateau.norm_fixed_point(p), 8 * settled / p
    farthest = lambda values, x: values.values.flat[np.argmax(abs(values.values - x))]
    turns = _turned(data, "without").mean("start")
    return [
        CLAIMS["norm"].equals(
            farthest(own["norm"], fixed), fixed, plateau.settled_error(relaxed, np.sqrt(grown))
        ),
        CLAIMS["tail"].equals(
            farthest(tails, 1.0), 1.0, late.tail_error(2, float(own["learned"].max()), time)
        ),
        CLAIMS["escape"].at_most(
            (abs(_moved(data, "without")) / stretch).max(), 1.0, float((left / stretch).max())
        ),
        # In units of what is left of the overlaps when the loss is at its half.
        CLAIMS["time"].at_most((abs(_moved(data, "orthonormalised")) / left).max(), 1.0),
        CLAIMS["end"].at_most((_turned(data, "orthonormalised") / left).max(), 1.0),
        CLAIMS["moves"].equals(
            ld.analysis.fit_power_law(data["overlap"], turns).slope, 1.0, float(stretch.max())
        ),
    ]


def _moved(data: xr.Dataset, kind: str) -> xr.DataArray:
    """By how many e-folds of ρ the half-loss time differs from that of another start."""
    half = data["half"]
    return plateau.growth_rate(*sizes(data)) * (half.sel(kind="own") - half.sel(kind=kind))


def _turned(data: xr.Dataset, kind: str) -> xr.DataArray:
    """|S(∞) − S(0)|, with the S(0) of another start."""
    gap = data["S"].sel(kind="own").isel(when=1) - data["S"].sel(kind=kind).isel(when=0)
    return (gap**2).sum(("student", "teacher")) ** 0.5
