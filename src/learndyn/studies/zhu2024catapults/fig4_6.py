"""Figs. 4.6 and C.1: critical rates of batches, and spikes of SGD, for a shallow network.

Two layers, two classes of images, mean of r². The thesis has the rates 0.1 and 0.8, neither of
which fits a critical rate in any convention; here they are 1/8 and 1.6 times the initial η_crit of
all examples, with a control at 1/2. The sentence that the loss of all examples increases only where
η > η_crit(batch) is Table 4.2. Controls at 1/2 also raise the loss of all examples by more than a
tenth in some steps (batches disturb each other, and late the kernel grows): what holds is that no
step raises the loss of its own batch. "Many spikes" are one here: the first catapult lowers the
kernel so far that no batch is above η_crit after it. Fig. C.1 compares 2/λ_max of the Hessian of
the loss of all examples with that of the kernel, at steps spread over the run (in the thesis of
batches, at every step, for three networks); outside of the spike, in which residuals are large,
their distance is a finding. The quick preset has scikit-learn's digits.

Notes: docs/results/zhu2024catapults/fig4_6/notes.md.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults import _training as training
from learndyn.studies.zhu2024catapults._drawing import critical_rates
from learndyn.studies.zhu2024catapults._features import flat, with_weights

TITLE = "Spikes of SGD come where the rate exceeds the critical rate of the batch"
DIFFERS = (
    "rates 1/8 and 1.6 η_crit instead of 0.1 and 0.8, and ½ as a control; 400 steps instead of "
    "until loss 10⁻³; Fig. C.1 for the shallow network alone, on all examples, at 25 steps"
)
RATES = {"low": 0.125, "half": 0.5, "high": 1.6}  # over the initial η_crit of all examples
S = 5
CLAIMS = {
    "low": claim("far below η_crit no step raises the loss by a tenth", "Fig. 4.6 (a)",
                 because="“without any spike”"),
    "high": claim("above it, steps that raise the loss by a tenth have η > η_crit(batch) (of "
                  "{events}; base rate {base:.2g}), share", "Fig. 4.6 (a)",
                  because="the match rate of Table 4.2"),
    "batch": claim("steps that raise the loss of their batch have η > η_crit(batch) (of {events}; "
                   "base rate {base:.2g}), share", "Fig. 4.6", kind="finding",
                   because="below η_crit a step descends, up to the change of the kernel"),
    "half": claim("at half of η_crit, steps that raise the loss of their batch", "Fig. 4.6",
                  kind="finding", because="below η_crit a step descends"),
    "top": claim("the tallest spike lies in the top 5 eigenspaces, share", "Fig. 4.6 (b)",
                 within=Tolerance(0.1, "“corresponds” read as nine tenths")),
    "close": claim("η_crit by the kernel is close to that by the Hessian, largest gap", "Fig. C.1",
                   because="“close” read as a tenth"),
    "calm": claim("outside of the spike η_crit by the kernel is close to that by the Hessian, "
                  "largest gap", "Fig. C.1", kind="finding", because="“close” read as a tenth"),
    "together": claim("η_crit by the kernel and by the Hessian move together, correlation",
                      "Fig. C.1", because="points on a line"),
}  # fmt: skip
_GAP = "inside of the spike residuals are large, and so is the part of the Hessian with them"
FAILS = {name: {CLAIMS["close"].statement: _GAP} for name in ("quick", "paper")}


@dataclasses.dataclass(frozen=True)
class Params:
    """Images and how many, batch, width, steps, and how often Hessians are taken."""

    data: str = "digits"
    n: int = 96
    batch: int = 24
    width: int = 512
    steps: int = 150
    hessians: int = 10
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params("cifar10", n=128, batch=32, width=1024, steps=400, hessians=25),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Every step at three rates, and both critical rates along the run at the highest."""
    case = training.on_images("shallow", params, params.n, params.width, S)
    weights = training.weights_of(case, params.key)
    unit, rows = training.critical_rate(case, weights), []
    for share in cases(list(RATES.values()), report):
        rule = ld.SGD(share * unit, batch=params.batch)
        run = case.problem, case.network, weights, rule, params.steps
        rows.append(training.watched(*run, key=params.key, s=S))
    data: Any = xr.concat(rows, xr.Variable("case", list(RATES)))
    rates = _both_rates(params, case, weights, RATES["high"] * unit)
    name = f"{case.task.name}, width {params.width}, batch {params.batch}"
    return xr.merge([data, rates]).assign_attrs(data=name, unit=unit)


