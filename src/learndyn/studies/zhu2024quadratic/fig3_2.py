"""Fig. 3.2 (a): kernel, loss and path of wide networks below and above the critical rate.

Relu networks and their quadratic twins learn one example with loss ½ r², at 0.5 and 1.3 η_crit
(η_crit = 2/λ₀); the target is one above the first output. The path length of the text is the
largest distance from the start. In a catapult the kernel, a mean over units, falls by a part of
itself: so must the weights, whose norm is ∝ √m. Below η_crit they move by O(1), and the kernel by
O(m^(−1/2)) at most, that of the twin by O(1/m). Fig. 3.2 (b) is a panel of Fig. 3.4. The quick
preset has fewer inputs, widths and seeds.

Notes: docs/results/zhu2024quadratic/fig3_2/notes.md.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import exponents
from learndyn.studies.zhu2024quadratic import _model
from learndyn.theory.quadratic_model.catapult import Regime, follow

TITLE = "Below the critical rate paths stay in a ball; the path of a catapult grows with the width"
DIFFERS = (
    "(a) states no sizes, here one example, widths 512 to 32,768, 20 seeds, 0.5 and 1.3 η_crit; "
    "(b) is in fig3_4"
)
MODELS = "f", "f_quad"
RATES = {"sub": 0.5, "super": 1.3}  # over η_crit
FINITE = 0.1  # what finite widths may add to an exponent
ABOVE = 1.0  # the target over the first output
NO_EXCEPTIONS = Tolerance(0.0, "the caption has no exceptions", PLANNED)
CLAIMS = {
    "sub": claim("{model}, sub-critical rate: the loss decreases monotonically, fraction of runs",
                 "Fig. 3.2", within=NO_EXCEPTIONS),
    "super": claim("{model}, super-critical rate: the loss increases first, then decreases, "
                   "fraction of runs", "Fig. 3.2", within=NO_EXCEPTIONS),
    "ball": claim("{model}, sub-critical: the path stays in a ball, largest size of the exponent "
                  "of its length over seeds", "Fig. 3.2", because="finite widths", rate=PLANNED),
    "grows": claim("{model}, super-critical: the path grows with m to the power, mean over seeds",
                   "Section 3.2",
                   within=Tolerance(FINITE, "finite widths, and where steps fall in the peak")),
    "constant": claim("{model}, sub-critical: the kernel is nearly constant, largest relative "
                      "change at the largest width", "Fig. 3.2", rate=PLANNED,
                      because="'nearly' is read as within 5 %"),
    "falls": claim("{model}, super-critical: the kernel falls, largest last over first", "Fig. 3.2",
                   kind="theorem", because="stable minima have ηλ ≤ 2 (Theorem 3.3.4)"),
    "stable": claim("{model}, super-critical: training ends where ηλ ≤ 2, largest ηλ",
                    "Theorem 3.3.4", kind="theorem", because="the theorem"),
    "exponential": claim("f_quad, sub-critical: the loss falls exponentially, largest excess of "
                         "the factor of r in a step over 1 − δ, at the largest width",
                         "Theorem B.3.1", rate=PLANNED,
                         because="o(δ) is read as m^(−1/2), the order of the theorem's ε"),
    "moves": claim("f_quad, sub-critical: the kernel moves by O(1/m), exponent of the width, mean "
                   "over seeds", "Theorem B.3.1",
                   within=Tolerance(0.25, "half of the way to m^(−1/2), the order of networks")),
    "scale": claim("λ₀ lies between ½ and 3/2 of |x|²/d, fraction of draws", "Proposition B.9.1",
                   kind="theorem", within=Tolerance(0.0, "at these widths the exception has a "
                                                         "chance below 10⁻⁶")),
    "map": claim("f_quad above η_crit: last kernel against the map from the same start, largest "
                 "error", "Eqs. 3.11-3.12", kind="theorem",
                 because="the map is exact; ηλ < 3 is not chaotic, and 10⁻⁶ is left of rounding"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Inputs, widths, seeds and steps; seeds by which the order of the kernel's drift is known."""

    d: int = 4
    widths: tuple[int, ...] = (256, 2048, 16384)
    seeds: int = 16
    drift_seeds: int = 40
    steps: int = 100
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(d=10, widths=(512, 2048, 8192, 32768), seeds=20)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Losses and distances over steps; kernels at both ends, and by the map."""
    seeds = range(params.key, params.key + params.seeds)
    widths = cases(params.widths, report)
    rows = [row for m in widths for seed in seeds for row in _seed(params, m, seed)]
    axes = {"seed": params.seeds, "model": MODELS, "rate": list(RATES)}
    data = _model.stacked(rows, width=params.widths, **axes)
    ends = params.widths[0], params.widths[-1]
    drifts = [[_drift(params, m, params.key + i) for i in range(params.drift_seeds)] for m in ends]
    return data.assign(drift=(("end", "drift_seed"), drifts)).assign_coords(end=list(ends))


def _drift(params: Params, m: int, seed: int) -> float:
    """How far the kernel of the twin moves at the sub-critical rate."""
    x, model = _model.one_example(seed, params.d), _model.two_layers(params.d, m, seed)
    eta = RATES["sub"] * 2 / _model.top_kernel(model, x)
    kernel = _run(params, x, model, _model.twin(model, "f_quad"), eta)["kernel"]
    return float(abs(kernel - kernel[0]).max())


def _seed(params: Params, m: int, seed: int) -> list[xr.Dataset]:
    x, model = _model.one_example(seed, params.d), _model.two_layers(params.d, m, seed)
    critical = 2 / _model.top_kernel(model, x)
    networks = [_model.twin(model, name) for name in MODELS]
    rates = [rate * critical for rate in RATES.values()]
    return [_run(params, x, model, network, eta) for network in networks for eta in rates]


def _run(params: Params, x: Any, model: ld.Model, network: Any, eta: float) -> xr.Dataset:
    times = np.arange(params.steps + 1.0)
    probes = {
        "distance": _model.distance_from(model.weights),
        "slope": _model.kernel_along(x, [[1.0]]),
    }
    y = float(_model.outputs(model, x)[0]) + ABOVE
    record = _model.train(_model.half_sum(x, [y]), network, model.weights, eta, times, probes)
    loss, kernel = record["error"].values, record["slope"].values[:, 0]
    c = float(x[0] @ x[0]) / (params.d * len(model.weights[0].weight))
    course = follow(-ABOVE, kernel[0], c, y, eta)
    table = {
        "loss": ("time", loss),
        "kernel": ("time", kernel),
        "path": ("time", record["distance"].values),
        "longest": float(record["distance"].max()),
        "regime": _model.regime_of(loss),
        "eta": eta,
        "predicted_kernel": float(course.kernel),
    }
    return xr.Dataset(table, {"time": times})


def draw(data: xr.Dataset) -> Figure:
    """Loss, kernel and distance over steps by width; largest distances against the width."""
    figure, axes = panels(4, size=(4.4, 3.2))
    shown = data.sel(model="f").isel(seed=0)
    for number, m in enumerate(data["width"].values):
        for rate, style in (("sub", "--"), ("super", "-")):
            one = shown.sel(width=m, rate=rate)
            label = f"m = {m}" if rate == "super" else None
            look = {"color": f"C{number}", "ls": style}
            axes[0].plot(one["time"], one["loss"], label=label, **look)
            axes[1].plot(one["time"], one["kernel"] / one["kernel"][0], **look)
            axes[2].plot(one["time"], one["path"], **look)
    axes[0].set(ylabel="loss ½ r²", yscale="log", ylim=(1e-6, None))
    axes[1].set(ylabel="kernel λ/λ₀")
    axes[2].set(ylabel="distance from the start", yscale="log", ylim=(1e-2, None))
    styles = {"0.5 η_crit": {"ls": "--"}, "1.3 η_crit": {"ls": "-"}}
    legend(axes[0], styles)
    for axis in axes[:3]:
        axis.set(xlabel="steps", xlim=(0, 60))
    _lengths(axes[3], data)
    return figure


def _lengths(axis: Any, data: xr.Dataset) -> None:
    longest = data["longest"]
    for name, marker in (("f", "o"), ("f_quad", "x")):
        for rate, color in (("sub", "C0"), ("super", "C3")):
            one = longest.sel(model=name, rate=rate).transpose("width", "seed")
            label = f"{name}, {RATES[rate]:g} η_crit"
            axis.plot(one["width"], _typical(one), marker, color=color, mfc="none", label=label)
    first, widths = _typical(longest.sel(model="f_quad", rate="super"))[0], data["width"].values
    line = float(first) * np.sqrt(widths / widths[0])
    axis.plot(widths, line, color="0.6", lw=0.8, label="∝ m^(1/2)")
    axis.set(xlabel="width m", ylabel="largest distance", xscale="log", yscale="log")
    legend(axis)


def _typical(values: xr.DataArray) -> xr.DataArray:
    return xr.ufuncs.exp(xr.ufuncs.log(values).mean("seed"))


def check(data: xr.Dataset) -> list[Claim]:
    """Regimes, lengths of paths, drifts of kernels; last kernels against the map."""
    rows = [row for name in MODELS for row in _of_model(data.sel(model=name), name)]
    first = data["kernel"].sel(model="f", rate="sub").isel(time=0)
    inside = ((first >= 0.5) & (first <= 1.5)).mean()
    quad = data.sel(model="f_quad", rate="super")
    off = abs(quad["kernel"].isel(time=-1) / quad["predicted_kernel"] - 1).max()
    return [
        *rows,
        *_theorem_b31(data.sel(model="f_quad", rate="sub")),
        CLAIMS["scale"].equals(inside, 1.0),  # where |x|² = d
        CLAIMS["map"].at_most(off, 1e-6),
    ]


def _of_model(one: xr.Dataset, name: str) -> list[Claim]:
    sentences = {key: row.format(model=name) for key, row in CLAIMS.items()}
    wanted = {"sub": Regime.MONOTONE, "super": Regime.CATAPULT}
    power = exponents(one["longest"], "width")
    first, last = one["kernel"].isel(time=0), one["kernel"].isel(time=-1)
    drift = abs(one["kernel"] / first - 1).max("time").sel(rate="sub").isel(width=-1)
    fall, end = ((values.sel(rate="super")).max() for values in (last / first, one["eta"] * last))
    return [
        *(
            sentences[rate].equals((one["regime"].sel(rate=rate) == int(regime)).mean(), 1.0)
            for rate, regime in wanted.items()
        ),
        sentences["ball"].at_most(abs(power.sel(rate="sub")).max(), FINITE),
        sentences["grows"].equals(intervals.of_mean(power.sel(rate="super"), "seeds"), 0.5),
        sentences["constant"].at_most(drift.max(), 0.05),
        sentences["falls"].at_most(fall, 1 / RATES["super"]),
        sentences["stable"].at_most(end, 2.0),
    ]


def _theorem_b31(quad: xr.Dataset) -> list[Claim]:
    """Theorem B.3.1: exponential decrease, and a kernel that moves by O(1/m)."""
    power, wide = exponents(quad["drift"], "end"), quad.isel(width=-1)
    v = (wide["eta"] * wide["kernel"]).isel(time=0)
    delta = xr.ufuncs.minimum(v, 2 - v)
    there = wide["loss"] > 1e-12 * wide["loss"].isel(time=0)
    factor = xr.ufuncs.sqrt(wide["loss"].shift(time=-1) / wide["loss"]).where(there).max("time")
    excess, order = (factor - (1 - delta)).max(), 1 / np.sqrt(float(wide["width"]))
    return [
        CLAIMS["exponential"].at_most(excess, 0.0, order),
        CLAIMS["moves"].at_most(intervals.of_mean(power, "seeds"), -1.0),
    ]
