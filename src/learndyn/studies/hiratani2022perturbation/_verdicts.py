"""Claims on curves of training at a fixed rate: the error's return, growing weights, cures."""

import numpy as np
import xarray as xr

from learndyn.analysis import fit_line
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation._intervals import (
    exponents,
    surely_above,
    surely_below,
)

HALF = 0.5  # of the first error, which a curve must have reached to have learnt


def turns(curves: xr.Dataset) -> xr.Dataset:
    """Of every curve the step of its least error, and that at which it is back where it began.

    Returns:
        `turn`, `back` (missing where it does not come back), `least` over the first error.
    """
    test = curves["test"]
    lowest = test.argmin("step")
    after = curves["step"] > curves["step"].isel(step=lowest).drop_vars("step")
    back = after & (test >= test.isel(step=0, drop=True))
    at = lambda index: curves["step"].isel(step=index).drop_vars("step")
    return xr.Dataset(
        {
            "turn": at(lowest),
            "back": at(back.argmax("step")).where(back.any("step")),
            "least": test.min("step") / test.isel(step=0, drop=True),
        }
    )


def returns(curves: xr.Dataset, source: str, what: str) -> Claim:
    """At the largest rate every run learns, and then loses all of it."""
    found = turns(curves.isel(rate=-1))
    lost = found["back"].notnull() & (found["least"] <= HALF)
    text = (
        f"{what}: at the largest of the rates every run halves its error, and then returns to "
        "where it began: share of runs"
    )
    because = "the paper's instability has no exception; one run of all would be one"
    return claim(text, source).at_least(float(lost.mean()), 1.0, because=because)


def resurges(curves: xr.Dataset, source: str) -> Claim:
    """At the largest rate the error of the second half lies above the least, as it does not else.

    Outputs between 0 and 1 bound the error, and a run may learn again: one moment says little.
    """
    test = curves["test"]
    late = test.where(test["step"] >= test["step"].max() / 2).mean("step")
    ratio = xr.ufuncs.log(late / test.min("step"))
    text = (
        "the error resurges at a fixed rate: logarithm of the mean error in the second half of "
        "training over the least, at the largest rate beyond that at the smallest"
    )
    return surely_above(text, source, (ratio.isel(rate=-1) - ratio.isel(rate=0)).values, 0.0)


def sooner(curves: xr.Dataset, source: str) -> Claim:
    """The sooner the error rises by half above the least so far; at the latest at the end."""
    test = curves["test"].transpose("seed", "rate", "step")
    risen = test.values >= 1.5 * np.minimum.accumulate(test.values, axis=-1)
    risen[..., -1] = True
    step = test["step"].values[risen.argmax(-1)]
    text = (
        "the larger the rate, the sooner the error rises by half above the least so far: exponent "
        "in the rate"
    )
    return surely_below(text, source, exponents(test["rate"].values, step), 0.0)


def grows(perturbed: xr.Dataset, sgd: xr.Dataset, source: str) -> Claim:
    """Weights grow more than under SGD at the same rate, up to the last step both measured."""
    grown = lambda data: _last(data["norm"]) / data["norm"].isel(step=0, drop=True)
    ratio = xr.ufuncs.log(grown(perturbed) / grown(sgd)).mean("rate")
    text = (
        "weights of the first layer grow more than under SGD at the same rates: logarithm of the "
        "ratio of the growths of ‖W_1‖², mean over rates"
    )
    return surely_above(text, source, ratio.values, 0.0)


def _last(values: xr.DataArray) -> xr.DataArray:
    """The last that was measured before a run diverged."""
    return values.isel(step=values.notnull().sum("step") - 1).drop_vars("step")


def swells(curves: xr.Dataset, source: str) -> Claim:
    """The first weights have grown more at the largest rate than at the smallest."""
    grown = xr.ufuncs.log(_last(curves["norm"]) / curves["norm"].isel(step=0, drop=True))
    text = (
        "weights of the first layer grow with the error's return: logarithm of the growth of "
        "‖W_1‖², at the largest rate beyond that at the smallest"
    )
    return surely_above(text, source, (grown.isel(rate=-1) - grown.isel(rate=0)).values, 0.0)


def does_not_rise(curves: xr.Dataset, source: str, what: str) -> Claim:
    """The error does not rise in the second half of the steps, in logarithms, for every seed."""
    text = f"{what}: the error does not rise in the second half of training: slope of its logarithm"
    return surely_below(text, source, _late_slopes(curves["test"]), 0.0)


def _late_slopes(test: xr.DataArray) -> np.ndarray:
    """d log error / d log step over the second half, the mean over cases, by seed."""
    late = test.isel(step=slice(test.sizes["step"] // 2, None)).clip(max=1e6)
    cases = [d for d in late.dims if d not in ("seed", "step")]
    log = xr.ufuncs.log(late).mean(cases).transpose("seed", "step")
    return np.array([fit_line(np.log(log["step"].values), row).slope for row in log.values])


def cured(plain: xr.Dataset, kept: xr.Dataset, source: str, what: str) -> Claim:
    """At the end the error is below that of the plain rule, in every case."""
    end = lambda data: xr.ufuncs.log(data["test"].isel(step=-1).clip(max=1e6))
    cases = [d for d in plain["test"].dims if d not in ("seed", "step")]
    text = f"{what}: logarithm of the ratio of the errors at the end, largest over cases"
    gap = end(kept) - end(plain)
    return surely_below(text, source, (gap.max(cases) if cases else gap).values, 0.0)
