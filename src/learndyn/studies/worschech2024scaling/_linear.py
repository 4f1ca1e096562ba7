"""What figures of linear students share: units, times, and networks against flows (2, 3, 15).

Errors differ far more between starts than between theory and network. So the mean error of the
networks is divided by that of the flows from their own weights, whose mean over starts is known.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import learndyn as ld
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.statistics import LEVEL, student_bound, student_tolerance
from learndyn.theory.committee.power_law import learning_curve

FIRST = 1.0  # the α at which the paper's curves with N_l trained directions begin
FOLLOWS = claim("{who}: relative deviation of the mean error, worst at α = {alpha:.4g}", "{source}",
                name="{who}: relative deviation of the mean error")  # fmt: skip


def units(L: int, beta: float, **more: float) -> dict[str, Any]:
    """Arguments of the forms of `learning_curve`, by name: λ₊, L, β and `more`."""
    return {"lam_plus": learning_curve.lam_plus(L, beta), "L": L, "beta": beta, **more}


def step_times(horizon: float, points: int, system: ld.System) -> np.ndarray:
    """Times α from FIRST to `horizon`, evenly spaced in ln α, at whole steps."""
    return np.unique(np.rint(np.geomspace(FIRST, horizon, points) * system.dim)) / system.dim


class Ratio(NamedTuple):
    """Mean error of networks over the mean error of the flows from their own starts.

    Attributes:
        value: the ratio, (time,).
        error: its standard error, (time,).
        starts: number of starts.
    """

    value: np.ndarray
    error: np.ndarray
    starts: int

    def allowed(self, entries: int = 1) -> np.ndarray:
        """What chance allows at LEVEL for `entries` numbers together, by Student's t, (time,)."""
        return np.asarray(student_bound(self.starts, entries, LEVEL) * self.error)


def ratio_to_flow(one: xr.Dataset) -> Ratio:
    """The ratio of the means over `start` of `networks` and `flow`."""
    networks, flow = (one[name].transpose("start", ...).values for name in ("networks", "flow"))
    value, starts = np.asarray(networks.mean(0) / flow.mean(0)), len(flow)
    rest = (networks - value * flow) / flow.mean(0)
    return Ratio(value, np.asarray(rest.std(0, ddof=1) / np.sqrt(starts)), starts)


def follows_flow(
    one: xr.Dataset, left_out: np.ndarray, who: str, source: str, printed: str = ""
) -> Claim:
    """The claim FOLLOWS that networks follow the flow, at the α where they do so least.

    Args:
        one: `networks` and `flow` over start and time.
        left_out: the relative size of what the flow leaves out, (time,).
        who: whose mean error, for the statement.
        source: of the claim.
        printed: what the paper prints, where that is wrong.

    Returns:
        The claim.
    """
    ratio, alpha = ratio_to_flow(one), one["time"].values
    off, entries = np.abs(ratio.value - 1), len(alpha)
    worst = int(np.argmax(off - (left_out + ratio.allowed(entries))))
    sentence = FOLLOWS.format(who=who, alpha=alpha[worst], source=source)
    chance = student_tolerance(ratio.error[worst], ratio.starts, "starts", entries=entries)
    tolerance = Tolerance(float(left_out[worst]), "next order in η") + chance
    return (sentence.erratum(printed) if printed else sentence).equals(off[worst], 0.0, tolerance)


def draw_starts(axis: Axes, one: xr.Dataset, color: str) -> None:
    """Networks of one N_l as markers, the flows from their starts, and the mean of the theory."""
    alpha, n = one["time"], int(one["n"])
    axis.plot(alpha, one["flow"].mean("start"), color=color, lw=1.3, zorder=2.5)
    axis.plot(alpha, one["theory"], "--", color="0.2", lw=1, zorder=2)
    mean = one["networks"].mean("start")
    axis.plot(alpha, mean, "o", ms=3.5, color=color, zorder=3, label=f"$N_l$ = {n}")
