"""Fig. 3: label noise makes node perturbation unstable at every rate; normalised rows do not.

A: mean error over steps. B: norm of the input weights and error, both at rates over η*, the
critical rate without noise. C: when the error is lowest, and when it is back at its first value
(our choice; the supplement does not describe C). D: networks whose units keep the norms of their
weights at every update (Eq. 108). This breaks the symmetry on which the exact chain rests, so
networks of D are trained weight by weight, beside others without normalisation.

What the recursions leave out acts like a rate larger by 4.4 %; near η* this moves the lowest error
by a quarter. Eq. 85 drops terms of order L_h^(−1/3) and 2 against sizes, and near c_o a = 2
multiplies both by 2/(2 − c_o a); above η* this factor is beyond ten, so it is compared below η*
only. The quick preset is shorter; D has 2 η*, where networks without normalisation soon return.

Notes: docs/results/hiratani2022perturbation/fig3/notes.md.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, Tolerance, claim
from learndyn.studies.hiratani2022perturbation import _model, _trajectories
from learndyn.studies.hiratani2022perturbation._model import L_H, L_X, L_Y, NOISE, SEEDS
from learndyn.studies.hiratani2022perturbation._trajectories import when
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import mean_tolerance
from learndyn.theory.perturbation import wide
from learndyn.theory.perturbation.setting import PerturbationSetting

TITLE = "Node perturbation with label noise, and with normalised rows"
DIFFERS = (
    "sizes, noise and 10 seeds are the paper's; rates of A to C and widths of D are not "
    "in the supplement, here 0.25 to 1 η* and 100 to 10⁴; C, which it does not describe, is our "
    "reading"
)
SEEN = ("epsilon", "alpha")
THEORIES = ("full", "finite", "finite, rate + 4.4 %")
SOONER = 1.5  # a return is expected where the recursion's comes that much before the end ...
FAR = 0.1  # ... and none where its last error is below this part of the first
SETTLED = 8000  # steps after which errors with normalised rows have reached a level
AT = "η = {rate:g} η*"
FINITE = "Eqs. 61-68, with +2"
ROWS = "rows normalised, L_h = {L_h}"
SIGNAL = "4.4 % of the signal (Eq. 57) as a larger rate"
EXPECTED = f"the recursion is back so much before the end, or below {FAR:g} of its first error"
CLAIMS = {
    "back": claim(f"{AT}, {{end:g}} steps: the error is back before {SOONER:g} times the "
                  "recursion's time, fraction of seeds", "Fig. 3A, Eq. 84", because=EXPECTED,
                  rate=PLANNED),
    "not back": claim(f"{AT}, {{end:g}} steps: no error is back, fraction of seeds",
                      "Fig. 3A, Eq. 84", because=EXPECTED, rate=PLANNED),
    "return": claim(f"{AT}: log of the steps after which the error is back, order finite (of "
                    "{count} seeds; {left} more do not come back)", FINITE, kind="finding",
                    because=SIGNAL),
    "lowest": claim(f"{AT}: log of the lowest error over the first, Eq. 68",
                    "Appendix B.2, Fig. 3A"),
    "lowest, finite": claim(f"{AT}: log of the lowest error over the first, order finite", FINITE,
                            kind="finding"),
    "nullcline": claim(f"{AT}: lowest error over the nullcline, Eq. 85", "Eq. 85, Fig. 3B"),
    "below": claim(f"{ROWS}: last error below the lowest without, fraction of networks",
                   "Eq. 108, Fig. 3D", because="an order, network by network", rate=PLANNED),
    "norm": claim(f"{ROWS}: squared norm of the input weights, largest change", "Eq. 108, Fig. 3D",
                  kind="theorem", because="rounding of every step"),
    "level": claim(f"{ROWS}: error of the last quarter over Eq. 85 at the norm that is kept",
                   "Eqs. 85, 108, Fig. 3D"),
}  # fmt: skip

_LEVEL = "Eq. 85, which has no normalised rows, is off by a factor of {} there"
FAILS = {
    "paper": {
        CLAIMS["level"].statement.format(L_h=100): _LEVEL.format(1.7),
        CLAIMS["level"].statement.format(L_h=10_000): _LEVEL.format(4.8),
    }
}


@dataclasses.dataclass(frozen=True)
class Params:
    """Rates over η*, the longest training; widths, rate and time of networks with normalised rows.

    Times of A to C are spaced geometrically.
    """

    rates: tuple[float, ...] = (0.85, 1.2)
    seeds: int = SEEDS
    until: float = 20_000.0
    points: int = 241
    hidden: tuple[int, ...] = (L_H,)
    normalised_rate: float = 2.0
    normalised_seeds: int = 3
    normalised_until: float = 1500.0
    normalised_points: int = 31
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        (0.25, 0.5, 0.7, 0.85, 1.0), until=1e6, points=401, hidden=(100, 1000, 10_000),
        normalised_rate=1.0, normalised_seeds=SEEDS, normalised_until=50_000.0,
        normalised_points=101,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Trajectories with noise at every rate, and networks with normalised rows."""
    starts = _model.drawn_starts(params.key, params.seeds)
    rows = [_at(params, rate, starts) for rate in cases(params.rates, report, end=0.6)]
    wide_layers = xr.concat(rows, xr.Variable("rate", list(params.rates)))
    rows = [_normalised(params, L_h) for L_h in cases(params.hidden, report, begin=0.6)]
    normalised = xr.concat(rows, xr.Variable("hidden", list(params.hidden)))
    return wide_layers.merge(normalised)


