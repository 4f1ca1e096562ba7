"""The regimes of `regimes` as a phase diagram over η/η_c and p/p*, by a sweep.

Learning rates are on a grid around the bounds. What is measured is where, at each width, one
outcome gives way to the next. The quick preset has fewer widths.

Notes: docs/results/bocchi2026escape/phase_diagram/notes.md.
"""

import dataclasses
import functools

import numpy as np
import xarray as xr
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.bocchi2026escape import regimes
from learndyn.studies.claims import Claim, claim, with_rates
from learndyn.studies.registry import Report
from learndyn.studies.sweeps import swept
from learndyn.theory.committee.late_stage.quadratic import critical_learning_rate

TITLE = "Phase diagram over learning rate and width: learning, stuck, trapped, divergent (p* = 3)"
DIFFERS = "ours: the paper has no such figure"
COLORS = ("#8fbf8f", "#f2d16b", "#e08a5b", "#8a8a99")
# Closer to a bound than this share of a step, runs are too slow to show their regime, and a loss
# that ends above zero may be small enough to count as learned.
CLOSE = 0.5
BOUNDS = {
    "learns": "zero-error solutions are stable below η_c",
    "stuck": "the plateau is left below η₀",
    "trapped": "norms stay finite up to the last plateau",
}
CLAIMS = {
    regime: claim(f"{text}: largest distance of the measured bound, in steps of the grid",
                  "plateau and stability at finite η", kind="finding",
                  because="half a step of the grid, and another half where runs are too slow to "
                          "decide")
    for regime, text in BOUNDS.items()
}  # fmt: skip


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
    bound = lambda regime: [regimes.relative_bound(regime, p, params.p_star) for p in params.widths]
    data = data.assign({f"bound_{regime}": ("p", bound(regime)) for regime in BOUNDS})
    return data.assign_attrs({n: getattr(params, n) for n in ("p_star", "spacing", "smallest")})


def point(p: int, relative: float, params: Params) -> xr.Dataset:
    """The regime of one point, as its place in `regimes.REGIMES`."""
    shared = ("p_star", "epsilon", "horizon", "points", "key")
    size = regimes.Params(**{name: getattr(params, name) for name in shared})
    eta = relative * critical_learning_rate(p, params.p_star)
    return xr.Dataset({"regime": list(regimes.REGIMES).index(regimes.outcome(size, p, eta))})


def draw(data: xr.Dataset) -> Figure:
    """Outcomes as cells, predicted bounds as lines."""
    figure, (axis,) = panels(1, size=(7.4, 4.2))
    widths, step, p_star = data["p"].values, data.attrs["spacing"], int(data.attrs["p_star"])
    ends = np.append(data["relative"].values - step / 2, data["relative"].values[-1] + step / 2)
    for k, p in enumerate(widths):
        edges = np.array([p - 0.4, p + 0.4]) / p_star
        cells = data["regime"].values[k][:, None]
        axis.pcolormesh(edges, ends, cells, cmap=ListedColormap(COLORS), vmin=-0.5, vmax=3.5)
    for regime, color in zip(regimes.REGIMES, COLORS, strict=True):
        axis.plot([], [], "s", color=color, ms=8, label=regime)
    axis.set(xlabel="width p / p*", ylim=(ends[0], ends[-1]))
    wide = range(int(widths.min()), int(widths.max()) + 1)
    regimes.draw_bounds(figure, wide, p_star, unit=p_star)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Where outcomes change, against the predicted bounds, in steps of the grid."""
    step, first, claims = data.attrs["spacing"], data.attrs["smallest"], []
    for place, regime in enumerate(BOUNDS):
        # The number of learning rates up to which a run has at most this regime.
        below = (data["regime"] <= place).cumprod("relative").sum("relative")
        farthest = abs(first + below * step - data[f"bound_{regime}"]).max() / step
        claims.append(CLAIMS[regime].at_most(farthest, 0.5 + CLOSE))
    return claims
