"""The best learning-rate schedule of a given length, against the best constant rate; ours.

A linear student learns a power-law spectrum from noisy labels until the time A. Its rate is
η (1 − α/A)^p, with p = 0 for a constant rate, and η is the best one for each A. A constant rate
has to be small, since its noise stays, and leaves modes unlearned: with the rate of learning
b = β/(1+β) the smallest of (ηA)^-b + η falls as A^(−b/(1+b)). A rate that falls to zero forgets
the noise of all but the last modes it learned. Of these there are (ηA)^(1−b), so that noise and
what is unlearned fall alike at a fixed η, as A^-b, if p > β; for smaller p the noise of the large
modes adds to it. Both curves are those of the ODE, nothing is random but the networks, which the
exact chain trains at two sizes. The quick preset has two β and a smaller L.

Notes: docs/results/worschech2024scaling/best_schedule/notes.md.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.tree_util import Partial
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases

TITLE = "The best schedule of a given length for a power-law student, and what it wins"
DIFFERS = "ours: the paper has constant rates only"
MARGIN = Tolerance(0.1, "equivalence margin, 10 %, for finite A and L")
CLAIMS = {
    "constant": claim("β = {beta:g}: exponent of the error that the best constant rate leaves, "
                      "over that predicted", "A^(−β/(1+2β))", kind="finding", within=MARGIN),
    "schedule": claim("β = {beta:g}: exponent of the error that the best falling rate leaves, "
                      "p = {p:g}, over that predicted", "A^(−β/(1+β))", kind="finding",
                      within=MARGIN),
    "wins": claim("β = {beta:g}: error of the best falling rate, p = {p:g}, over that of the best "
                  "constant rate, largest of all lengths", "both have p ≥ 0", kind="finding",
                  within=Tolerance(0.0, "the order itself: a ratio of 1 would be no difference")),
    "networks": claim("networks under the best falling rate, 1/N removed: error over that of the "
                      "ODE minus 1, farthest of all β", "exact chain", kind="finding",
                      within=Tolerance(0.05, "equivalence margin, 5 %")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Spectra, lengths A, powers p, and networks."""

    betas: tuple[float, ...] = (1.0, 1.5)
    powers: tuple[float, ...] = (0.0, 2.0)
    L: int = 256
    noise: float = 1.0
    shortest: float = 0.5
    longest: float = 16.0
    lengths: int = 5
    rates: int = 9
    network_L: int = 32
    network_A: float = 2.0
    runs: int = 1000
    key: int = 0


PARTS = {"betas": "beta"}
PRESETS = {
    "quick": Params(),
    "paper": Params((0.75, 1.0, 1.5), (0.0, 1.0, 2.0), 2048, lengths=9, rates=13, runs=10_000),
}


def falling(top, steps, power, step):
    """`top` · (1 − step/steps)^power, zero from `steps` on."""
    return top * jnp.maximum(1 - step / steps, 0.0) ** power


def compute(params: Params, report: Report) -> xr.Dataset:
    """Errors by β, p, A and rate; the errors of networks of the sizes L and 2L."""
    rows = [_spectrum(params, beta) for beta in cases(params.betas, report)]
    return xr.concat(rows, xr.Variable("beta", list(params.betas)))


def _system(
    params: Params, beta: float, eta: float, p: float, A: float, L: int, N: int
) -> ld.System:
    problem = ld.TeacherStudent(
        ld.PowerLaw(N, L, beta), ld.Committee(1, "linear"), label_noise=params.noise
    )
    # A pytree of its numbers, which are traced: all rates and lengths share a compiled program.
    rate = Partial(falling, np.float64(eta), np.float64(A * N), np.float64(p)) if p else eta
    return ld.System(problem, ld.Committee(1, "linear"), ld.SGD(rate))


def _start(system: ld.System, L: int) -> ld.Start:
    """The student at 0, and the teacher's expected overlaps."""
    nothing = np.zeros((L, 1, 1))
    return ld.start(system, state=ld.Overlaps(nothing, nothing, nothing + 1 / L))


def _error(params: Params, beta: float, eta: float, p: float, A: float, L: int) -> float:
    system = _system(params, beta, eta, p, A, L, L)
    record = ld.solve(system, [0, A], start=_start(system, L), rtol=1e-7, atol=1e-9)
    return float(record["error"][-1])


