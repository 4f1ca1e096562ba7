"""Figs. B.2 and B.3: training confined to the top eigenvector of the tangent kernel.

With p(t) the kernel's top eigenvector, R_f = ⟨p, r(t+1)⟩/⟨p, r(t)⟩ − 1 + ηλ_1 and R_K = λ_1 −
pᵀ K(t+1) p are what a step adds to linear dynamics (App. B.14; its Eqs. B.13-B.14, projected). The
thesis has CIFAR-2 and SVHN-2, fully connected and convolutional; here a fully connected network and
its quadratic twin learn two classes of normal inputs, means ± one along a direction, at 1.3 η_crit
of the mean of r². "Large" losses are those above half of the peak. The quick preset has fewer
examples and inputs.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024quadratic import _model

TITLE = "The spike of a catapult lies in the top eigenvector of the kernel"
MODELS = {"f_quad": "Fig. B.2", "f": "Fig. B.3"}
RATE = 1.3  # over η_crit
CLAIMS = {
    "rises": claim("{model}: the loss rises to a spike, log₁₀ of its peak over the first",
                   "{figure}", because="a factor of three is a spike"),
    "captures": claim("{model}: the part along p almost captures the spike, fraction of the peak",
                      "{figure}", because="'almost' is read as nine tenths"),
    "positive": claim("{model}: {part} is positive where the loss is large, least over largest",
                      "{figure}", because="a sign"),
    "scales": claim("{model}: {part} scales with the loss, its power up to the peak", "{figure}",
                    within=Tolerance(0.3, "'scales' is read as proportional, roughly")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Examples, inputs, width, steps."""

    n: int = 32
    d: int = 20
    m: int = 2000
    steps: int = 40
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(n=128, d=100, m=2048)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Loss, its part along p, and both remainders, step by step."""
    rng, model = _model.rng_of(params.key), _model.two_layers(params.d, params.m, params.key)
    y = rng.choice([-1.0, 1.0], params.n)
    x = rng.standard_normal((params.n, params.d))
    x[:, 0] += y
    rate = RATE * params.n / _model.top_kernel(model, x)
    rows = [_run(params, x, y, model, name, rate) for name in cases(list(MODELS), report)]
    return xr.concat(rows, xr.Variable("model", list(MODELS))).assign_attrs(rate=rate)


def _run(params: Params, x: Any, y: Any, model: ld.Model, name: str, rate: float) -> xr.Dataset:
    probes = {
        "gram": lambda now: _model.gram(now, x),
        "out": lambda now: now.network(now.weights, jnp.asarray(x)),
    }
    times = np.arange(params.steps + 1.0)
    data, network = _model.mean_square(x, y), _model.twin(model, name)
    record = _model.train(data, network, model.weights, rate, times, probes)
    r, K, eta = record["out"].values - y, record["gram"].values, 2 * rate / params.n
    values, vectors = np.linalg.eigh(K)
    p, top = vectors[:-1, :, -1], values[:-1, -1]
    now, then = (np.sum(p * part, axis=1) for part in (r[:-1], r[1:]))
    after = np.einsum("ti,tij,tj->t", p, K[1:], p)
    table = {
        "loss": ("time", record["error"].values[:-1]),
        "along": ("time", now**2 / params.n),
        "R_f": ("time", then / now - 1 + eta * top),
        "R_K": ("time", top - after),
    }
    return xr.Dataset(table, {"time": times[:-1]})


def draw(data: xr.Dataset) -> Figure:
    """Losses, and remainders against the loss; one row per model."""
    figure, axes = panels(4, size=(4.4, 3.1))
    for row, (name, source) in enumerate(MODELS.items()):
        one, (left, right) = data.sel(model=name), axes[2 * row : 2 * row + 2]
        left.plot(one["time"], one["loss"], color="C0", label="loss")
        left.plot(one["time"], one["along"], color="C3", ls="--", label="its part along p")
        left.set(xlabel="steps", ylabel="mean of r²", yscale="log", ylim=(1e-4, None))
        left.set_title(f"{name} ({source}), η = {RATE:g} η_crit = {data.attrs['rate']:.2f}")
        left.title.set_fontsize(9)
        # R_f is a ratio of residuals along p, and means nothing once these are gone.
        there = one["along"] > 1e-4 * one["along"].max()
        for part, color in (("R_f", "C1"), ("R_K", "C2")):
            scaled = one[part] / one[part].isel(time=int(np.argmax(one["loss"].values)))
            label = f"{part}, over that at the peak"
            right.plot(one["time"], scaled.where(there), color=color, label=label)
        right.plot(one["time"], one["loss"] / one["loss"].max(), color="C0", label="loss, likewise")
        right.axhline(0, color="0.6", lw=0.8)
        right.set(xlabel="steps", ylabel="over the value at the peak", ylim=(-1, 2))
        legend(left, fontsize=7)
        legend(right, fontsize=7)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The spike along p; remainders that are positive and proportional to the loss."""
    rows = []
    for name, figure in MODELS.items():
        one, fields = data.sel(model=name), {"model": name, "figure": figure}
        loss = one["loss"].values
        peak = int(np.argmax(loss))
        large = loss > loss[peak] / 2
        first, captured = np.log10(loss[peak] / loss[0]), one["along"].values[peak] / loss[peak]
        rows.append(CLAIMS["rises"].format(**fields).at_least(first, 0.5))
        rows.append(CLAIMS["captures"].format(**fields).at_least(captured, 0.9))
        for part in ("R_f", "R_K"):
            values = one[part].values
            least = np.min(values[large]) / np.max(np.abs(values[large]))
            rising = (np.arange(len(loss)) <= peak) & (loss > 0.05 * loss[peak]) & (values > 0)
            power = np.polyfit(np.log(loss[rising]), np.log(values[rising]), 1)[0]
            rows.append(CLAIMS["positive"].format(**fields, part=part).at_least(least, 0.0))
            rows.append(CLAIMS["scales"].format(**fields, part=part).equals(power, 1.0))
    return rows
