"""Fig. 14: the spectrum of real images against Eq. 1 with β = 0.3.

The paper has CIFAR-5m. The paper preset has CIFAR-10, from the folder of data files, and the
quick preset scikit-learn's digits, other images altogether: what the paper says of its own is
left open there. The paper names no window for its β, and β grows with the window: all windows
stand in one table, and are open.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.problems.empirical import principal
from learndyn.problems.files import first_channel
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases

TITLE = "Covariance spectrum of real images against a power law"
DIGIT = 0.05  # β ≈ 0.3 is given to one digit


@dataclasses.dataclass(frozen=True)
class Params:
    """Which images (0 for all of them) and where the exponent is fitted.

    The window of the claims is k = 1 to `last`. Further ones are the longest in which ln λ
    strays from a line by at most each of `straight`. The images are also cut into `groups`,
    for the error.
    """

    data: str = "digits"
    images: int = 0
    beta: float = 0.3
    last: int = 20
    straight: tuple[float, ...] = (0.2,)
    groups: int = 5


PRESETS = {"quick": Params(), "paper": Params(data="cifar10", last=100, straight=(0.05, 0.1, 0.2))}


def compute(params: Params, report: Report) -> xr.Dataset:
    """The spectrum of all images, with its exponents, and exponents of groups of images."""
    inputs, leading = first_channel(params.data, params.images), (1, params.last)
    lam = principal(inputs.x).values
    report(0.3)
    fits = [_fit(lam, leading), _fit(lam, (1, len(lam)))]
    fits += [_fit(lam, "auto", straight=tolerance) for tolerance in params.straight]
    parts = [inputs.x[group :: params.groups] for group in range(params.groups)]
    slopes = [_fit(principal(x).values, leading).slope for x in cases(parts, report, begin=0.3)]
    return xr.Dataset(
        {
            "images": ("k", lam),
            "power_law": ("k", ld.PowerLaw(len(lam), len(lam), params.beta).values),
            "slope": ("window", [fit.slope for fit in fits]),
            "slope_error": ("window", [fit.error for fit in fits]),
            "ends": (("window", "end"), [fit.window for fit in fits]),
            "intercept": ("window", [fit.intercept for fit in fits]),
            "group_slope": ("group", slopes),
        },
        {
            "k": ("k", np.arange(1, len(lam) + 1), {"long_name": "index k"}),
            "window": ["leading", "all", *(f"straight to {s:.0%}" for s in params.straight)],
        },
        {"data": inputs.name, "paper_data": int(params.data == "cifar10"), "beta": params.beta},
    )


def _fit(lam: np.ndarray, window, **options: float) -> ld.analysis.Fit:
    return ld.analysis.fit_power_law(np.arange(1, len(lam) + 1), lam, window=window, **options)


def draw(data: xr.Dataset) -> Figure:
    """The eigenvalues, Eq. 1, and the fits where they were made."""
    figure, (axis,) = panels(1, size=(6.2, 4.4))
    beta, k = data.attrs["beta"], data["k"].values
    axis.plot(k, data["power_law"], "--", color="0.2", lw=1.2, label=f"Eq. 1, β = {beta:g}")
    axis.plot(k, data["images"], "o", ms=2.5, color="C0", label=data.attrs["data"])
    for i, name in enumerate(data["window"].values):
        fit = data.sel(window=name)
        if name == "all":  # no line describes all of it
            continue
        ends, slope = fit["ends"].values, float(fit["slope"])
        label = f"{name}, k = {ends[0]:g} to {ends[1]:g}: β = {-slope - 1:.2f}"
        line = np.exp(float(fit["intercept"])) * ends**slope
        axis.plot(ends, line, color=f"C{i + 1}", lw=1.2, alpha=0.8, label=label)
    axis.set(xscale="log", yscale="log", xlabel="index k", ylabel=r"eigenvalue $\lambda_k$, mean 1")
    legend(axis, loc="lower left")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The exponent, Eq. 1 itself, and how both depend on the window."""
    leading, everything, *longest = (data.sel(window=w) for w in data["window"].values)
    last, N, beta = int(leading["ends"][1]), data.sizes["k"], data.attrs["beta"]
    head, images = data.isel(k=slice(0, last)), data.attrs["data"]
    off = np.abs(np.log(head["images"] / head["power_law"])).max()
    window = f"the leading {last} of {N} eigenvalues"
    names = [window, "all k", *(str(one["window"].values) for one in longest)]
    at_all = f"{images}: β from all k is larger than from {window}"
    rows = zip(names, (leading, everything, *longest), strict=True)
    return [
        *(_open(data, f"β, window {name}", _beta(one), beta) for name, one in rows),
        _open(data, f"largest |ln| of λ_k over Eq. 1 with β = {beta:g}, {window}", off, 0.0),
        claim(at_all, "Fig. 14", kind="finding").at_least(
            _beta(everything), _beta(leading) + DIGIT, because="none: more than β's last digit"
        ),
    ]  # fmt: skip


def _open(data: xr.Dataset, what: str, measured, expected: float) -> Claim:
    """What the paper says of CIFAR-5m, on the images that are here, for any window."""
    why = "the paper names no window for its β, and has CIFAR-5m"
    return claim(f"{data.attrs['data']}: {what}", "Fig. 14").open(why, measured, expected)


def _beta(fit: xr.Dataset) -> float:
    return -float(fit["slope"]) - 1
