"""Fig. 5: the plateau against the number of units and of eigenvalues, and what sets its length.

Flows from drawn teachers and students, real students beside them, and the e-folding time of the
escape: exact for every teacher drawn, and by Eq. 116, which takes T to be uniform. At L = N each
level is one direction, T^(2) is nearly of rank one, and the exact time grows as M, not as M². The
quick preset has fewer and smaller sizes and η = 0.05 instead of 0.01, which only rescales a flow.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.studies.worschech2024scaling import _fig5_claims
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.studies.worschech2024scaling._plateau import escape_of, leaving, plateau_of
from learndyn.theory.committee.plateau import erf_uniform

TITLE = "The plateau against M and L: flows, students, and the escape time τ_esc"


@dataclasses.dataclass(frozen=True)
class Params:
    """Left: units M at L = N. Right: numbers of eigenvalues L at one M and N.

    `draws` flows a size; of `students` sizes of each panel, the first ones, the first draw is
    also simulated, `runs` times.
    Escape times are those of `teachers` draws; `rate_M` at L = N of the left panel, and
    N = `rate_N` times L for the first L of the right one.
    """

    left_M: tuple[int, ...] = (3, 8)
    left_N: int = 32
    left_end: float = 1.2e4
    right_L: tuple[int, ...] = (8, 32)
    right_M: int = 3
    right_N: int = 32
    right_end: float = 1.2e4
    rate_M: tuple[int, ...] = (3, 8, 16)
    rate_N: tuple[int, ...] = (1, 4, 16, 64, 256)
    beta: float = 0.25
    eta: float = 0.05
    sigma_J: float = 1e-6
    draws: int = 4
    runs: int = 1
    students: tuple[int, int] = (1, 0)
    teachers: int = 50
    points: int = 201
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        left_M=(6, 8, 10, 32, 40),
        left_N=512,
        left_end=16000.0,
        right_L=(25, 50, 100, 250, 500),
        right_M=6,
        right_N=500,
        right_end=70000.0,
        rate_M=(6, 8, 10, 32, 40),
        eta=0.01,
        students=(5, 5),
        teachers=100,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Flows and students of both panels, and escape times of many teachers."""
    left = [(M, params.left_N, params.left_N) for M in params.left_M]
    right = [(params.right_M, L, params.right_N) for L in params.right_L]
    total, rows = len(left) + len(right) + 1, []
    for name, sizes in (("left", left), ("right", right)):
        end, simulated = (getattr(params, f"{name}_end"), params.students[name == "right"])
        panel = []
        for i, size in enumerate(sizes):
            done = sum(map(len, rows)) + i
            panel.append(_curves(params, size, end, i < simulated, done))
            report((done + 1) / total)
        rows.append(panel)
    parts = [
        _renamed(xr.concat(panel, name), name)
        for panel, name in zip(rows, ("left", "right"), strict=True)
    ]
    coords = {"left": list(params.left_M), "right": list(params.right_L)}
    data = xr.merge([*parts, _times(params)]).assign_coords(coords)
    report(1.0)
    names = ("left_N", "right_M", "right_N", "beta", "eta", "sigma_J")
    return data.assign_attrs({name: getattr(params, name) for name in names})


def _system(params: Params, M: int, L: int, N: int) -> ld.System:
    spectrum = ld.PowerLaw(N, L, params.beta)
    return committee_system("erf", spectrum, K=M, M=M, eta=params.eta, sigma_J=params.sigma_J)


def _curves(params: Params, size, end: float, simulated: bool, number: int) -> xr.Dataset:
    """Flows of one size, each with its plateau, and the students of the first draw."""
    system, times = _system(params, *size), np.linspace(0, end, params.points)
    blank = np.full((params.runs, len(times)), np.nan)
    student = {"student": (("run", "time"), blank), "student_leaves": ("run", blank[:, 0])}
    draws = []
    for draw in range(params.draws):
        start = ld.start(system, key=params.key + params.draws * number + draw)
        flow = ld.solve(system, times, start=start, order="flow", rtol=1e-6, atol=1e-10)
        draws.append(_summary(system, start, flow))
        if simulated and draw == 0:
            student = _students(params, system, start, times, float(draws[0]["height"]))
    return xr.concat(draws, "draw").assign(student).assign_coords(time=times)


def _students(params: Params, system: ld.System, start: ld.Start, times, height: float) -> dict:
    """Real students from the start of a flow, and when they leave its plateau."""
    runs = ld.simulate(
        system, times, start=start, runs=params.runs, key=params.key, method="direct"
    )
    left = leaving(runs, height, 0.9).values
    return {"student": (("run", "time"), runs["error"].values), "student_leaves": ("run", left)}


