"""What is read off curves of training at fixed rates: the error's return, growing weights, cures.

Curves are data sets with `test` and, for weights, `norm`; numbers come out one per seed.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from learndyn.plotting import legend
from learndyn.studies.statistics import exponents, slopes

HALF = 0.5  # of the first error, which a curve must have reached to have learnt
LARGEST = 1e6  # errors beyond, as of runs that have diverged, count as this
# Statements that several figures make.
RESURGES = (
    "the error resurges at a fixed rate: logarithm of the mean error in the second half of "
    "training over the least, at the largest rate minus that at the smallest"
)
SOONER = (
    "the larger the rate, the sooner the error rises by half above its minimum so far: exponent in "
    "the rate"
)
NO_RETURN = (
    "under SGD no run that has halved its error returns to where it began, at any rate: fraction "
    "of runs that do"
)
ENDS_BELOW = "the error ends below that without: logarithm of the ratio at the end"
DOES_NOT_RISE = (
    "with normalised weights: the error does not rise in the second half of training: slope of its "
    "logarithm"
)


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


def loses(curves: xr.Dataset) -> xr.DataArray:
    """Whether a run halves its error, and then returns to where it began."""
    found = turns(curves)
    return found["back"].notnull() & (found["least"] <= HALF)


def resurgence(curves: xr.Dataset) -> xr.DataArray:
    """How far the error of the second half lies above the least: largest rate minus smallest.

    Outputs between 0 and 1 bound the error, and a run may learn again: one moment says little.
    """
    test = curves["test"]
    late = test.where(test["step"] >= test["step"].max() / 2).mean("step")
    ratio = xr.ufuncs.log(late / test.min("step"))
    return ratio.isel(rate=-1) - ratio.isel(rate=0)


def rise_exponents(curves: xr.Dataset) -> xr.DataArray:
    """Of the step at which the error first is half above its minimum so far; at the latest the end.

    The exponent is that in the rate.
    """
    test = curves["test"].transpose("seed", "rate", "step")
    risen = test.values >= 1.5 * np.minimum.accumulate(test.values, axis=-1)
    risen[..., -1] = True
    step = test["step"].values[risen.argmax(-1)]
    return exponents(test.isel(step=0, drop=True).copy(data=step), "rate")


def growth(curves: xr.Dataset) -> xr.DataArray:
    """log of ‖W_1‖² over its first value, at the last step before a run diverged."""
    norm = curves["norm"]
    last = norm.isel(step=norm.notnull().sum("step") - 1).drop_vars("step")
    return xr.ufuncs.log(last / norm.isel(step=0, drop=True))


def late_slopes(test: xr.DataArray) -> xr.DataArray:
    """d log error / d log step over the second half of the steps, the mean over cases."""
    late = test.isel(step=slice(test.sizes["step"] // 2, None)).clip(max=LARGEST)
    log = xr.ufuncs.log(late).mean([d for d in late.dims if d not in ("seed", "step")])
    return slopes(log, "step", np.log(log["step"].values))


def end_gap(plain: xr.DataArray, kept: xr.DataArray) -> xr.DataArray:
    """log of the last error over that of the plain rule, the largest over cases."""
    end = lambda test: xr.ufuncs.log(test.isel(step=-1).clip(max=LARGEST))
    return (end(kept) - end(plain)).max([d for d in plain.dims if d not in ("seed", "step")])


def decay_gaps(test: xr.DataArray) -> xr.DataArray:
    """`end_gap` of every decay, of curves (cure, seed, step) with and without."""
    plain = test.sel(cure="neither", drop=True)
    decays = [cure for cure in test["cure"].values if str(cure).startswith("decay")]
    gaps = [end_gap(plain, test.sel(cure=cure, drop=True)) for cure in decays]
    return xr.concat(gaps, "decay")


def draw_plane(axis: Axes, curves: xr.Dataset, title: str, **scale: str) -> None:
    """Norm of the first weights and error, every run in the colour of its rate."""
    for number, rate in enumerate(curves["rate"].values):
        for seed in range(curves.sizes["seed"]):
            one = curves.sel(rate=rate).isel(seed=seed)
            axis.plot(one["norm"], one["test"], color=f"C{number}", lw=0.8)
    axis.set(xscale="log", xlabel="‖W₁‖²", ylabel="test error", title=title, **scale)


def draw_turns(axis: Axes, curves: xr.Dataset, title: str) -> None:
    """When the error is least, and when it is back where it began, against the rate."""
    found = turns(curves)
    for name, color, label in (("turn", "k", "least error"), ("back", "0.6", "error back")):
        axis.plot(curves["rate"], found[name].mean("seed"), "o-", color=color, ms=4, label=label)
    axis.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="step", title=title)
    legend(axis, fontsize=7)
