"""Sec. 3: small overlaps between students at the start, which Eq. 8 leaves out.

"The qualitative dynamical behavior remains unchanged" is read as: norms settle where they did, the
escape moves by no more than the overlaps change ρ, and the loss goes to zero along the same tail.
More can be said: the overlaps die out on the plateau, and what they leave behind is known. A start
(Q, ρ) escapes when the orthonormalised start (I, Q^(-1/2) ρ) does, and to the solution which that
one selects: not to its own nearest solution, from which it differs by the size of the overlaps.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions
from learndyn.theory.committee.late_stage import quadratic as late
from learndyn.theory.committee.plateau import quadratic as plateau

TITLE = "Small initial overlaps between students: plateau, escape and solution (p = 6, p* = 3)"
LEARNED = 0.01  # of the initial loss: less than one direction not yet learned would leave
KINDS = ("own", "orthonormalised", "without")


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
    count = params.starts
    data = [xr.concat(rows[i : i + count], "start") for i in range(0, len(rows), count)]
    axis = xr.Variable("overlap", list(params.overlaps), {"long_name": "overlap of students"})
    return xr.concat(data, axis).assign_attrs(dataclasses.asdict(params))


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
    found = [_flow(params, states[kind]) for kind in KINDS]
    data = xr.concat(found, xr.Variable("kind", list(KINDS)))
    left = lambda t: plateau.unlike_left(t, params.p, Q)
    half = float(data["half"].sel(kind="own"))
    return data.assign(left=left(half), unlike=left(0.0), stretch=plateau.largest_stretch(Q))


def _flow(params: Params, state: ld.Overlaps) -> xr.Dataset:
    system = quadratic_system(params.p, params.p_star, eta=1.0, N=1000)
    early = np.linspace(0, params.escaped, params.points)
    t = np.concatenate([early, np.geomspace(params.escaped, params.end, 21)[1:]])
    start = ld.start(system, state=state)
    record = ld.solve(system, t, start=start, order="flow", rtol=1e-10, atol=1e-14)
    norms = np.einsum("...kk->...k", record["Q"].values).mean(-1)
    return xr.Dataset(
        {
            "error": ("t", record["error"].values),
            "norm": norms[np.searchsorted(t, params.settled)],
            "half": _half(early, record["error"].values[: len(early)], params),
            "learned": float(ld.analysis.fall_time(record, fraction=LEARNED)),
            "S": (
                ("when", "student", "teacher"),
                solutions.polar_factor(record["R"].values[[0, -1]]),
            ),
        },
        {"t": t},
    )


def _half(t: np.ndarray, error: np.ndarray, params: Params) -> float:
    """Where the loss is half of that of orthonormal students, which all starts are compared at."""
    level = plateau.start_risk(params.p, params.p_star) / 2
    return float(CubicSpline(t, np.log(error / level)).roots(extrapolate=False)[0])


def draw(data: xr.Dataset) -> Figure:
    """The loss from one start at every size, how far the escape moves, and how far the solution."""
    figure, axes = panels(3, columns=3, size=(4.2, 3.5))
    without = data.isel(start=0, overlap=0).sel(kind="without")
    axes[0].plot(data["t"], without["error"], color="black", lw=2.5, label="0, as in Eq. 8")
    for k, size in enumerate(data["overlap"].values):
        own = data.sel(overlap=size, kind="own")
        axes[0].plot(data["t"], own["error"].isel(start=0), color=f"C{k}", label=f"{size:g}")
    axes[0].set(xlim=(0, data.attrs["escaped"]), yscale="log", ylim=(1e-4, 2), xlabel="time t = ηα")
    axes[0].set_ylabel("generalisation error, one start")
    legend(axes[0], title="overlap of students", title_fontsize=8)
    shift, miss = (abs(_moved(data, kind)) for kind in ("without", "orthonormalised"))
    turn, gap = (_turned(data, kind) for kind in ("without", "orthonormalised"))
    rows = [(axes[1], shift, miss), (axes[2], turn, gap)]
    for axis, one, other in rows:
        for k, (values, marker) in enumerate(((one, "o"), (other, "s"))):
            x = np.repeat(data["overlap"].values, data.sizes["start"])
            y = np.maximum(values.transpose("overlap", "start").values.ravel(), 1e-12)
            axis.loglog(x, y, marker, color=f"C{k}", ms=3, alpha=0.7)
        axis.loglog(data["overlap"], data["unlike"].mean("start") / 2, color="0.5", lw=0.9)
        axis.set_xlabel("overlap of students")
        names = {"from (I, ρ)": {"marker": "o", "color": "C0"}}
        names |= {"from (I, $Q^{-1/2}$ρ)": {"marker": "s", "color": "C1"}}
        legend(axis, names | {"‖Q − I‖/2": {"color": "0.5", "lw": 0.9}}, fontsize=7)
    axes[1].set_ylabel(r"shift of the half-loss time, in $1/\omega_\rho$")
    axes[2].set_ylabel(r"distance of $S(\infty)$")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Plateau, escape and end as without overlaps; and what remains of these exactly."""
    p, p_star, settled = int(data.attrs["p"]), int(data.attrs["p_star"]), data.attrs["settled"]
    own, time = data.sel(kind="own"), float(data["t"][-1])
    relaxed = plateau.settled_error(8 * settled / p, np.sqrt(_grown(data)))
    norms, expected = own["norm"], plateau.norm_fixed_point(p)
    farthest = norms.values.flat[np.argmax(abs(norms.values - expected))]
    tails = own["error"].isel(t=-1) * time**2 / late.tail_risk(p, p_star, 0.0)
    worst = tails.values.flat[np.argmax(abs(tails.values - 1))]
    delayed = late.tail_error(2, float(own["learned"].max()), time)
    moved = abs(_moved(data, "without")) / data["stretch"]
    source = "Sec. 3, Initialization of the student network"
    said = lambda what: claim(f"with overlaps between students, {what}", source)
    return [
        said("norms settle at p/(p+2) all the same: farthest").equals(
            farthest, expected, within=relaxed, because="the transient left, and |ρ|²"
        ),
        said("the loss goes to zero along the same tail: R t² over its limit, farthest").equals(
            worst, 1.0, within=delayed, because="the tail's clock starts before the loss is at 1 %"
        ),
        said("the escape moves by fewer e-folds than Q^(-1/2) stretches ρ: largest share").at_most(
            moved.max(), 1.0, within=float((data["left"] / data["stretch"]).max()),
            because="what is left of the overlaps at half loss",
        ),
        *_exactly(data),
    ]  # fmt: skip


