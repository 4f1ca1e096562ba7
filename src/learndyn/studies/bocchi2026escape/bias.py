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
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.landscape import solutions

TITLE = "Implicit bias: the nearest solution, where S is conserved, and where it is not"
EPS = float(np.finfo(float).eps)
RTOL, ATOL = 1e-10, 1e-12
PAPER = "Q = I, T = I"


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
    rho, I = own[0].R[0], np.eye(q)
    U, _, Vt = np.linalg.svd(rho)
    spread, T = np.diag(np.linspace(0.5, 1.5, p)), np.diag(np.linspace(1.4, 0.6, q))
    return [
        *((PAPER, state) for state in own),
        ("Q commutes with ρρᵀ, T = I", ld.Overlaps(U @ spread @ U.T, rho, I)),
        ("Q = I, T commutes with ρᵀρ", ld.Overlaps(np.eye(p), rho, Vt.T @ T @ Vt)),
        ("Q = diag(0.5 … 1.5), T = I", ld.Overlaps(spread, rho, I)),
        ("Q = I, T = diag(1.4 … 0.6)", ld.Overlaps(np.eye(p), rho, T)),
        (
            "equal singular values of ρ, T = diag(1.4 … 0.6)",
            _equal_singular_values(p, T, params, rng),
        ),
        ("i.i.d. normal weights, N = 100", _normal_weights(p, q, rng)),
    ]


def _equal_singular_values(p: int, T: np.ndarray, params: Params, rng) -> ld.Overlaps:
    """Q commutes with ρρᵀ and T with ρᵀρ, but Q not with ρTρᵀ."""
    S = stiefel.random_point(p, len(T), rng)
    tilt = 0.3 * (1 - np.eye(len(T)))
    return ld.Overlaps(np.eye(p) + S @ tilt @ S.T, np.sqrt(p) * params.epsilon * S, T)


def _normal_weights(p: int, q: int, rng: np.random.Generator, N: int = 100) -> ld.Overlaps:
    W, W_star = rng.standard_normal((p, N)) / np.sqrt(N), stiefel.random_point(N, q, rng).T
    return ld.Overlaps(W @ W.T, W @ W_star.T, np.eye(q))


def _follow(params: Params, state: ld.Overlaps) -> xr.Dataset:
    Q, rho, T = (np.asarray(matrix[0]) for matrix in (state.Q, state.R, state.T))
    p, q = rho.shape
    system = quadratic_system(p, q, params.eta, N=10_000)  # N only names the steps
    t = np.concatenate([[0], np.geomspace(0.01, params.t, params.points - 1)])
    start = ld.start(system, state=state)
    record = ld.solve(system, t / params.eta, start=start, rtol=RTOL, atol=ATOL)
    S, rng = solutions.polar_factor(record["R"].values), np.random.default_rng(params.key)
    values = {
        "reached": solutions.distance(S[-1], rho, Q, T),
        "least": solutions.least_distance(rho, Q, T, params.descents, rng),
        "error": float(record["error"][-1]),
        "conserved": int(solutions.is_conserved(Q, rho, T)),
    }
    way = np.linalg.norm(S - S[0], axis=(1, 2))
    return xr.Dataset({"way": ("t", way)} | {k: ((), v) for k, v in values.items()}, {"t": t})


def draw(data: xr.Dataset) -> Figure:
    """How far S moves in time, and by how much the end is farther than the nearest solution."""
    figure, (left, right) = panels(2, size=(5.6, 3.8))
    every = _by_case(data)
    for place, rows in enumerate(every.values()):
        kept = bool(rows["conserved"].all())
        color, style, fill = f"C{place}", "--" if kept else "-", "none" if kept else "full"
        left.plot(data["t"][1:], np.maximum(rows["way"].max("start"), EPS)[1:], style, color=color)
        gap = np.maximum(rows["reached"] - rows["least"], EPS)
        right.plot(gap, np.full(gap.size, place), "o", color=color, fillstyle=fill)
    left.set(xscale="log", yscale="log", xlabel=r"$t = \eta\alpha$", ylabel=r"$\|S(t) - S(0)\|$")
    right.set_yticks(range(len(every)), list(every), fontsize=8)
    right.invert_yaxis()
    right.set(xscale="log", xlabel="(distance² reached − least distance²) / N")
    kept, moved = {"marker": "o", "fillstyle": "none"}, {"marker": "o"}
    legend(right, {"S conserved (dashed)": kept, "S not conserved": moved}, loc="lower left")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """No gap where S is conserved, a gap elsewhere, and the condition tells which."""
    moved = data["way"].max("t") > 100 * RTOL
    wrong = (moved == data["conserved"].astype(bool)).sum()
    said = "S is conserved iff Q, ρρᵀ and ρTρᵀ commute pairwise at the start: starts where the "
    said += "condition and the ODE differ"
    printed = "S constant throughout the dynamics (Eq. 22), from arbitrary W(0)"
    because = "S moved: by more than 100 × the integrator's rtol"
    condition = claim(said, "Sec. 7.4").erratum(printed)
    return [
        *(_gap(rows, name) for name, rows in _by_case(data).items()),
        condition.equals(wrong, 0.0, within=0.0, because=because),
    ]


def _by_case(data: xr.Dataset) -> dict[str, xr.Dataset]:
    names = dict.fromkeys(data["case"].values.tolist())
    return {name: data.isel(start=(data["case"] == name).values) for name in names}


def _gap(rows: xr.Dataset, name: str) -> Claim:
    gap, scale = rows["reached"] - rows["least"], rows["reached"].max()
    source = "Sec. 4.1, Eqs. 17-19"
    if bool(rows["conserved"].all()):
        said = f"{name}: the end is the nearest solution, (distance² − least)/N, largest"
        return claim(said, source, kind="claim" if name == PAPER else "finding").equals(
            abs(gap).max(), 0.0, within=64 * EPS * scale,
            because="rounding of the distance; the error of S enters squared",
        )  # fmt: skip
    said = f"{name}: S is not conserved, and the end is farther than the nearest solution, gap"
    return (
        claim(said, source)
        .erratum("0: the nearest solution, from arbitrary W(0)", 0.0)
        .at_least(
            gap.min(), RTOL * scale,
            because="a gap is one above the integrator's relative tolerance",
        )
    )  # fmt: skip