def _spectrum(params: Params, beta: float) -> xr.Dataset:
    lengths = np.geomspace(params.shortest, params.longest, params.lengths)
    rates = np.geomspace(0.02, 1.2, params.rates)
    errors = [
        [[_error(params, beta, eta, p, A, params.L) for eta in rates] for A in lengths]
        for p in params.powers
    ]
    coords = {"p": list(params.powers), "A": lengths, "rate": rates}
    data = xr.Dataset({"error": (("p", "A", "rate"), errors)}, coords)
    return data.merge(_networks(params, beta, data))


def _networks(params: Params, beta: float, data: xr.Dataset) -> xr.Dataset:
    """Final errors of networks over that of the ODE, for the largest p and a good rate for it."""
    p, A, L = params.powers[-1], params.network_A, params.network_L
    near = data["error"].sel(p=p).sel(A=A, method="nearest")
    eta, rows = float(near["rate"].values[np.argmin(near.values)]), []
    theory = _error(params, beta, eta, p, A, L)
    for N in (10 * L, 20 * L):
        system = _system(params, beta, eta, p, A, L, N)
        options = {"runs": params.runs, "key": params.key + N, "method": "reduced"}
        runs = ld.simulate(system, [0, A], start=_start(system, L), **options)
        rows.append(runs["error"].isel(time=-1).values / theory)
    return xr.Dataset({"networks": (("N", "run"), rows)}, {"N": [10 * L, 20 * L]})


def _least(data: xr.Dataset) -> xr.DataArray:
    """The smallest error over rates, by a parabola in logarithms."""
    log = np.log(data["rate"].values)
    read = lambda errors: np.exp(ld.analysis.fit_minimum(log, np.log(errors)).y)
    return xr.apply_ufunc(read, data["error"], input_core_dims=[["rate"]], vectorize=True)


def _exponent(errors: xr.DataArray) -> float:
    """−d ln error/d ln A, over all lengths."""
    lengths, values = errors["A"].values, errors.values
    return -ld.analysis.fit_line(np.log(lengths), np.log(values)).slope


def draw(data: xr.Dataset) -> Figure:
    """Smallest errors against the length; what the schedule wins; error against rate."""
    figure, axes = panels(2, columns=2, size=(4.4, 3.6))
    least, last = _least(data), data.isel(beta=-1)
    styles = dict(zip(data["p"].values, (":", "--", "-", "-."), strict=False))
    entries = {f"p = {p:g}": {"color": "0.3", "ls": style} for p, style in styles.items()}
    for i, beta in enumerate(data["beta"].values):
        entries[f"β = {beta:g}"] = {"color": f"C{i}"}
        for p, style in styles.items():
            axes[0].plot(data["A"], least.sel(beta=beta, p=p), style, color=f"C{i}")
    axes[0].set(xscale="log", yscale="log", ylabel="smallest error")
    axes[0].set_xlabel("length A [steps / N]")
    legend(axes[0], entries, ncols=2, loc="lower left")
    for i, p in enumerate(data["p"].values):
        curve = last["error"].sel(p=p).isel(A=-1)
        axes[1].plot(data["rate"], curve, "o-", ms=3, color=f"C{i}", label=f"p = {p:g}")
    axes[1].set(
        xscale="log", yscale="log", xlabel="learning rate η", ylabel="error at the longest A"
    )
    legend(axes[1])
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Both exponents, that the falling rate wins, and networks."""
    least, p = _least(data), float(data["p"][-1])
    claims = []
    for beta in map(float, data["beta"].values):
        constant, falls = (least.sel(beta=beta, p=each) for each in (0.0, p))
        sentence = {name: each.format(beta=beta, p=p) for name, each in CLAIMS.items()}
        flat, steep = _exponent(constant), _exponent(falls)
        claims.append(sentence["constant"].equals(flat * (1 + 2 * beta) / beta, 1.0))
        claims.append(sentence["schedule"].equals(steep * (1 + beta) / beta, 1.0))
        claims.append(sentence["wins"].at_most((falls / constant).max(), 1.0))
    small, large = (data["networks"].isel(N=i) for i in range(2))
    off = intervals.of_mean(2 * large - small - 1, "pairs of runs", over="run", which="farthest")
    return [*claims, CLAIMS["networks"].at_most(off, 0.0)]
