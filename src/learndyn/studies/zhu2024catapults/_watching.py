"""SGD watched at every step: critical rates of batches, and what each step did to the loss.

Rates are in units of η_crit of all examples at the start: those that the thesis prints for
Fig. 4.6, 0.1 and 0.8, match no convention.
"""

from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.analysis.catapults import Match
from learndyn.networks.base import AbstractNetwork
from learndyn.rules.base import AbstractRule

KEPT = ("rate", "critical_rate", "kernel_norm", "loss_top", "batch_loss", "batch_loss_after")
LARGE = 0.1  # a step that raises the loss by this share of it


def watched(
    problem: ld.Dataset,
    network: AbstractNetwork,
    weights: Any,
    rule: AbstractRule,
    steps: int,
    *,
    key: int,
    s: int = 1,
    dtype: str = "float32",
    **probes: Any,
) -> xr.Dataset:
    """One run, every step of it: `error` and what `probes.Watched` reads.

    Args:
        problem: the examples with their loss.
        network: without weights.
        weights: where it begins.
        rule: how it learns.
        steps: how many.
        key: of the batches.
        s: how many top eigenvectors of the kernel are taken apart.
        dtype: precision.
        probes: what else is read.

    Returns:
        The histories, by `time` and its coordinate `step`.
    """
    system = ld.System(problem, network, rule)
    given = {"watched": ld.probes.Watched(s=s), **probes}
    record = ld.simulate(
        system,
        np.arange(steps + 1.0),
        start=ld.start(system, weights=weights),
        method="direct",
        key=key,
        dtype=dtype,
        probes=given,
    )
    return record.isel(run=0, drop=True)[["error", *KEPT, *probes]].astype(float)


def large_increases(run: xr.Dataset) -> Match:
    """Steps that raise the loss by a tenth, and η > η_crit of their batch in them."""
    loss = run["error"].values
    above = (run["rate"].values > run["critical_rate"].values)[:-1]
    grew = loss[1:] > (1 + LARGE) * loss[:-1]
    rate = float(above[grew].mean()) if grew.any() else np.nan
    return Match(rate, float(above.mean()), int(grew.sum()))
