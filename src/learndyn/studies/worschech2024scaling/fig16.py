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
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_bound
from learndyn.studies.worschech2024scaling._linear import units
from learndyn.theory.committee.power_law import features, given_frame, random_frame

TITLE = "Asymptotic error against the trainable directions N_l, in and outside the eigenbasis"
READ = 0.2  # relative, to which two exponents are the same
LEVEL = 0.001  # chance of a false alarm in each claim on random frames


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
    N, rng = params.N, np.random.default_rng(params.key)
    spaced = np.geomspace(4, 0.9 * N, params.points).astype(int)
    sizes = np.unique([*spaced, N // 32, N // 8])
    lam = [ld.PowerLaw(N, N, beta).values for beta in params.betas]
    outside = np.empty((len(params.betas), params.frames, len(sizes)))
    for frame in cases(range(params.frames), report):
        W = orthonormal_rows(rng.standard_normal((N, N)))
        for row, values in zip(outside, lam, strict=True):
            covariance = W * values @ W.T
            row[frame] = given_frame.mean_asymptote(covariance, sizes, sigma_J=params.sigma_J)
    data = {"outside": (("beta", "frame", "n"), outside), **_inside(params, lam, sizes)}
    coords = {"beta": list(params.betas), "n": ("n", sizes, {"long_name": "N_l"})}
    return xr.Dataset(data, coords, {"N": N, "frames": params.frames})


def _inside(params: Params, lam: list[np.ndarray], sizes: np.ndarray) -> dict:
    sigma_J, given = params.sigma_J, lambda beta: units(params.N, beta, sigma_J=params.sigma_J)
    forms = {
        "inside": lambda beta, values, n: features.asymptote(values, n, sigma_J=sigma_J),
        "frame_mean": lambda beta, values, n: random_frame.mean_asymptote(
            values, n, sigma_J=sigma_J
        ),
        "integral": lambda beta, values, n: features.asymptote_integral(n, **given(beta)),
    }
    pairs = list(zip(params.betas, lam, strict=True))
    table = lambda form: [[form(beta, values, int(n)) for n in sizes] for beta, values in pairs]
    return {name: (("beta", "n"), table(form)) for name, form in forms.items()}


def draw(data: xr.Dataset) -> Figure:
    """Solid: Eq. 74. Markers: Eq. 88. Dashed: what theory says of its average."""
    figure, axes = panels(2)
    half = data.sizes["beta"] // 2
    for axis, betas in zip(axes, (slice(None, half), slice(half, None)), strict=True):
        for number, beta in enumerate(data["beta"].values[betas]):
            one, color = data.sel(beta=beta), f"C{number}"
            axis.plot(data["n"], one["integral"], color=color, label=f"β = {beta:g}")
            axis.plot(data["n"], one["frame_mean"], "--", color=color, lw=1)
            axis.plot(data["n"], one["outside"].mean("frame"), "o", color=color, ms=3.5)
        axis.set(xscale="log", yscale="log", xlabel="trainable directions $N_l$")
        axis.set_ylabel("asymptotic generalisation error")
        axis.set_title(f"N = L = {data.attrs['N']}", fontsize=9)
        frames = f"Eq. 88, mean of {data.attrs['frames']} frames"
        average = {"its average, leading order": {"ls": "--", "lw": 1}}
        styles = {"eigenbasis, Eq. 74": {}, frames: {"marker": "o", "ms": 3.5}, **average}
        legend(axis, styles, loc="lower left")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The eigenbasis is best; exponents agree; the average over frames."""
    said = "error in a random frame over that in the eigenbasis, smallest of all"
    best = claim(said, "App. B.3.1: consistently lower in the eigenbasis").at_least(
        (data["outside"] / data["inside"]).min(), 1.0, because="an order, in every frame"
    )
    rows = [data.sel(beta=beta) for beta in data["beta"].values]
    return [best, *(found for one in rows for found in (_exponent(one), _frame_mean(one)))]


def _exponent(one: xr.Dataset) -> Claim:
    """Both are off −β by finite N; that they are alike is what the paper says."""
    beta, N = float(one["beta"]), int(one.attrs["N"])
    ends = [N // 32, N // 8]
    drawn = one["outside"].sel(n=ends)
    slope = lambda curve: float(np.diff(np.log(curve.sel(n=ends)))[0] / np.log(4.0))
    scatter = (drawn / drawn.mean("frame")).diff("n").isel(n=0) / np.log(4.0)
    said = f"β = {beta:g}: exponent outside the eigenbasis, N_l = {ends[0]} … {ends[1]}"
    return claim(said, "App. B.3.1: the same power law N_l^-β in both for N_l^β ≪ N^β").equals(
        slope(one["outside"].mean("frame")),
        slope(one["integral"]),
        within=READ * abs(slope(one["integral"])) + mean_bound(scatter, "frame", LEVEL),
        because=f"'the same' read as {READ:.0%}; Student t at {LEVEL:.1%}",
        rate=1 - LEVEL,
    )


def _frame_mean(one: xr.Dataset) -> Claim:
    beta, N, count = float(one["beta"]), int(one.attrs["N"]), one.sizes["frame"]
    n = N // 8
    drawn, expected = one["outside"].sel(n=n), float(one["frame_mean"].sel(n=n))
    one_more = abs(features.local_exponent(n, L=N, beta=beta)) / n
    said = f"β = {beta:g}: mean of Eq. 88 over {count} frames at N_l = {n} is κ N_l/(2N)"
    return claim(said, "Eq. 88, with Σ_k λ_k/(λ_k + κ) = N_l", kind="finding").equals(
        drawn.mean(),
        expected,
        within=mean_bound(drawn, "frame", LEVEL) + expected * one_more,
        because=f"Student t at {LEVEL:.1%}, and one direction more or less (1/N_l)",
        rate=1 - LEVEL,
    )