def _at(params: Params, rate: float, starts: list[ld.Start]) -> xr.Dataset:
    """One rate: every seed, and the recursions, also at a slightly larger rate."""
    grid = np.geomspace(10, params.until, params.points - 1)
    times = np.concatenate([[0.0], np.unique(np.rint(grid))])
    system, larger = (_system(each) for each in (rate, rate * (1 + _model.FACTORISED)))
    theories = [(system, "full"), (system, "finite"), (larger, "finite")]
    table = _trajectories.trajectories(system, times, starts, params.key, SEEN, theories, "theory")
    c_o = float(wide.reduced(PerturbationSetting.of(system), _model.mean_start())[2])
    return xr.Dataset({**table, "c_o": c_o}, {"time": times, "theory": list(THEORIES)})


def _system(rate: float) -> ld.System:
    return _model.linear_system(ld.NodePerturbation(rate * _model.critical_rate()), sigma_t2=NOISE)


def _normalised(params: Params, L_h: int) -> xr.Dataset:
    """One width: errors with and without normalised rows from the same starts, and the norm."""
    eta = params.normalised_rate * _model.critical_rate(L_h=L_h)
    times = np.linspace(0, params.normalised_until, params.normalised_points)
    step = optax.chain(optax.sgd(eta), ld.rules.normalise_rows())
    rule = ld.Optax(step, estimator=ld.NodePerturbation(1.0))
    kept = _model.linear_system(rule, L_h=L_h, sigma_t2=NOISE)
    plain = _model.linear_system(ld.NodePerturbation(eta), L_h=L_h, sigma_t2=NOISE)
    begin = _model.drawn_starts(params.key, params.normalised_seeds, L_h=L_h)
    starts = [ld.start(kept, weights=one.weights, teacher=one.teacher) for one in begin]
    probes = {"norm": lambda model: jnp.sum(model.weights[0] ** 2)}
    record = ld.simulate(kept, times, starts=starts, key=params.key, probes=probes)
    alone = ld.simulate(plain, times, starts=begin, key=params.key)
    curves = {
        "normalised": 2 * record["error"].values[:, 0] / (L_X * L_Y),
        "norm": record["norm"].values[:, 0],
        "alone": alone["epsilon"].values[:, 0],
    }
    table: dict = {name: (("network", "later"), values) for name, values in curves.items()}
    c_o = float(wide.reduced(PerturbationSetting.of(plain), _model.mean_start(L_h=L_h))[2])
    return xr.Dataset({**table, "rows_c_o": c_o}, {"later": times})


def draw(data: xr.Dataset) -> Figure:
    """Error over steps, norm and error, landmarks by rate, and normalised rows."""
    figure, axes = panels(4, columns=2, size=(4.6, 3.5))
    for number, rate in enumerate(data["rate"].values):
        one, color = data.sel(rate=rate), f"C{number}"
        _trajectories.draw_mean(axes[0], one, color, f"η = {rate:g} η*")
        _trajectories.draw_plane(axes[1], one, color, {"finite": "--"})
        epsilon, alpha = _trajectories.lowest(one)
        axes[1].plot(alpha, epsilon, "o", color=color, ms=3)
        a = np.linspace(0.02, 0.999 * 2 / float(one["c_o"]), 300)
        line = wide.nullcline(a, float(one["c_o"]), L_X, NOISE)
        axes[1].plot(a * L_H**wide.KAPPA, line, color=color, ls=":", lw=1.2)
    first, last = float(data["epsilon"].isel(time=0).mean()), float(data["time"].max())
    errors = 0.5 * float(data["epsilon"].min()), 10 * first
    dotted = {"nullcline, Eq. 85": {"ls": ":"}, "lowest error": {"marker": "o", "ms": 3}}
    _trajectories.finish(axes, "steps", errors, (1.5, 14), dotted, "lower left")
    axes[0].set(xscale="log", xlim=(10, 1.1 * last))
    _trajectories.draw_landmarks(axes[2], data)
    _draw_rows(axes[3], data)
    _trajectories.lettered(axes)
    return figure


def _draw_rows(axis: Axes, data: xr.Dataset) -> None:
    for number, width in enumerate(data["hidden"].values):
        one, color = data.sel(hidden=width), f"C{number}"
        times = one["later"] / 1000
        axis.plot(times, one["normalised"].mean("network"), color=color, label=f"$L_h$ = {width}")
        axis.plot(times, one["alone"].fillna(np.inf).median("network"), color=color, ls=":")
    first = float(data["alone"].isel(later=0).mean())
    axis.set(xlabel="thousands of steps", ylabel="error ε", yscale="log", ylim=(None, 10 * first))
    legend(axis, {"rows normalised": {}, "not normalised, median": {"ls": ":"}}, fontsize=7)


