"""What becomes of the plateau and of learning as the learning rate grows.

Below η_c the loss vanishes. Above it zero-error solutions are unstable: up to η₀ the plateau is
left, but the loss ends above zero; from η₀ to the last plateau ρ dies out and nothing is learned;
beyond, the norms diverge. For p = p* η₀ is η_c, and the second regime is empty.

The quick preset has fewer widths and samples each regime at fewer learning rates.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._model import quadratic_system, small_overlaps
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau

TITLE = "Regimes of the learning rate: learning, stuck, trapped, divergent (p* = 3)"
LEARNED = 0.01  # a run whose loss ends below this fraction of its start has learned
REGIMES = {
    "learns": "the loss vanishes, below η_c",
    "stuck": "the plateau is left but the loss ends above zero, between η_c and η₀",
    "trapped": "ρ dies out on the plateau, between η₀ and the last plateau",
    "diverges": "norms diverge, above the last plateau",
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of the study; `inside` are places in each regime, from its lower bound to its upper."""

    widths: tuple[int, ...] = (3, 6)
    p_star: int = 3
    inside: tuple[float, ...] = (0.2, 0.5, 0.8)
    epsilon: float = 0.01
    horizon: float = 400.0
    points: int = 21
    key: int = 1


PRESETS = {
    "quick": Params(),
    "paper": Params(widths=(3, 4, 5, 6, 8, 10), inside=(0.1, 0.3, 0.5, 0.7, 0.9)),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE at learning rates inside each predicted regime, and what became of it."""
    jobs = [job for p in params.widths for job in _learning_rates(params, p)]
    found = [outcome(params, p, eta) for p, eta, _ in cases(jobs, report)]
    widths, etas, predicted = (list(column) for column in zip(*jobs, strict=True))
    return xr.Dataset(
        {"predicted": ("run", predicted), "measured": ("run", found)},
        {"p": ("run", widths), "learning_rate": ("run", etas)},
        {"p_star": params.p_star},
    )


def _learning_rates(params: Params, p: int) -> list[tuple[int, float, str]]:
    """(p, η, regime) inside each regime of a width that is not empty."""
    end = quadratic_plateau.plateau_end(p, params.p_star)
    forms = (quadratic_late.critical_learning_rate, quadratic_plateau.trapping_learning_rate)
    bounds = [0.0, *(form(p, params.p_star) for form in forms), end, 1.5 * end]
    return [
        (p, low + x * (high - low), regime)
        for regime, low, high in zip(REGIMES, bounds[:-1], bounds[1:], strict=True)
        for x in params.inside
        if high - low > 1e-12
    ]


def outcome(params: Params, p: int, eta: float) -> str:
    """Reads the regime off the end of a run."""
    system = quadratic_system(p, params.p_star, eta, N=1000)
    state = small_overlaps(p, params.p_star, params.epsilon, params.key)
    times = np.linspace(0, params.horizon * p / eta, params.points)
    record = ld.solve(system, times, start=ld.start(system, state=state))
    if str(record["outcome"].values) == "diverged":
        return "diverges"
    error, overlap = record["error"].values, np.linalg.norm(record["R"], axis=(1, 2))
    if overlap[-1] < overlap[0]:
        return "trapped"
    return "learns" if error[-1] < LEARNED * error[0] else "stuck"


def draw(data: xr.Dataset) -> Figure:
    """Outcomes in the plane of width and learning rate, over the predicted bounds."""
    figure, (axis,) = panels(1, size=(7.4, 4.2))
    p_star, p = int(data.attrs["p_star"]), data["p"].values
    wide = range(p.min(), p.max() + 1)
    bounds = {
        "last plateau": (quadratic_plateau.plateau_end, "-"),
        "plateau stable, $\\eta_0$": (quadratic_plateau.trapping_learning_rate, "--"),
        "solutions unstable, $\\eta_c$": (quadratic_late.critical_learning_rate, ":"),
    }
    eta_c = lambda w: quadratic_late.critical_learning_rate(int(w), p_star)
    for label, (form, style) in bounds.items():
        curve = [form(w, p_star) / eta_c(w) for w in wide]
        axis.plot(wide, curve, style, color="0.4", lw=1.2, label=label)
    relative = data["learning_rate"].values / [eta_c(w) for w in p]
    for k, (regime, mark) in enumerate(zip(reversed(REGIMES), "xs^o", strict=True)):
        here = data["measured"].values == regime
        axis.plot(p[here], relative[here], mark, color=f"C{k}", ms=4, label=regime)
    axis.set(xlabel="student width p", ylabel="learning rate η / $\\eta_c$", xticks=wide)
    axis.set_title(f"p* = {p_star}", fontsize=9)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """In each regime the share of runs that do what is predicted there."""
    right = (data["measured"] == data["predicted"]).astype(float)
    source, because = "plateau and stability at finite η", "none: an outcome is one of four"
    said = lambda text: f"{text}: share of the runs there that do so"
    return [
        claim(said(text), source, kind="finding").equals(
            right.where(data["predicted"] == regime).mean(), 1.0, within=0.0, because=because
        )
        for regime, text in REGIMES.items()
    ]
