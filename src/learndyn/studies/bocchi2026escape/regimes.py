"""What becomes of the plateau and of learning as the learning rate grows.

Below η_c the loss vanishes. Above it zero-error solutions are unstable: up to η₀ the plateau is
left, but the loss ends above zero; from η₀ to the last plateau ρ dies out and nothing is learned;
beyond, the norms diverge. For p = p*, η₀ is η_c, and the second regime is empty. The quick preset
has fewer widths and samples each regime at fewer learning rates.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape._model import ode, small_overlaps
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.theory.committee.late_stage.quadratic import critical_learning_rate
from learndyn.theory.committee.plateau.quadratic import plateau_end, trapping_learning_rate

TITLE = "Regimes of the learning rate: learning, stuck, trapped, divergent (p* = 3)"
DIFFERS = "ours: the paper has no such figure"
LEARNED = 0.01  # a run whose loss ends below this fraction of its start has learned
REGIMES = {
    "learns": "the loss vanishes, below η_c",
    "stuck": "the plateau is left but the loss ends above zero, between η_c and η₀",
    "trapped": "ρ dies out on the plateau, between η₀ and the last plateau",
    "diverges": "norms diverge, above the last plateau",
}
UPPER = {"learns": critical_learning_rate, "stuck": trapping_learning_rate, "trapped": plateau_end}
CLAIMS = {
    regime: claim(f"{text}: fraction of the runs there that do so",
                  "plateau and stability at finite η", kind="finding",
                  within=Tolerance(0.0, "none: an outcome is one of four"))
    for regime, text in REGIMES.items()
}  # fmt: skip


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


_MANY = (0.1, 0.3, 0.5, 0.7, 0.9)
PRESETS = {"quick": Params(), "paper": Params(widths=(3, 4, 5, 6, 8, 10), inside=_MANY)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The ODE at learning rates inside each predicted regime, and what became of it."""
    jobs = [job for p in params.widths for job in _learning_rates(params, p)]
    measured = [outcome(params, p, eta) for p, eta, _ in cases(jobs, report)]
    widths, etas, predicted = (list(column) for column in zip(*jobs, strict=True))
    return xr.Dataset(
        {"predicted": ("run", predicted), "measured": ("run", measured)},
        {"p": ("run", widths), "learning_rate": ("run", etas)},
        {"p_star": params.p_star},
    )


def _learning_rates(params: Params, p: int) -> list[tuple[int, float, str]]:
    """(p, η, regime) inside each regime of a width that is not empty."""
    bounds = [0.0, *(form(p, params.p_star) for form in UPPER.values())]
    bounds.append(1.5 * bounds[-1])
    return [
        (p, low + x * (high - low), regime)
        for regime, low, high in zip(REGIMES, bounds[:-1], bounds[1:], strict=True)
        for x in params.inside
        if high - low > 1e-12
    ]


def outcome(params: Params, p: int, eta: float) -> str:
    """Reads the regime off the end of a run."""
    state = small_overlaps(p, params.p_star, params.epsilon, params.key)
    record = ode(state, eta, np.linspace(0, params.horizon * p / eta, params.points))
    if str(record["outcome"].values) == "diverged":
        return "diverges"
    error, overlap = record["error"].values, np.linalg.norm(record["R"], axis=(1, 2))
    if overlap[-1] < overlap[0]:
        return "trapped"
    return "learns" if error[-1] < LEARNED * error[0] else "stuck"


def relative_bound(regime: str, p: int, p_star: int) -> float:
    """The learning rate up to which a regime lasts, in units of η_c."""
    return float(UPPER[regime](p, p_star) / critical_learning_rate(p, p_star))


def draw_bounds(figure: Figure, widths: Sequence[int], p_star: int, unit: int = 1) -> None:
    """The predicted bounds against the width in these units, with axes and legend."""
    axis = figure.axes[0]
    labels = ("solutions unstable, $\\eta_c$", "plateau stable, $\\eta_0$", "last plateau")
    for regime, label, style in zip(UPPER, labels, (":", "--", "-"), strict=True):
        curve = [relative_bound(regime, p, p_star) for p in widths]
        axis.plot(np.array(widths) / unit, curve, style, color="0.2", lw=1.2, label=label)
    axis.set_ylabel("learning rate η / $\\eta_c$")
    axis.set_title(f"p* = {p_star}", fontsize=9)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")


def draw(data: xr.Dataset) -> Figure:
    """Outcomes in the plane of width and learning rate, over the predicted bounds."""
    figure, (axis,) = panels(1, size=(7.4, 4.2))
    p_star, p = int(data.attrs["p_star"]), data["p"].values
    relative = data["learning_rate"].values / [critical_learning_rate(int(w), p_star) for w in p]
    for k, (regime, mark) in enumerate(zip(reversed(REGIMES), "xs^o", strict=True)):
        here = data["measured"].values == regime
        axis.plot(p[here], relative[here], mark, color=f"C{k}", ms=4, label=regime)
    wide = range(int(p.min()), int(p.max()) + 1)
    axis.set(xlabel="student width p", xticks=wide)
    draw_bounds(figure, wide, p_star)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """In each regime the fraction of runs that do what is predicted there."""
    right = (data["measured"] == data["predicted"]).astype(float)
    fraction = lambda regime: right.where(data["predicted"] == regime).mean()
    return [CLAIMS[regime].equals(fraction(regime), 1.0) for regime in REGIMES]
