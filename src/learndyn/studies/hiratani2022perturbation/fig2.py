"""Fig. 2: the shortest training, over learning rates, against hidden width (A) and outputs (B).

Every point is the shortest of the mean times of ten seeds at a few rates around η*. The paper looks
between 10⁻² and 10 of η*; outside of the rates here training is longer, or never ends. Lines are
Eq. 96 for SGD, and Eq. 80 and the recursion of order "finite" at their shortest over the same
rates. A width of 10⁶, which the paper could not simulate, is added. The quick preset has fewer
rates and sizes and trains to a tenth of the first error instead of 1/10000; the hidden width stays.

Notes: docs/results/hiratani2022perturbation/fig2/notes.md.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Interval, Tolerance, claim
from learndyn.studies.hiratani2022perturbation import _model
from learndyn.studies.hiratani2022perturbation._model import FACTORISED, L_H, L_X, L_Y, factorised
from learndyn.studies.hiratani2022perturbation._shortest import network_times, recursion_time
from learndyn.studies.hiratani2022perturbation._trajectories import lettered
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL, mean_bound, mean_tolerance

TITLE = "Shortest training under node perturbation and SGD, by hidden width and outputs"
DIFFERS = (
    "four rates (0.6 to 1.05 η*; for SGD 0.7 to 1.15 of its optimum) instead of 10⁻² to 10 η*; "
    "a hidden width of 10⁶ is added"
)
ORDERS = ("full", "finite", "wide")
# What order "finite" leaves out by hidden width: how far Eq. 57 comes down along a training.
LEFT_OUT = {1000: 0.08, L_H: FACTORISED, 10**6: FACTORISED}
LATER = 1.3  # the simulated time over the predicted one
LONGEST = 3.0  # the time for which the recursion is followed, over that of Eq. 80
LIMIT = "order L_h^(−1/3), coefficient one"
FINITE = "Eqs. 61-68, with +2"
CLAIMS = {
    "wide": claim("{sizes}: shortest training, Eq. 80", "Eq. 80 (Eq. 13), Fig. 2A"),
    "full": claim("{sizes}: shortest training, Eq. 68", "Appendix B.2, Eq. 68"),
    "finite": claim("{sizes}: shortest training, order finite", FINITE, kind="finding"),
    "sgd": claim("{sizes}: shortest training by SGD, Eq. 96", "Eq. 96, Fig. 2"),
    "same": claim("the shortest training does not depend on L_h: {wider} over {narrower}",
                  "after Eq. 74"),
    "exponent": claim("{few} to {many}: exponent of L_y in the shortest training, that of Eq. 80",
                      "Eq. 80, Fig. 2B", because=f"{LIMIT}, at both ends"),
    "exponent, finite": claim("{few} to {many}: exponent of L_y, that of order finite", FINITE,
                              kind="finding", because="4.4 % of Eq. 57, at both ends"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes of both panels, rates over η* and over SGD's optimum, the last error over the first."""

    hidden: tuple[int, ...] = (1000, 10_000, 1_000_000)
    outputs: tuple[int, ...] = (3, 10)
    rates: tuple[float, ...] = (0.8, 0.95)
    sgd_rates: tuple[float, ...] = (0.8, 1.0)
    seeds: int = _model.SEEDS
    target: float = 0.1
    points: int = 201
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        (100, 1000, 10_000, 1_000_000), (1, 3, 10, 30), (0.6, 0.75, 0.9, 1.05),
        (0.7, 0.85, 1.0, 1.15), target=1e-4,
    ),
}  # fmt: skip
_WIDE = "Eq. 80 drops β against α; as long as they are of one size it is too long by half or more"
_BOTH = {
    CLAIMS["same"].format(wider="100-10000-10", narrower="100-1000-10").statement:
        "the wide limit drops β against α, which are equal at first: narrow layers train faster",
    CLAIMS["wide"].format(sizes="100-1000-10").statement: _WIDE,
    CLAIMS["wide"].format(sizes="100-10000-10").statement: _WIDE,
}  # fmt: skip
_MOMENTS = "fourth moments add 2 to every L_y, so that training with few outputs is longer"
_EXPONENTS = {
    preset: CLAIMS["exponent"].format(few=f"100-10000-{few}", many=f"100-10000-{many}").statement
    for preset, few, many in (("quick", 3, 10), ("paper", 1, 30))
}
FAILS = {preset: {**_BOTH, name: _MOMENTS} for preset, name in _EXPONENTS.items()}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Training times of all sizes, each once."""
    sizes = {(L_h, L_Y) for L_h in params.hidden} | {(L_H, L_y) for L_y in params.outputs}
    rows = [_at(params, L_h=L_h, L_y=L_y) for L_h, L_y in cases(sorted(sizes), report)]
    rates = {"rate": list(params.rates), "sgd_rate": list(params.sgd_rates)}
    data = xr.concat(rows, "case").assign_coords(rates)
    return data.assign_attrs(target=params.target)


def _at(params: Params, **sizes: int) -> xr.Dataset:
    """One size: times of node perturbation, of its recursions, and of SGD; NaN for never."""
    target, points, eta = params.target, params.points, _model.critical_rate(**sizes)
    rules = [ld.NodePerturbation(rate * eta) for rate in params.rates]
    eq80 = [_model.predicted(rule, target=target, **sizes)["training_time"] for rule in rules]
    wide = [time if np.isfinite(time) else np.nan for time in eq80]
    longest = LONGEST * np.nanmin(wide)
    full, finite = (
        [recursion_time(rule, order, longest, 8 * points, target, **sizes) for rule in rules]
        for order in ORDERS[:2]
    )
    ends = LATER * np.where(np.isnan(finite), np.nanmax([*wide, *finite]), finite)
    starts = _model.drawn_starts(params.key, params.seeds, **sizes)
    run = lambda rule, end: network_times(
        rule, end, points, target, sizes, starts=starts, key=params.key
    )
    times = [run(*pair) for pair in zip(rules, ends, strict=True)]
    best = _model.predicted(ld.SGD(1.0), target=target, **sizes)
    sgd = [ld.SGD(rate * best["optimal_learning_rate"]) for rate in params.sgd_rates]
    table = {
        "time": (("rate", "seed"), times),
        "theory": (("order", "rate"), [full, finite, wide]),
        "sgd_time": (("sgd_rate", "seed"), [run(rule, 2 * best["minimal_time"]) for rule in sgd]),
        "eq96": best["minimal_time"],
    }
    return xr.Dataset(table, {**sizes, "order": list(ORDERS)})


def draw(data: xr.Dataset) -> Figure:
    """Shortest times against hidden width, at 10 outputs, and against outputs, at 10⁴ units."""
    figure, axes = panels(2, columns=2, size=(4.4, 3.6))
    for axis, name, other, at in ((axes[0], "L_h", "L_y", L_Y), (axes[1], "L_y", "L_h", L_H)):
        _panel(axis, data.isel(case=data[other].values == at), name)
    axes[0].set(xlabel="hidden units $L_h$", ylabel="steps of the shortest training")
    axes[1].set(xlabel="outputs $L_y$")
    lettered(axes)
    legend(axes[0], fontsize=7, loc="center right")
    return figure


def _panel(axis: Axes, data: xr.Dataset, name: str) -> None:
    x, theory = data[name].values, data["theory"].min("rate")
    every = [data.isel(case=case) for case in range(len(x))]
    axis.plot(x, theory.sel(order="wide"), "C1-", lw=1.2, label="node perturbation, Eq. 80")
    axis.plot(x, theory.sel(order="finite"), "C1--", lw=1.2, label="recursion, finite")
    best = [_fastest(one).mean() for one in every]
    axis.plot(x, best, "C1o", ms=5, label="networks, node perturbation")
    axis.plot(x, data["eq96"], "C0-", lw=1.2, label="SGD, Eq. 96")
    axis.plot(
        x, [_fastest(one, "sgd_").mean() for one in every], "C0o", ms=5, label="networks, SGD"
    )
    axis.set(xscale="log", yscale="log", ylim=(0.5 * data["eq96"].min(), 2 * theory.max()))
    axis.set_xticks(x, [f"{n:,}" for n in x])
    axis.minorticks_off()


def _fastest(one: xr.Dataset, rule: str = "") -> xr.DataArray:
    """The seeds' times at the rate of the shortest mean; where a seed fails, it has none."""
    times = one[f"{rule}time"]
    means = times.mean("seed", skipna=False).fillna(np.inf).values
    return times.isel({f"{rule}rate": int(np.argmin(means))})


