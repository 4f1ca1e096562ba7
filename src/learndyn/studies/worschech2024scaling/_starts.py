"""Averages over initialisations: a network for each start, compared with its own prediction.

The error of one start differs from the next by far more than theory and network differ. So
every network is divided by the flow from its own weights, whose mean over starts is known.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.claims import Claim
from learndyn.studies.statistics import student_bound

FIRST = 1.0  # the α at which the paper's curves begin
LEVEL = 0.01  # chance of a false alarm in each claim on random starts


def step_times(horizon: float, points: int, system: ld.System) -> np.ndarray:
    """Times α from FIRST to `horizon`, evenly in ln α, at whole steps."""
    return np.unique(np.rint(np.geomspace(FIRST, horizon, points) * system.dim)) / system.dim


class Ratio(NamedTuple):
    """Mean error of networks over the mean flow from their own starts, at every time.

    Attributes:
        value: the ratio, (time,).
        error: its standard error, (time,).
        starts: how many.
    """

    value: np.ndarray
    error: np.ndarray
    starts: int

    def allowed(self, entries: int = 1) -> np.ndarray:
        """What chance allows at LEVEL over so many entries together, by Student's t, (time,)."""
        factor = student_bound(self.starts, entries, LEVEL)
        return np.asarray(factor * self.error)


def ratio_to_flow(networks: xr.DataArray, flow: xr.DataArray) -> Ratio:
    """The ratio of two means over `start`, each (start, time), or (start,) at one time."""
    found, own = (v.transpose("start", ...).values for v in (networks, flow))
    value, starts = np.asarray(found.mean(0) / own.mean(0)), len(own)
    rest = (found - value * own) / own.mean(0)
    return Ratio(value, np.asarray(rest.std(0, ddof=1) / np.sqrt(starts)), starts)


def follows_flow(
    ratio: Ratio, left_out: np.ndarray, alpha: np.ndarray, *, who: str, source: str
) -> Claim:
    """The claim that networks follow the flow, at the α where they do so least.

    Args:
        ratio: networks over flow.
        left_out: the relative size of what the flow leaves out, (time,).
        alpha: the times, (time,).
        who: whose mean error, for the statement.
        source: of the claim.

    Returns:
        The claim.
    """
    off, bound = np.abs(ratio.value - 1), left_out + ratio.allowed(len(alpha))
    worst = int(np.argmax(off - bound))
    times = f"{ratio.starts} starts, {len(alpha)} times"
    return Claim(
        statement=f"{who}: relative deviation of the mean error, worst at α = {alpha[worst]:.4g}",
        source=source,
        relation="=",
        expected=0.0,
        measured=float(off[worst]),
        tolerance=float(bound[worst]),
        tolerance_from=f"next order in η, Student t, {times}, {LEVEL:.0%}",
        rate=1 - LEVEL,
        label=f"{who}: relative deviation of the mean error",
    )
