"""Sec. 4.1: whether the trajectory ends at the nearest zero-error solution.

The claim is made for arbitrary initial weights. It holds where S(t) is conserved: for the paper's
own start Q(0) = I with T = I, and whenever Q(0), ρ(0)ρ(0)ᵀ and ρ(0)Tρ(0)ᵀ commute pairwise.
Elsewhere the end is farther than the nearest solution, which a descent over all S finds. The
quick preset has one size of the networks.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics import stiefel
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import ode, small_overlaps
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions

TITLE = "Implicit bias: the nearest solution, where S is conserved, and where it is not"
DIFFERS = (
    "Sec. 4.1 states its claim for any start, without sizes beyond Fig. 3; here (p, p*) = (4, "
    "2), (3, 3), (6, 3), 20 starts with Q = I and six of other kinds each"
)
EPS = float(np.finfo(float).eps)
RTOL, ATOL = 1e-10, 1e-12
PAPER, SOURCE = "Q = I, T = I", "Sec. 4.1, Eqs. 17-19"
NEAREST = "the end is the nearest solution: largest (distance² − least)/N"
ROUNDING = "rounding of the distance; the error of S enters squared"
CLAIMS = {
    "nearest": claim(f"{PAPER}: {NEAREST}", SOURCE, because=ROUNDING),
    "conserved": claim(f"{{case}}: {NEAREST}", SOURCE, kind="finding", because=ROUNDING),
    "farther": claim("{case}: S is not conserved, and the end is farther than the nearest "
                     "solution: smallest gap", SOURCE,
                     because="a gap is one above the integrator's relative tolerance")
    .erratum("0: the nearest solution, from arbitrary W(0)", 0.0),
    "condition": claim("S is conserved if and only if Q, ρρᵀ and ρTρᵀ commute pairwise at the "
                       "start: starts where the condition and the ODE differ", "Sec. 7.4",
                       within=Tolerance(0.0, "S moved: by more than 100 × the integrator's rtol"))
    .erratum("S is constant throughout the dynamics (Eq. 22), from arbitrary W(0)"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes p and p* by place; `starts` of the paper's kind, `descents` over S for each."""

    p: tuple[int, ...] = (4,)
    p_star: tuple[int, ...] = (2,)
    eta: float = 0.01
    epsilon: float = 0.1
    t: float = 200.0
    points: int = 61
    starts: int = 5
    descents: int = 5
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(p=(4, 3, 6), p_star=(2, 3, 3), starts=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """For each start the path of S, the distance of the end, and the least distance there is."""
    sizes = zip(params.p, params.p_star, strict=True)
    jobs = [job for size in sizes for job in _starts(*size, params)]
    rows = [_follow(params, state).assign(case=name) for name, state in cases(jobs, report)]
    return xr.concat(rows, "start").assign_attrs(t=params.t)


def _starts(p: int, q: int, params: Params) -> list[tuple[str, ld.Overlaps]]:
    rng = np.random.default_rng([params.key, p, q])
    seeds = [int(seed) for seed in rng.integers(2**31, size=params.starts)]
    own = [small_overlaps(p, q, params.epsilon, seed) for seed in seeds]
    rho, I, I_star = own[0].R[0], np.eye(p), np.eye(q)
    U, _, Vt = np.linalg.svd(rho)
    spread, T = np.diag(np.linspace(0.5, 1.5, p)), np.diag(np.linspace(1.4, 0.6, q))
    # Here Q commutes with ρρᵀ and T with ρᵀρ, but Q not with ρTρᵀ.
    S = stiefel.random_point(p, q, rng)
    tilted = ld.Overlaps(I + S @ (0.3 * (1 - I_star)) @ S.T, np.sqrt(p) * params.epsilon * S, T)
    W, W_star = rng.standard_normal((p, 100)) / 10, stiefel.random_point(100, q, rng).T
    return [
        *((PAPER, state) for state in own),
        ("Q commutes with ρρᵀ, T = I", ld.Overlaps(U @ spread @ U.T, rho, I_star)),
        ("Q = I, T commutes with ρᵀρ", ld.Overlaps(I, rho, Vt.T @ T @ Vt)),
        ("Q = diag(0.5 … 1.5), T = I", ld.Overlaps(spread, rho, I_star)),
        ("Q = I, T = diag(1.4 … 0.6)", ld.Overlaps(I, rho, T)),
        ("equal singular values of ρ, T = diag(1.4 … 0.6)", tilted),
        ("i.i.d. normal weights, N = 100", ld.Overlaps(W @ W.T, W @ W_star.T, I_star)),
    ]


def _follow(params: Params, state: ld.Overlaps) -> xr.Dataset:
    Q, rho, T = (np.asarray(matrix[0]) for matrix in (state.Q, state.R, state.T))
    t = np.concatenate([[0], np.geomspace(0.01, params.t, params.points - 1)])
    record = ode(state, params.eta, t / params.eta, 10_000, rtol=RTOL, atol=ATOL)
    S, rng = solutions.polar_factor(record["R"].values), np.random.default_rng(params.key)
    values = {
        "way": ("t", np.linalg.norm(S - S[0], axis=(1, 2))),
        "reached": solutions.distance(S[-1], rho, Q, T),
        "least": solutions.least_distance(rho, Q, T, params.descents, rng),
        "error": float(record["error"][-1]),
        "conserved": int(solutions.is_conserved(Q, rho, T)),
    }
    return xr.Dataset(values, {"t": t})


def draw(data: xr.Dataset) -> Figure:
    """How far S moves in time, and by how much the end is farther than the nearest solution."""
    figure, (left, right) = panels(2, size=(5.6, 3.8))
    by_case = _by_case(data)
    for place, rows in enumerate(by_case.values()):
        kept = bool(rows["conserved"].all())
        color, style, fill = f"C{place}", "--" if kept else "-", "none" if kept else "full"
        left.plot(data["t"][1:], np.maximum(rows["way"].max("start"), EPS)[1:], style, color=color)
        gap = np.maximum(rows["reached"] - rows["least"], EPS)
        right.plot(gap, np.full(gap.size, place), "o", color=color, fillstyle=fill)
    left.set(xscale="log", yscale="log", xlabel=r"$t = \eta\alpha$", ylabel=r"$\|S(t) - S(0)\|$")
    right.set_yticks(range(len(by_case)), list(by_case), fontsize=8)
    right.invert_yaxis()
    right.set(xscale="log", xlabel="(distance² reached − least distance²) / N")
    kept, moved = {"marker": "o", "fillstyle": "none"}, {"marker": "o"}
    legend(right, {"S conserved (dashed)": kept, "S not conserved": moved}, loc="lower left")
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """No gap where S is conserved, a gap elsewhere, and the condition tells which."""
    claims = []
    for case, rows in _by_case(data).items():
        gap, scale = rows["reached"] - rows["least"], rows["reached"].max()
        if bool(rows["conserved"].all()):
            nearest = CLAIMS["nearest" if case == PAPER else "conserved"].format(case=case)
            claims.append(nearest.equals(abs(gap).max(), 0.0, 64 * EPS * scale))
        else:
            farther = CLAIMS["farther"].format(case=case)
            claims.append(farther.at_least(gap.min(), RTOL * scale))
    moved = data["way"].max("t") > 100 * RTOL
    wrong = (moved == data["conserved"].astype(bool)).sum()
    return [*claims, CLAIMS["condition"].equals(wrong, 0.0)]


def _by_case(data: xr.Dataset) -> dict[str, xr.Dataset]:
    names = dict.fromkeys(data["case"].values.tolist())
    return {name: data.isel(start=(data["case"] == name).values) for name in names}