def check(data: xr.Dataset) -> list[Claim]:
    """Each width against the theories; growth with widths and outputs."""
    widths = [_case(data, L_h, L_Y) for L_h in LEFT_OUT if L_h in data["L_h"].values]
    rows = [row for one in widths for row in _width(one)]
    return [*rows, _independent(*widths[:2]), *_outputs(data)]


def _case(data: xr.Dataset, L_h: int, L_y: int) -> xr.Dataset:
    here = (data["L_h"].values == L_h) & (data["L_y"].values == L_y)
    return data.isel(case=int(np.flatnonzero(here)[0]))


def _sizes(one: xr.Dataset) -> str:
    return f"{L_X}-{int(one['L_h'])}-{int(one['L_y'])}"


def _theories(one: xr.Dataset) -> list[float]:
    return [float(one["theory"].sel(order=order).min("rate")) for order in ORDERS]


def _width(one: xr.Dataset) -> list[Claim]:
    best, (full, finite, eq80) = _fastest(one), _theories(one)
    L_h, chance = int(one["L_h"]), mean_tolerance(best, "seeds")
    moments, part = Tolerance(abs(finite - full), _model.MOMENTS), LEFT_OUT[L_h]
    allowed = {
        "wide": (eq80, Tolerance(L_h ** (-1 / 3) * eq80, LIMIT) + moments + chance),
        "full": (full, moments + factorised(full, part) + chance),
        "finite": (finite, factorised(finite, part) + chance),
    }
    rows = [
        CLAIMS[order].format(sizes=_sizes(one)).equals(best.mean(), theory, within)
        for order, (theory, within) in allowed.items()
    ]
    return [*rows, _by_sgd(one)]