def _exactly(data: xr.Dataset) -> list[Claim]:
    """In units of what is left of the overlaps when the loss is at its half."""
    source = "Sec. 3; plateau of starts Q ≠ I"
    time = abs(_moved(data, "orthonormalised")) / data["left"]
    solution = _turned(data, "orthonormalised") / data["left"]
    turns = _turned(data, "without").mean("start")
    exponent = ld.analysis.fit_power_law(data["overlap"], turns).slope
    said = "a start (Q, ρ) {} the start (I, Q^(-1/2) ρ): largest {}, over what is left of Q − I"
    because = "first order in the overlaps that are left at half loss"
    by = "so the solution is not the nearest: S moves by the size of the overlaps, exponent"
    rows = {
        said.format("escapes with", "difference in e-folds"): time.max(),
        said.format("ends at the solution of", "distance of S(∞)"): solution.max(),
    }
    return [
        *(
            claim(what, source, kind="finding").at_most(found, 1.0, because=because)
            for what, found in rows.items()
        ),
        claim(by, "Sec. 3 and Eqs. 19, 22", kind="finding").equals(
            exponent, 1.0, within=float(data["stretch"].max()),
            because="second order in the largest overlaps",
        ),
    ]  # fmt: skip


def _moved(data: xr.Dataset, kind: str) -> xr.DataArray:
    """By how many e-folds of ρ the half-loss time differs from that of another start."""
    rate = plateau.growth_rate(int(data.attrs["p"]), int(data.attrs["p_star"]))
    return rate * (data["half"].sel(kind="own") - data["half"].sel(kind=kind))


def _turned(data: xr.Dataset, kind: str) -> xr.DataArray:
    """|S(∞) − S(0)|, with the S(0) of another start."""
    gap = data["S"].sel(kind="own").isel(when=1) - data["S"].sel(kind=kind).isel(when=0)
    return (gap**2).sum(("student", "teacher")) ** 0.5


def _grown(data: xr.Dataset) -> float:
    """|ρ|² when norms are read, of starts on the plateau."""
    sizes = int(data.attrs["p"]), int(data.attrs["p_star"])
    return float(plateau.overlap_square(data.attrs["settled"], *sizes, data.attrs["epsilon"]))