def _summary(system: ld.System, start: ld.Start, flow: xr.Dataset) -> xr.Dataset:
    """A flow's error, when it leaves its plateau, and how the students' spread grows."""
    plateau, escape = plateau_of(system, start.state), escape_of(system, start.state)
    spread = flow["R"].std("student").max("teacher").values
    return xr.Dataset(
        {
            "error": ("time", flow["error"].values),
            "spread": ("time", spread),
            "height": plateau.error,
            "overlap": plateau.overlap,
            "leaves": float(leaving(flow, plateau.error, 0.9)),
            "tau": escape.exact,
            "tau_second": escape.second,
        }
    )


def _renamed(panel: xr.Dataset, name: str) -> xr.Dataset:
    """Variables and the time axis of one panel under names of its own."""
    panel = panel.rename({each: f"{name}_{each}" for each in panel.data_vars})
    return panel.rename(time=f"{name}_time")


def _times(params: Params) -> xr.Dataset:
    """Escape times of drawn teachers against M, L and N, exact and by Eq. 116."""
    M, N, L = params.right_M, params.right_N, params.right_L[0]
    sweeps = {
        "rate_M": [(m, params.left_N, params.left_N) for m in params.rate_M],
        "right": [(M, l, N) for l in params.right_L],
        "rate_N": [(M, L, n * L) for n in params.rate_N],
    }
    found = xr.Dataset(coords={"rate_M": list(params.rate_M), "rate_N": list(params.rate_N)})
    for name, sizes in sweeps.items():
        table = np.array([_drawn(params, size) for size in sizes])
        found[f"exact_{name}"] = ((name, "teacher"), table[..., 0])
        found[f"uniform_{name}"] = ((name, "teacher"), table[..., 1])
        found[f"typical_{name}"] = (name, [_typical(params, *size) for size in sizes])
    return found


def _drawn(params: Params, size) -> np.ndarray:
    system, keys = _system(params, *size), params.key + np.arange(params.teachers)
    rows = (escape_of(system, ld.start(system, key=int(k)).state) for k in keys)
    return np.array([(row.exact, row.uniform) for row in rows])


def _typical(params: Params, M: int, L: int, N: int) -> float:
    second = float(np.mean(ld.PowerLaw(L, L, params.beta).values ** 2))
    return erf_uniform.escape_time(1.0, 0.0, second, 0.0, M, params.eta)


def draw(data: xr.Dataset) -> Figure:
    """Above: the error on the plateau. Below: escape times of many teachers."""
    figure, axes = panels(4)
    a = data.attrs
    _draw_curves(axes[0], data, "left", "M", f"K = M, L = N = {a['left_N']}")
    _draw_curves(axes[1], data, "right", "L", f"K = M = {a['right_M']}, N = {a['right_N']}")
    _draw_times(axes[2], data, "rate_M", "units M")
    _draw_times(axes[3], data, "right", "number of eigenvalues L")
    axes[2].set_title(f"escape, L = N = {a['left_N']}", size=9)
    axes[3].set_title(f"escape, M = {a['right_M']}, N = {a['right_N']}", size=9)
    return figure


def _draw_curves(axis, data: xr.Dataset, name: str, letter: str, title: str) -> None:
    time, top = data[f"{name}_time"], 0.0
    for i, size in enumerate(data[name].values):
        one = data.sel({name: size})
        axis.plot(
            time, one[f"{name}_error"].isel(draw=0), color=f"C{i}", label=f"{letter} = {size}"
        )
        points = {"marker": "o", "ls": "", "ms": 2.5, "color": f"C{i}", "markevery": 8}
        axis.plot(time, one[f"{name}_student"].isel(run=0), **points)
        top = max(top, 1.6 * float(one[f"{name}_height"].isel(draw=0)))
    if data[f"{name}_student"].notnull().any():
        axis.plot([], [], "o", ms=2.5, color="0.3", label="students")
    axis.set(ylim=(0, top), xlabel="α [steps / N]", ylabel=r"generalisation error $\epsilon_g$")
    axis.set_title(f"flow, {title}, η = {data.attrs['eta']:g}, β = {data.attrs['beta']:g}", size=9)
    axis.legend(frameon=False, fontsize=8, ncols=2)


def _draw_times(axis, data: xr.Dataset, name: str, label: str) -> None:
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
    axis.legend(frameon=False, fontsize=8)


def check(data: xr.Dataset) -> list[Claim]:
    """The trends of the figure, the scaling of Eq. 15, and the exact escape."""
    return _fig5_claims.claims(data)