def _by_sgd(one: xr.Dataset) -> Claim:
    times, eq96 = _fastest(one, "sgd_"), float(one["eq96"])
    small = 2 / L_X + L_X / float(one["L_h"])
    left = Tolerance(small * eq96, "2/L_x of fourth moments, L_x/L_h of Eq. 94")
    within = left + mean_tolerance(times, "seeds")
    return CLAIMS["sgd"].format(sizes=_sizes(one)).equals(times.mean(), eq96, within)


def _relative(*cases: xr.DataArray) -> Tolerance:
    """How far the logarithm of a ratio of two mean times strays, half of the level for each."""
    parts = [mean_bound(times, "seed", LEVEL / 2) / float(times.mean()) for times in cases]
    because = f"Student's t, {cases[0].size} seeds, {100 * LEVEL:g} % together"
    return Tolerance(sum(parts), because, 1 - LEVEL)


def _independent(narrower: xr.Dataset, wider: xr.Dataset) -> Claim:
    """The shortest training of two widths: the whole interval of their ratio is near 1."""
    narrow, wide = _fastest(narrower), _fastest(wider)
    ratio, chance = float(wide.mean() / narrow.mean()), _relative(narrow, wide)
    ends = ratio * (1 - chance.value), ratio * (1 + chance.value)
    limit = Tolerance(float(narrower["L_h"]) ** (-1 / 3), f"{LIMIT}, of the narrower")
    sentence = CLAIMS["same"].format(wider=_sizes(wider), narrower=_sizes(narrower))
    return sentence.equals(Interval(ratio, *ends, chance.because), 1.0, limit)


def _outputs(data: xr.Dataset) -> list[Claim]:
    """How training times grow from the fewest outputs to the most."""
    L_y = data["L_y"].values
    few, many = (_case(data, L_H, int(end)) for end in (L_y.min(), L_y.max()))
    span, sizes = float(np.log(L_y.max() / L_y.min())), {"few": _sizes(few), "many": _sizes(many)}
    _, finite, wide = np.log(np.divide(_theories(many), _theories(few))) / span
    best = [_fastest(one) for one in (few, many)]
    found = float(np.log(best[1].mean() / best[0].mean())) / span
    within = lambda left: (Tolerance(2 * left, "") + _relative(*best)) * (1 / span)
    exponent, ours = (CLAIMS[key].format(**sizes) for key in ("exponent", "exponent, finite"))
    return [
        exponent.equals(found, wide, within(L_H ** (-1 / 3))),
        ours.equals(found, finite, within(FACTORISED)),
        _by_sgd(few),
    ]
