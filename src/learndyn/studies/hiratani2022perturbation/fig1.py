"""Fig. 1: learning under node perturbation at rates around the critical one, 100-10000-10.

A: the mean error over steps. B: norm of the input weights and error of every seed. C: norm of the
output weights. The supplement says only that A has mean trajectories, and B and C those of ten
seeds per rate. Networks are followed by the exact chain of their Gram matrix; a few are also
trained weight by weight, for a short time, to compare the two engines.

The theory has three qualities. The wide limit (Eqs. 74-83) drops terms of order L_h^(−1/3), 5 %
here if their coefficients are one. Eq. 68 drops 2 against every size. Order "finite" has these
terms, but still replaces traces of products by products of traces. The quick preset has fewer rates
and trains to a tenth of the first error instead of 1/10000.

Notes: docs/results/hiratani2022perturbation/fig1/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.hiratani2022perturbation import _model, _trajectories
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_tolerance, student_bound, student_tolerance
from learndyn.theory.perturbation import wide
from learndyn.theory.perturbation.setting import PerturbationSetting

TITLE = "Node perturbation around the critical rate: error, norms, phase plane"
DIFFERS = (
    "sizes and 10 seeds are the paper's; its rates are not in the supplement, here 0.25 to 2 "
    "η*; networks follow the exact chain of their Gram matrix, and 20 also weight by weight"
)
ORDERS = ("full", "finite", "wide")
SEEN = ("epsilon", "alpha", "beta")
LIMIT = _model.L_H ** (-1 / 3)  # what the wide limit drops, with coefficients of one
ORDER = f"order L_h^(−1/3) = {LIMIT:.2g} of the wide limit, coefficient one"
AT = "η = {rate:g} η*, error at {target:g} of the first"
FINITE = "Eqs. 61-68, with +2"
CLAIMS = {
    "falls": claim("η < η*: seeds whose error still falls in the second half, least fraction",
                   "Eq. 82", within=Tolerance(0.0, "convergence without a resurgence", PLANNED)),
    "returns": claim("η > η*: seeds whose error returns to twice the first, least fraction",
                     "Eq. 82",
                     within=Tolerance(0.0, "a passes 2/c_o before the error is gone", PLANNED)),
    "critical": claim("rate between the last stable and the first unstable one, over η*", "Eq. 83",
                      within=Tolerance(LIMIT, ORDER, PLANNED)),
    "steps": claim(f"{AT}: steps, Eq. 68", "Appendix B.2, Eq. 68"),
    "steps, finite": claim(f"{AT}: steps, order finite", FINITE, kind="finding"),
    "alpha": claim(f"{AT}: norm of the input weights α, Eq. 81", "Eq. 81"),
    "alpha, finite": claim(f"{AT}: norm of the input weights α, order finite", FINITE,
                           kind="finding"),
    "constant": claim(f"{AT}: β is a constant, |β/β_o − 1| against L_h^(−1/3)", "Eq. 73b",
                      within=Tolerance(0.0, "its order with coefficient one")),
    "beta, finite": claim(f"{AT}: norm of the output weights β, order finite", FINITE,
                          kind="finding"),
    "engines": claim("chain against all weights: log ε, log α, log β, largest difference in "
                     "standard errors", "exact reduction of the hidden layer", kind="finding"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Rates over η*, the last error over the first, runs and steps of the engines' comparison."""

    rates: tuple[float, ...] = (0.5, 0.8, 1.5)
    seeds: int = 10
    until: float = 8500.0
    points: int = 101
    target: float = 0.1
    direct_runs: int = 6
    reduced_runs: int = 48
    direct_steps: int = 120
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        (0.25, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0), until=70_000.0, points=401, target=1e-4,
        direct_runs=20, reduced_runs=200, direct_steps=300,
    ),
}  # fmt: skip
_REASONS = {
    "alpha": "β is as large as α at first, and the wide limit drops it: the norm grows less",
    "constant": "the order holds with a coefficient of two to four",
}
FAILS = {
    preset: {
        CLAIMS[key].format(rate=rate, target=params.target).statement: reason
        for rate in params.rates
        if rate < 1
        for key, reason in _REASONS.items()
    }
    for preset, params in PRESETS.items()
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Trajectories and the theory's at every rate; both engines from one start."""
    eta, starts = _model.critical_rate(), _model.drawn_starts(params.key, params.seeds)
    rules = [ld.NodePerturbation(rate * eta) for rate in params.rates]
    rows = [_at(params, rule, starts) for rule in cases(rules, report, end=0.8)]
    data = xr.concat(rows, xr.Variable("rate", list(params.rates)))
    data = data.merge(_engines(params, ld.NodePerturbation(0.8 * eta), starts[0]))
    report(1.0)
    return data.assign_attrs(target=params.target)


def _at(params: Params, rule: ld.NodePerturbation, starts: list[ld.Start]) -> xr.Dataset:
    """One rate: seeds, recursions, and α at the end of training by Eq. 81 (NaN above η*)."""
    system, times = _model.linear_system(rule), np.linspace(0, params.until, params.points)
    theories = [(system, order) for order in ORDERS]
    table = _trajectories.trajectories(system, times, starts, params.key, SEEN, theories, "order")
    a, epsilon, c_o = map(float, wide.reduced(PerturbationSetting.of(system), _model.mean_start()))
    end = wide.final_norm(c_o, a, epsilon, params.target * epsilon) * _model.L_H**wide.KAPPA
    return xr.Dataset({**table, "last_norm": end}, {"time": times, "order": list(ORDERS)})


def _engines(params: Params, rule: ld.NodePerturbation, start: ld.Start) -> xr.Dataset:
    """Order parameters after a few steps from one start, by both engines."""
    system, table = _model.linear_system(rule), {}
    for method, runs in {"direct": params.direct_runs, "reduced": params.reduced_runs}.items():
        how = {"start": start, "runs": runs, "key": params.key + 1, "method": method}
        record = ld.simulate(system, [float(params.direct_steps)], **how)
        values = np.stack([record[name].values[:, 0] for name in SEEN])
        table[method] = (("seen", f"{method}_run"), values)
    return xr.Dataset(table, {"seen": list(SEEN)})


def draw(data: xr.Dataset) -> Figure:
    """Mean error over steps; norm and error of every seed; norm of the output weights."""
    figure, axes = panels(3, columns=3, size=(4.2, 3.6))
    for number, rate in enumerate(data["rate"].values):
        one, color = data.sel(rate=rate), f"C{number}"
        _trajectories.draw_mean(axes[0], one, color, f"η = {rate:g} η*", unit=1000)
        _trajectories.draw_plane(axes[1], one, color, {"finite": "--", "wide": ":"})
        axes[2].plot(one["time"] / 1000, one["beta"].T, color=color, lw=0.6, alpha=0.6)
        axes[2].plot(one["time"] / 1000, one["theory_beta"].sel(order="finite"), "k--", lw=0.8)
    first, steps = float(data["epsilon"].isel(time=0).mean()), "thousands of steps"
    errors = 0.3 * data.attrs["target"] * first, 30 * first
    dotted = {"wide limit, Eq. 78": {"color": "black", "ls": ":"}}
    _trajectories.finish(axes, steps, errors, (1.5, 16), dotted, "upper right")
    axes[2].set(xlabel=steps, ylabel="squared norm of output weights β", ylim=(1.8, 3.4))
    _trajectories.lettered(axes)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Stable and unstable rates, training times and norms, β, and the two engines."""
    below = [rate for rate in data["rate"].values if rate < 1]
    rows = [row for rate in below for row in _trained(data, float(rate))]
    return [*_stability(data), *rows, _agreement(data)]


def _stability(data: xr.Dataset) -> list[Claim]:
    """Which rates make the error fall to the end, and which make it return."""
    epsilon, rates = data["epsilon"], data["rate"].values
    first, half = epsilon.isel(time=0), epsilon.isel(time=epsilon.sizes["time"] // 2)
    falls = (epsilon.isel(time=-1) < half).mean("seed").values
    highest = epsilon.fillna(np.inf).max("time")
    returns = (highest > 2 * first).mean("seed").values
    low, high = rates[falls == 1].max(initial=0.01), rates[returns == 1].min(initial=100.0)
    grid = Tolerance((high - low) / 2, "half of the grid's step")
    return [
        CLAIMS["falls"].at_least(falls[rates < 1].min(), 1.0),
        CLAIMS["returns"].at_least(returns[rates > 1].min(), 1.0),
        CLAIMS["critical"].equals(np.sqrt(low * high), 1.0, grid),
    ]


def _trained(data: xr.Dataset, rate: float) -> list[Claim]:
    """One stable rate: when the error has come down, and where the norms are then."""
    one, part = data.sel(rate=rate), data.attrs["target"]
    reached = lambda one, name: ld.analysis.escape_time(one, fraction=part, variable=name)
    time = reached(one, "epsilon")
    full, finite = (float(reached(one.sel(order=o), "theory_epsilon")) for o in ORDERS[:2])
    alpha, beta = (_value_at(one, name, time) for name in ("alpha", "beta"))
    theory, last_norm = one.sel(order="finite"), float(one["last_norm"])
    norms = [np.interp(finite, one["time"], theory[f"theory_{n}"]) for n in ("alpha", "beta")]
    moved = beta / one["beta"].isel(time=0) - 1
    sentence = lambda key: CLAIMS[key].format(rate=rate, target=part)
    mean = lambda values: values.mean(skipna=False)  # a seed that never gets there fails
    as_finite = lambda key, values, expected: sentence(f"{key}, finite").equals(
        mean(values), expected, _model.factorised(expected) + mean_tolerance(values, "seeds")
    )
    moments = Tolerance(abs(finite - full), _model.MOMENTS)
    limit = Tolerance(LIMIT * last_norm, ORDER)
    by_time, by_alpha = (mean_tolerance(values, "seeds") for values in (time, alpha))
    return [
        sentence("steps").equals(mean(time), full, moments + _model.factorised(full) + by_time),
        as_finite("steps", time, finite),
        sentence("alpha").equals(mean(alpha), last_norm, limit + by_alpha),
        as_finite("alpha", alpha, norms[0]),
        sentence("constant").at_most(intervals.of_mean(abs(moved), "seeds"), LIMIT),
        as_finite("beta", beta, norms[1]),
    ]


def _value_at(one: xr.Dataset, name: str, time: xr.DataArray) -> xr.DataArray:
    """What every seed has at its own time."""
    pairs = zip(time.values, one[name].transpose("seed", "time").values, strict=True)
    found = [np.interp(t, one["time"], curve) if np.isfinite(t) else np.nan for t, curve in pairs]
    return xr.DataArray(found, dims="seed")


def _agreement(data: xr.Dataset) -> Claim:
    """The chain against networks trained weight by weight, from one start."""
    logs = [np.log(data[method].values) for method in ("direct", "reduced")]
    square = sum(np.var(values, axis=1, ddof=1) / values.shape[1] for values in logs)
    gap = np.abs(logs[0].mean(axis=1) - logs[1].mean(axis=1)) / np.sqrt(square)
    count, entries = min(values.shape[1] for values in logs), len(SEEN)
    chance = student_tolerance(0.0, count, "direct runs", entries=entries)
    return CLAIMS["engines"].at_most(gap.max(), student_bound(count, entries), chance)
