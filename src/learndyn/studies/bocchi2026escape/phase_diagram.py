"""The regimes of `regimes` as a phase diagram over η/η_c and p/p*, by a sweep.

Learning rates are on a grid around the bounds: what is measured is where, at each width, one
outcome gives way to the next. The quick preset has fewer widths. The grid was placed where the
bounds are, and its tolerance set, before the first run.
"""

import dataclasses
import functools

import numpy as np
import xarray as xr
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape import regimes
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report
from learndyn.studies.sweeps import swept
from learndyn.theory.committee.late_stage import quadratic as quadratic_late
from learndyn.theory.committee.plateau import quadratic as quadratic_plateau

TITLE = "Phase diagram over learning rate and width: learning, stuck, trapped, divergent (p* = 3)"
COLORS = ("#8fbf8f", "#f2d16b", "#e08a5b", "#8a8a99")
# Closer to a bound than this share of a step, runs are too slow to show their regime, and a loss
# that ends above zero may be small enough to count as learned.
CLOSE = 0.5
BOUNDS = {
    "learns": ("zero-error solutions are stable below η_c", quadratic_late.critical_learning_rate),
    "stuck": ("the plateau is left below η₀", quadratic_plateau.trapping_learning_rate),
    "trapped": ("norms stay finite up to the last plateau", quadratic_plateau.plateau_end),
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes; learning rates lie between `smallest` and `largest`, in units of η_c."""

    widths: tuple[int, ...] = (3, 5, 8)
    p_star: int = 3
    spacing: float = 0.02
    smallest: float = 0.9
    largest: float = 1.44
    epsilon: float = 0.01
    horizon: float = 400.0
    points: int = 21
    key: int = 1


PRESETS = {
    "quick": Params(),
    "paper": Params(widths=(3, 4, 5, 6, 7, 8, 9, 10), smallest=0.5, largest=1.6),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """What becomes of the ODE at every width and learning rate."""
    first = params.smallest + params.spacing / 2
    relative = np.arange(first, params.largest, params.spacing)
    axes = {"p": params.widths, "relative": relative}
    data = swept(functools.partial(point, params=params), axes, report)
    bounds = {
        f"bound_{regime}": ("p", [_relative(form, p, params.p_star) for p in params.widths])
        for regime, (_, form) in BOUNDS.items()
    }
    given = {name: getattr(params, name) for name in ("p_star", "spacing", "smallest")}
    return data.assign(bounds).assign_attrs(given)


def point(p: int, relative: float, params: Params) -> xr.Dataset:
    """The regime of one point, as its place in `regimes.REGIMES`."""
    size = regimes.Params(
        p_star=params.p_star, epsilon=params.epsilon, horizon=params.horizon,
        points=params.points, key=params.key,
    )  # fmt: skip
    eta = relative * quadratic_late.critical_learning_rate(p, params.p_star)
    found = regimes.outcome(size, p, eta)
    return xr.Dataset({"regime": list(regimes.REGIMES).index(found)})


def _relative(form, p: int, p_star: int) -> float:
    return float(form(p, p_star) / quadratic_late.critical_learning_rate(p, p_star))


def draw(data: xr.Dataset) -> Figure:
    """Outcomes as cells, predicted bounds as lines."""
    figure, (axis,) = panels(1, size=(7.4, 4.2))
    widths, step, p_star = data["p"].values, data.attrs["spacing"], data.attrs["p_star"]
    ends = np.append(data["relative"].values - step / 2, data["relative"].values[-1] + step / 2)
    for k, p in enumerate(widths):
        edges = np.array([p - 0.4, p + 0.4]) / p_star
        cells = data["regime"].values[k][:, None]
        axis.pcolormesh(edges, ends, cells, cmap=ListedColormap(COLORS), vmin=-0.5, vmax=3.5)
    for regime, color in zip(regimes.REGIMES, COLORS, strict=True):
        axis.plot([], [], "s", color=color, ms=8, label=regime)
    wide = np.arange(widths.min(), widths.max() + 1)
    labels = ("solutions unstable, $\\eta_c$", "plateau stable, $\\eta_0$", "last plateau")
    for (_, form), label, style in zip(BOUNDS.values(), labels, ("k:", "k--", "k-"), strict=True):
        curve = [_relative(form, int(p), int(p_star)) for p in wide]
        axis.plot(wide / p_star, curve, style, lw=1.3, label=label)
    axis.set(xlabel="width p / p*", ylabel="learning rate η / $\\eta_c$", ylim=(ends[0], ends[-1]))
    axis.set_title(f"p* = {int(p_star)}", fontsize=9)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Where outcomes change, against the predicted bounds, in steps of the grid."""
    source, step = "plateau and stability at finite η", data.attrs["spacing"]
    because = "half a step of the grid, and half of one, where runs are too slow to decide"
    first = data.attrs["smallest"]
    rows = []
    for place, (regime, (said, _)) in enumerate(BOUNDS.items()):
        # The number of learning rates up to which a run has at most this regime.
        below = (data["regime"] <= place).cumprod("relative").sum("relative")
        far = abs(first + below * step - data[f"bound_{regime}"]).max() / step
        text = f"{said}: largest distance of the measured bound, in steps of the grid"
        within = claim(text, source, kind="finding")
        rows.append(within.at_most(float(far), 0.5 + CLOSE, because=because))
    return rows
