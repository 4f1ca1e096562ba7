"""The plateau at finite learning rates: its norm and the growth rate of the overlaps on it.

The quick preset has fewer learning rates and one case less than the paper preset.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.plateau import quadratic

TITLE = "Norm and growth rate of the plateau at finite learning rates"


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; learning rates in units of that of the last plateau.

    Runs last `settle` + `watch` relaxation times of the norm and are fitted in the second part.
    """

    p: tuple[int, ...] = (3, 3)
    p_star: tuple[int, ...] = (2, 3)
    fractions: tuple[float, ...] = (0.05, 0.25, 0.5, 0.7, 0.9, 0.99)
    epsilon: float = 1e-9
    settle: float = 14.0
    watch: float = 8.0
    points: int = 45
    key: int = 1


PRESETS = {
    "quick": Params(),
    "paper": Params(
        p=(3, 3, 6), p_star=(2, 3, 3), fractions=(*np.arange(0.05, 0.96, 0.05).tolist(), 0.99)
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE from Q = I/2 and minute overlaps, at learning rates up to the last plateau."""
    sizes = list(zip(params.p, params.p_star, strict=True))
    etas = np.array([_learning_rates(params, *size) for size in sizes])
    jobs = [(*size, float(eta)) for size, row in zip(sizes, etas, strict=True) for eta in row]
    found = [_measure(params, *job) for job in cases(jobs, report)]
    columns = dict(zip(("norm", "rate", "overlap"), np.transpose(found), strict=True))
    table = {"learning_rate": etas} | {n: v.reshape(etas.shape) for n, v in columns.items()}
    return xr.Dataset(
        {name: (("case", "number"), values) for name, values in table.items()},
        {"p": ("case", list(params.p)), "p_star": ("case", list(params.p_star))},
        {"settle": params.settle},
    )


def _learning_rates(params: Params, p: int, p_star: int) -> list[float]:
    """Fractions of the last plateau's; the last but one is where ρ stops growing, if it does."""
    end, trapping = quadratic.plateau_end(p, p_star), quadratic.trapping_learning_rate(p, p_star)
    fractions = [f * end for f in params.fractions]
    return [*fractions[:-1], trapping if trapping < 0.99 * end else 0.97 * end, fractions[-1]]


def _measure(params: Params, p: int, p_star: int, eta: float) -> tuple[float, float, float]:
    """Norm at the end, growth rate of ρ in the second part, largest overlap there."""
    system = quadratic_system(p, p_star, eta, N=1000)
    # Below every plateau: Q = I would be one already at η₀ of p = p*.
    state = small_overlaps(p, p_star, params.epsilon, params.key, norm=0.5)
    start = ld.start(system, state=state)
    pace = -quadratic.plateau_norm_rate(p, p_star, eta)
    window = params.settle / pace, (params.settle + params.watch) / pace
    t = np.linspace(0, window[1], params.points)
    record = ld.solve(system, t / eta, start=start, rtol=1e-11, atol=1e-17)
    overlap = np.linalg.norm(record["R"], axis=(1, 2))
    norms = np.einsum("tkk->tk", record["Q"].values)
    rate = ld.analysis.fit_rate(t, overlap, window=window).slope
    return float(norms[-1].mean()), rate, float(overlap[t >= window[0]].max())


def draw(data: xr.Dataset) -> Figure:
    """Norm and growth rate against η: closed forms as lines, the ODE as points."""
    figure, axes = panels(2)
    forms = (quadratic.plateau_norm, quadratic.plateau_growth_rate)
    for case, color in zip(range(data.sizes["case"]), ("C0", "C1", "C2"), strict=False):
        one = data.isel(case=case)
        p, p_star = int(one["p"]), int(one["p_star"])
        end = quadratic.plateau_end(p, p_star)
        eta = end * np.sin(np.linspace(0, np.pi / 2, 200))  # dense at the end, a square root
        for axis, name, form in zip(axes, ("norm", "rate"), forms, strict=True):
            curve = [form(p, p_star, e * (1 - 1e-12)) for e in eta]
            axis.plot(eta, curve, color=color, lw=1.2, label=f"p = {p}, p* = {p_star}")
            axis.plot(one["learning_rate"], one[name], "o", color=color, ms=4)
            axis.axvline(end, color=color, ls=":", lw=0.8)
    axes[1].axhline(0, color="0.4", lw=0.8)
    axes[0].set_ylabel("plateau norm $q(\\eta)$")
    axes[1].set_ylabel("growth rate $\\omega_\\rho(\\eta)$ of ρ, per ηα")
    styles = {"ODE": {"marker": "o", "ms": 4}, "last plateau": {"ls": ":", "lw": 0.8}}
    for axis in axes:
        axis.set_xlabel("learning rate η")
        legend(axis, styles if axis is axes[1] else None)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The norm and the rate at every η, and where the rate vanishes."""
    return [row for case in range(data.sizes["case"]) for row in _case(data.isel(case=case))]


def _case(one: xr.Dataset) -> list[Claim]:
    p, p_star, etas = int(one["p"]), int(one["p_star"]), one["learning_rate"].values
    over = lambda form: [form(p, p_star, eta) for eta in etas]
    largest = lambda name, form: np.max(np.abs(one[name].values - over(form)))
    rows = {
        "largest deviation of the norm from q(η)": largest("norm", quadratic.plateau_norm),
        "largest deviation of the growth rate from ω_ρ(η)": largest(
            "rate", quadratic.plateau_growth_rate
        ),
    }
    trapping = quadratic.trapping_learning_rate(p, p_star)
    if trapping < etas.max():
        same = ", equal to η_c," if p == p_star else ""
        what = f"growth rate of ρ at η₀ = {trapping:.4g}{same} above which none leaves the plateau"
        rows[what] = one["rate"][np.argmin(np.abs(etas - trapping))]
    within = quadratic.settled_error(one.attrs["settle"], one["overlap"].values)
    because = "what is left of the norm's transient, and |ρ|² of linearisation"
    name, source = f"p = {p}, p* = {p_star}", "plateau at finite η"
    said = lambda what: claim(f"{name}: {what}", source, kind="finding")
    return [
        said(what).equals(measured, 0.0, within=within, because=because)
        for what, measured in rows.items()
    ]