def check(data: xr.Dataset) -> list[Claim]:
    """Each rate against the recursions and the nullcline, each width with normalised rows."""
    rates = [row for rate in data["rate"].values for row in _rate(data.sel(rate=rate))]
    widths = [row for width in data["hidden"].values for row in _width(data.sel(hidden=width))]
    return [*rates, *widths]


def _rate(one: xr.Dataset) -> list[Claim]:
    back, theory = when(one, "epsilon")["back"], when(one.drop_dims("seed"), "theory_epsilon")
    fields = {"rate": float(one["rate"]), "end": float(one["time"][-1])}
    curve, soon = one["theory_epsilon"].sel(theory="finite"), SOONER * theory["back"][1]
    rows = []
    if soon < fields["end"]:
        rows = [CLAIMS["back"].format(**fields).at_least(np.mean(back < soon), 1.0)]
        rows += [_return(one, back, theory["back"])]
    elif float(curve[-1] / curve[0]) < FAR:
        rows = [CLAIMS["not back"].format(**fields).at_least(np.mean(np.isnan(back)), 1.0)]
    return [*rows, *_lowest_errors(one)]


def _return(one: xr.Dataset, back: np.ndarray, theory: np.ndarray) -> Claim:
    logs = xr.DataArray(np.log(back), dims="seed").dropna("seed")
    _, finite, larger = np.log(theory)
    step = Tolerance(float(np.log(one["time"][-1] / one["time"][-2])), "a step of the times")
    within = Tolerance(abs(larger - finite), "") + mean_tolerance(logs, "seeds") + step
    fields = {"rate": float(one["rate"]), "count": logs.size, "left": back.size - logs.size}
    return CLAIMS["return"].format(**fields).equals(logs.mean(), finite, within)


def _lowest_errors(one: xr.Dataset) -> list[Claim]:
    epsilon, alpha = _trajectories.lowest(one)
    logs = xr.DataArray(np.log(epsilon / one["epsilon"].isel(time=0).values), dims="seed")
    theory, rate = one["theory_epsilon"], float(one["rate"])
    full, finite, larger = np.log((theory.min("time") / theory.isel(time=0)).values)
    within = Tolerance(abs(larger - finite), SIGNAL) + mean_tolerance(logs, "seeds")
    moments = Tolerance(abs(finite - full), _model.MOMENTS)
    return [
        CLAIMS["lowest"].format(rate=rate).equals(logs.mean(), full, moments + within),
        CLAIMS["lowest, finite"].format(rate=rate).equals(logs.mean(), finite, within),
        *([_on_nullcline(rate, float(one["c_o"]), epsilon, alpha)] if rate < 1 else []),
    ]


def _on_nullcline(rate: float, c_o: float, epsilon: np.ndarray, alpha: np.ndarray) -> Claim:
    """Where the error is lowest, it lies on the nullcline."""
    a = alpha * L_H**-wide.KAPPA
    ratio = xr.DataArray(epsilon / wide.nullcline(a, c_o, L_X, NOISE), dims="seed")
    within = _dropped(L_H, c_o, a) + mean_tolerance(ratio, "seeds")
    return CLAIMS["nullcline"].format(rate=rate).equals(ratio.mean(), 1.0, within)


def _dropped(L_h: int, c_o: float, a: np.ndarray) -> Tolerance:
    """What Eq. 85 leaves out, with coefficients of one."""
    beta = float(_model.mean_start(L_h=L_h).beta)
    dropped = L_h**-wide.KAPPA + 2 / L_X + 2 / (L_Y * (1 + beta))
    because = f"L_h^(−1/3) and 2 against sizes, {dropped:.2g}, times 2/(2 − c_o a)"
    return Tolerance(dropped * float(np.mean(2 / (2 - c_o * a))), because)


def _width(one: xr.Dataset) -> list[Claim]:
    """Normalised rows at one width, and the level of their error where it has one."""
    L_h, norms, end = int(one["hidden"]), one["norm"], float(one["later"][-1])
    sentence = lambda key: CLAIMS[key].format(L_h=L_h)
    below = one["normalised"].isel(later=-1) < one["alone"].min("later")
    drift = abs(norms / norms.isel(later=0) - 1).max()
    rows = [
        sentence("below").at_least(below.mean(), 1.0),
        sentence("norm").at_most(drift, end * float(np.finfo(np.float32).eps)),
    ]
    if end < SETTLED:
        return rows
    a = norms.isel(later=-1).values / L_X * float(L_h) ** -wide.KAPPA
    last = one["normalised"].isel(later=slice(-(one.sizes["later"] // 4), None)).mean("later")
    c_o = float(one["rows_c_o"])
    ratio = intervals.of_mean(last / wide.nullcline(a, c_o, L_X, NOISE), "networks")
    return [*rows, sentence("level").equals(ratio, 1.0, _dropped(L_h, c_o, a))]