def _both_rates(params: Params, case: Any, weights: Any, rate: float) -> xr.Dataset:
    """2/λ_max of the Hessian and of its Gauss-Newton part, at steps of the run at the high rate."""
    system = ld.System(case.problem, case.network, ld.SGD(rate, batch=params.batch))
    times = np.unique(np.rint(np.geomspace(1, params.steps + 1, params.hessians)) - 1)
    start = ld.start(system, weights=weights)
    options: Any = {"method": "direct", "key": params.key, "probes": {"flat": flat}}
    record = ld.simulate(system, times, start=start, **options).isel(run=0)
    examples, about = (case.task.x, case.task.y), {"loss": case.problem.loss, "tolerance": 1e-3}
    rows = []
    for vector in record["flat"].values:
        model = with_weights(ld.Model(case.network, weights), vector)
        critical = lambda exact, model=model: float(
            ld.probes.critical_learning_rate(model, *examples, exact=exact, **about)
        )
        rows.append([critical(True), critical(False)])
    exact, kernel = np.transpose(rows)
    return xr.Dataset({"by_hessian": ("at", exact), "by_kernel": ("at", kernel)}, {"at": times})


def draw(data: xr.Dataset) -> Figure:
    """Losses, critical rates of batches, the split of the loss, and both critical rates."""
    figure, axes = panels(8, columns=2, size=(4.6, 2.8))
    for row, (name, share) in enumerate(RATES.items()):
        one, (left, right) = data.sel(case=name), axes[2 * row : 2 * row + 2]
        critical_rates(left, one, "η_crit(batch)")
        left.set_title(f"η = {share:g} η_crit = {share * data.attrs['unit']:.3g}", fontsize=9)
        right.plot(one["time"], one["error"], color="C0", lw=1, label="loss")
        above = one["error"].where(one["rate"] > one["critical_rate"])
        right.plot(one["time"], above, "o", color="C3", ms=3, label="η > η_crit(batch)")
    one, (left, right) = data.sel(case="high"), axes[6:]
    left.plot(one["time"], one["loss_top"], color="C3", lw=1, label="L≤5, η = 1.6 η_crit")
    left.plot(one["time"], one["error"] - one["loss_top"], color="C0", lw=1, label="L>5")
    for axis in (*axes[1:6:2], left):
        axis.set(xlabel="steps", ylabel="mean of r²", yscale="log")
    right.plot(data["by_kernel"], data["by_hessian"], "o", ms=4, label="at steps of the run (C.1)")
    ends = [float(data["by_kernel"].min()), float(data["by_kernel"].max())]
    right.plot(ends, ends, color="0.5", lw=1, label="equal")
    right.set(xlabel="η_crit by the kernel", ylabel="η_crit by the Hessian")
    for axis in (*axes[1:6:2], left, right):
        legend(axis, fontsize=7)
    figure.suptitle(data.attrs["data"], fontsize=9)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """No spikes below, spikes above in the top eigenspaces, and the approximation by the kernel."""
    low, half, high = (data.sel(case=name) for name in RATES)
    catapults, spikes = ld.analysis.find_catapults(high), training.large_increases(high)
    batch, quiet = catapults.batch_match, ld.analysis.find_catapults(half).batch_match
    assert batch is not None and quiet is not None
    tallest = max(catapults.spikes, key=lambda s: s.rise, default=None)
    kernel, hessian = data["by_kernel"].values, data["by_hessian"].values
    loss = high["error"].values
    calm = loss[np.rint(data["at"].values).astype(int).clip(0, len(loss) - 1)] <= loss[0]
    about = lambda match: {"events": match.events, "base": match.base}
    gap = np.abs(kernel / hessian - 1)
    rows = [
        CLAIMS["low"].at_most(training.large_increases(low).events, 0),
        CLAIMS["high"].format(**about(spikes)).at_least(spikes.rate, 0.97),
        CLAIMS["batch"].format(**about(batch)).at_least(batch.rate, 1),
        CLAIMS["half"].at_most(quiet.events, 0),
        CLAIMS["top"].equals(tallest.top_share if tallest else np.nan, 1),
        CLAIMS["close"].at_most(gap.max(), 0.1),
        CLAIMS["calm"].at_most(gap[calm].max(), 0.1),
        CLAIMS["together"].at_least(np.corrcoef(kernel, hessian)[0, 1], 0.99),
    ]
    return [dataclasses.replace(row, rate=PLANNED) for row in rows]  # about the key's one run
