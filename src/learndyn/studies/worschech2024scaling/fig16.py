"""Fig. 16: the asymptotic error against N_l, in the eigenbasis and in random frames.

The quick preset has N = 512 and 10 frames in place of 1024 and 100.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_tolerance
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.theory.committee.power_law import features, given_frame, random_frame

TITLE = "Asymptotic error against the trainable directions N_l, in and outside the eigenbasis"
DIFFERS = "N, β and 100 frames are the paper's; σ_J is not stated, here 0.01"
READ = 0.2  # relative, to which two exponents are the same
LEVEL = 0.001  # chance of a false alarm in a mean over random frames
CLAIMS = {
    "best": claim("error in a random frame over that in the eigenbasis, smallest of all",
                  "App. B.3.1: consistently lower in the eigenbasis",
                  because="an inequality, in every frame"),
    # Finite N moves both exponents away from −β; the paper says that they agree.
    "exponent": claim("β = {beta:g}: exponent outside the eigenbasis, N_l = {first} … {last}",
                      "App. B.3.1: the same power law N_l^-β in both for N_l^β ≪ N^β",
                      because=f"'the same' read as {100 * READ:g} %"),
    "mean": claim("β = {beta:g}: mean of Eq. 88 over {frames} frames at N_l = {last} is κ N_l/(2N)",
                  "Eq. 88, with Σ_k λ_k/(λ_k + κ) = N_l", kind="finding"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes; exponents are of N_l between N/32 and N/8."""

    N: int = 512
    betas: tuple[float, ...] = (0.3, 0.75, 1.0, 1.5)
    frames: int = 10
    sigma_J: float = 0.01
    points: int = 24
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N=1024, frames=100)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Eq. 88 in every frame, its average to leading order, Eqs. 71 and 74."""
    N, sigma_J, rng = params.N, params.sigma_J, np.random.default_rng(params.key)
    spaced = np.geomspace(4, 0.9 * N, params.points).astype(int)
    sizes = np.unique([*spaced, N // 32, N // 8])
    spectra = [ld.PowerLaw(N, N, beta).values for beta in params.betas]
    outside = np.empty((len(params.betas), params.frames, len(sizes)))
    for frame in cases(range(params.frames), report):
        W = orthonormal_rows(rng.standard_normal((N, N)))
        for row, lam in zip(outside, spectra, strict=True):
            row[frame] = given_frame.mean_asymptote(W * lam @ W.T, sizes, sigma_J=sigma_J)
    of_law = [units(N, beta, sigma_J=sigma_J) for beta in params.betas]
    table = lambda form, items: (("beta", "n"), [[form(x, int(n)) for n in sizes] for x in items])
    mean = random_frame.mean_asymptote
    data = {
        "outside": (("beta", "frame", "n"), outside),
        "inside": table(lambda lam, n: features.asymptote(lam, n, sigma_J=sigma_J), spectra),
        "frame_mean": table(lambda lam, n: mean(lam, n, sigma_J=sigma_J), spectra),
        "integral": table(lambda law, n: features.asymptote_integral(n, **law), of_law),
    }
    coords = {"beta": list(params.betas), "n": ("n", sizes, {"long_name": "N_l"})}
    return xr.Dataset(data, coords, {"N": N, "frames": params.frames})


def draw(data: xr.Dataset) -> Figure:
    """Solid: Eq. 74. Markers: Eq. 88. Dashed: what theory says of its average."""
    figure, axes = panels(2)
    half = data.sizes["beta"] // 2
    frames = f"Eq. 88, mean of {data.attrs['frames']} frames"
    average = {"its average, leading order": {"ls": "--", "lw": 1}}
    styles = {"eigenbasis, Eq. 74": {}, frames: {"marker": "o", "ms": 3.5}, **average}
    for axis, betas in zip(axes, (slice(None, half), slice(half, None)), strict=True):
        for number, beta in enumerate(data["beta"].values[betas]):
            one, color = data.sel(beta=beta), f"C{number}"
            axis.plot(data["n"], one["integral"], color=color, label=f"β = {beta:g}")
            axis.plot(data["n"], one["frame_mean"], "--", color=color, lw=1)
            axis.plot(data["n"], one["outside"].mean("frame"), "o", color=color, ms=3.5)
        axis.set(xscale="log", yscale="log", xlabel="trainable directions $N_l$")
        axis.set_ylabel("asymptotic generalisation error")
        axis.set_title(f"N = L = {data.attrs['N']}", fontsize=9)
        legend(axis, styles, loc="lower left")
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """The eigenbasis is best; exponents agree; the average over frames."""
    return [
        CLAIMS["best"].at_least((data["outside"] / data["inside"]).min(), 1.0),
        *(row for beta in data["beta"].values for row in _at(data.sel(beta=beta))),
    ]


def _at(one: xr.Dataset) -> list[Claim]:
    """The exponent between two N_l, and the mean over frames at the larger."""
    beta, N = float(one["beta"]), int(one.attrs["N"])
    ends = first, last = N // 32, N // 8
    drawn = one["outside"].sel(n=list(ends))
    slope = lambda curve: float(np.diff(np.log(curve.sel(n=list(ends))))[0] / np.log(4.0))
    inside = slope(one["integral"])
    scatter = (drawn / drawn.mean("frame")).diff("n").isel(n=0) / np.log(4.0)
    outside = intervals.of_mean(slope(one["outside"].mean("frame")) + scatter, "frames")
    larger, expected = drawn.sel(n=last), float(one["frame_mean"].sel(n=last))
    one_more = abs(features.local_exponent(last, L=N, beta=beta)) / last
    discrete = Tolerance(expected * one_more, "one direction more or less (1/N_l)")
    fields = {"beta": beta, "first": first, "last": last, "frames": one.sizes["frame"]}
    exponent, mean = (CLAIMS[name].format(**fields) for name in ("exponent", "mean"))
    return [
        exponent.equals(outside, inside, READ * abs(inside)),
        mean.equals(
            larger.mean(), expected, mean_tolerance(larger, "frames", level=LEVEL) + discrete
        ),
    ]
