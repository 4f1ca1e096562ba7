"""How runs are drawn: against the batch size, and alignment against test loss."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes


def against(
    axis: Axes, values: xr.DataArray, over: str, label: str, color: str = "C0", **style: Any
) -> None:
    """Each seed thin, the mean thick; entries of `over` as ticks at equal distances."""
    entries = [str(e) for e in values[over].values]
    at = np.arange(len(entries))
    rows = values.transpose("seed", over).values
    axis.plot(at, rows.T, color=color, lw=0.6, alpha=0.35)
    axis.plot(at, rows.mean(axis=0), color=color, label=label, **{"marker": "o", "ms": 4, **style})
    axis.set_xticks(at, entries)


def counts(axis: Axes) -> None:
    """An axis for counts, of which some are none."""
    axis.set_yscale("symlog", linthresh=1)
    axis.set_ylim(bottom=-0.5)
