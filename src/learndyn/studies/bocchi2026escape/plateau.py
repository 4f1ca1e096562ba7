"""The plateau at finite learning rates: its norm and the growth rate of the overlaps on it.

The quick preset has fewer learning rates and one case less than the paper preset.
"""

import dataclasses
import functools

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._drawing import finish
from learndyn.studies.bocchi2026escape._model import ode, sizes, small_overlaps
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.plateau import quadratic

TITLE = "Norm and growth rate of the plateau at finite learning rates"
DIFFERS = "ours: the paper has no such figure"
CASE, SOURCE = "p = {p}, p* = {p_star}: ", "plateau at finite η"
SETTLED = "what is left of the norm's transient, and |ρ|² of linearisation"
finding = functools.partial(claim, source=SOURCE, kind="finding", because=SETTLED)
CLAIMS = {
    "norm": finding(CASE + "largest deviation of the norm from q(η)"),
    "rate": finding(CASE + "largest deviation of the growth rate from ω_ρ(η)"),
    "trapped": finding(CASE + "growth rate of ρ at η₀ = {eta:.4g}{equal} above which no run leaves "
                     "the plateau"),
}  # fmt: skip


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


_FINE = (*np.arange(0.05, 0.96, 0.05).tolist(), 0.99)
PRESETS = {"quick": Params(), "paper": Params(p=(3, 3, 6), p_star=(2, 3, 3), fractions=_FINE)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE from Q = I/2 and minute overlaps, at learning rates up to the last plateau."""
    pairs = list(zip(params.p, params.p_star, strict=True))
    etas = np.array([_learning_rates(params, *pair) for pair in pairs])
    jobs = [(*pair, float(eta)) for pair, row in zip(pairs, etas, strict=True) for eta in row]
    columns = np.transpose([_measure(params, *job) for job in cases(jobs, report)])
    table = dict(zip(("norm", "rate", "overlap"), columns, strict=True)) | {"learning_rate": etas}
    return xr.Dataset(
        {name: (("case", "number"), x.reshape(etas.shape)) for name, x in table.items()},
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
    # Below every plateau: Q = I would be one already at η₀ of p = p*.
    state = small_overlaps(p, p_star, params.epsilon, params.key, norm=0.5)
    pace = -quadratic.plateau_norm_rate(p, p_star, eta)
    window = params.settle / pace, (params.settle + params.watch) / pace
    t = np.linspace(0, window[1], params.points)
    record = ode(state, eta, t / eta, rtol=1e-11, atol=1e-17)
    overlap = np.linalg.norm(record["R"], axis=(1, 2))
    norms = np.einsum("tkk->tk", record["Q"].values)
    rate = ld.analysis.fit_rate(t, overlap, window=window).slope
    return float(norms[-1].mean()), rate, float(overlap[t >= window[0]].max())


def draw(data: xr.Dataset) -> Figure:
    """Norm and growth rate against η: closed forms as lines, the ODE as points."""
    figure, axes = panels(2)
    forms = {"norm": quadratic.plateau_norm, "rate": quadratic.plateau_growth_rate}
    for case in range(data.sizes["case"]):
        one, color = data.isel(case=case), f"C{case}"
        p, p_star = sizes(one)
        end = quadratic.plateau_end(p, p_star)
        eta = end * np.sin(np.linspace(0, np.pi / 2, 200))  # dense at the end, a square root
        for axis, (name, form) in zip(axes, forms.items(), strict=True):
            curve = [form(p, p_star, e * (1 - 1e-12)) for e in eta]
            axis.plot(eta, curve, color=color, lw=1.2, label=f"p = {p}, p* = {p_star}")
            axis.plot(one["learning_rate"], one[name], "o", color=color, ms=4)
            axis.axvline(end, color=color, ls=":", lw=0.8)
    axes[1].axhline(0, color="0.4", lw=0.8)
    finish(axes[0], "learning rate η", "plateau norm $q(\\eta)$")
    styles = {"ODE": {"marker": "o", "ms": 4}, "last plateau": {"ls": ":", "lw": 0.8}}
    rate = "growth rate $\\omega_\\rho(\\eta)$ of ρ, per ηα"
    finish(axes[1], "learning rate η", rate, styles=styles)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The norm and the rate at every η, and where the rate vanishes."""
    claims = []
    for one in (data.isel(case=case) for case in range(data.sizes["case"])):
        (p, p_star), etas = sizes(one), one["learning_rate"].values
        within = quadratic.settled_error(one.attrs["settle"], one["overlap"].values)
        forms = {"norm": quadratic.plateau_norm, "rate": quadratic.plateau_growth_rate}
        for name, form in forms.items():
            gap = np.max(np.abs(one[name].values - [form(p, p_star, eta) for eta in etas]))
            claims.append(CLAIMS[name].format(p=p, p_star=p_star).equals(gap, 0.0, within))
        trapping = quadratic.trapping_learning_rate(p, p_star)
        if trapping < etas.max():
            equal = ", equal to η_c," if p == p_star else ""
            trapped = CLAIMS["trapped"].format(p=p, p_star=p_star, eta=trapping, equal=equal)
            rate = one["rate"][np.argmin(np.abs(etas - trapping))]
            claims.append(trapped.equals(rate, 0.0, within))
    return claims
