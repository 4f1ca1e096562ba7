"""Our own: how much of the gap between node perturbation and SGD do other optimisers close?

One task, one network, one number of forward passes. A step of SGD has one forward pass of its
batch (its backward pass is not counted), a step of node perturbation 1 + P, of which P are noisy:
with the same number of passes SGD takes 1 + P times as many steps. Every rule has its own ladder of
rates, and uses the one with the least test error at the end over seeds that are used for nothing
else. The gap is the difference of the logarithms of the test errors of node perturbation and SGD at
the end, per seed; a rule closes the fraction of it by which its error is nearer to SGD's. Adam and
momentum have their usual constants.

The paper preset has MNIST, the quick preset scikit-learn's digits.

Notes: docs/results/hiratani2022perturbation/closing_the_gap/notes.md.
"""

import dataclasses

import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation import _curves
from learndyn.studies.hiratani2022perturbation._intervals import surely_above, surely_below
from learndyn.studies.hiratani2022perturbation._tasks import SIGMA, images, network
from learndyn.studies.registry import Report

TITLE = "Adam, momentum and several perturbations against SGD at equal forward passes"
DIFFERS = "ours: the paper has no such figure"
PLAIN, BEST = "node perturbation", "SGD"
CLAIMS = {
    "gap": claim("at equal forward passes node perturbation ends behind SGD: logarithm of the "
                      "ratio of the errors", "our own", kind="finding"),
    "not closed": claim("{rule} does not close the gap: fraction that is closed", "our own",
                             kind="finding"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Settings: the task, one `…rates` ladder per rule, and numbers of perturbations.

    `data` is "mnist", "fashion" or "digits", of which `rows` are used for training at most (0 for
    all). Every rule has so many forward `passes`. `rates` of node perturbation are multiplied by
    P^¾ for P perturbations, of which `several` are tried beside 1. Rates are chosen on `tuning`
    seeds from key + 500 on, and measured on `seeds` from `key` on.
    """

    data: str = "digits"
    rows: int = 800
    batch: int = 20
    width: int = 30
    passes: int = 1500
    points: int = 20
    several: tuple[int, ...] = (4, 16)
    rates: tuple[float, ...] = (0.05, 0.1, 0.2)
    momentum_rates: tuple[float, ...] = (0.005, 0.01, 0.02)
    adam_rates: tuple[float, ...] = (0.001, 0.003, 0.01)
    sgd_rates: tuple[float, ...] = (1.0, 2.0, 4.0)
    momentum: float = 0.9
    tuning: int = 3
    seeds: int = 6
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        data="mnist", rows=0, batch=1000, width=800, passes=20_000, points=40, seeds=5, tuning=2,
        rates=(0.032, 0.056, 0.1), momentum_rates=(0.0032, 0.0056, 0.01),
        adam_rates=(1e-4, 3.2e-4, 1e-3), sgd_rates=(1.0, 3.2, 10.0),
    ),
}  # fmt: skip


def _rules(params: Params) -> dict[str, tuple[int, tuple[float, ...], _curves.Rule]]:
    """Name → perturbations (0 for SGD), rates, rule of a rate."""
    noise = ld.NodePerturbation(1.0, sigma=SIGMA, batch=params.batch)
    by = lambda made: lambda rate: ld.Optax(made(rate), estimator=noise, sampling="epochs")
    momentum = by(lambda rate: optax.sgd(rate, momentum=params.momentum))
    rules = {
        BEST: (0, params.sgd_rates, _curves.gradient(params.batch)),
        PLAIN: (1, params.rates, _curves.perturbed(params.batch)),
        "momentum": (1, params.momentum_rates, momentum),
        "Adam": (1, params.adam_rates, by(optax.adam)),
    }
    for many in params.several:
        rates = tuple(rate * many**0.75 for rate in params.rates)
        rule = _curves.perturbed(params.batch, perturbations=many)
        rules[f"{many} perturbations"] = (many, rates, rule)
    return rules


def compute(params: Params, report: Report) -> xr.Dataset:
    """Every rule at its best rate: `test` and `accuracy` (rule, seed, step of the grid)."""
    task, rules = images(params.data, params.rows), _rules(params)
    net = network(task, [params.width], "softmax")
    done = _curves.Counted(sum(len(rates) + 1 for _, rates, _ in rules.values()), report)
    rows, chosen, steps = [], [], []
    for many, rates, rule in rules.values():
        # Steps with equal numbers of forward passes for all rules.
        grid = np.rint(np.linspace(0, params.passes, params.points) / (1 + many))
        tuning = {"key": params.key + 500, "seeds": params.tuning, "done": done}
        tried = {rate: rule(rate) for rate in rates}
        ends = _curves.under(tried, "rate", task, net, grid[-1:], **tuning)["test"]
        chosen.append(float(rates[int(np.argmin(ends.mean(["seed", "step"]).values))]))
        best = rule(chosen[-1])
        curve = _curves.trained(task, net, best, grid, key=params.key, seeds=params.seeds)
        rows.append(curve[["test", "accuracy"]].assign_coords(step=np.arange(len(grid))))
        steps.append(grid)
        done()
    data = xr.concat(rows, xr.Variable("rule", list(rules))).rename(step="point")
    more = {"rate": ("rule", chosen), "steps": (("rule", "point"), np.stack(steps))}
    more["perturbations"] = ("rule", [many for many, _, _ in rules.values()])
    return data.assign(more).assign_attrs(data=task.name, passes=params.passes)


def draw(data: xr.Dataset) -> Figure:
    """Errors against forward passes, and the table."""
    figure, axes = panels(2, size=(5.4, 3.8))
    passes = np.linspace(0, data.attrs["passes"], data.sizes["point"])
    curves, looks = data["test"].assign_coords(point=passes), {"xscale": "linear"}
    _curves.draw_family(axes[0], curves, "rule", "{}", xlabel="forward passes of a batch", **looks)
    share, rules = _shares(data), data["rule"].values
    mean, error = share.mean("seed"), share.std("seed", ddof=1) / np.sqrt(share.sizes["seed"])
    axes[1].errorbar(mean, range(len(rules)), xerr=error, fmt="ko", capsize=3)
    axes[1].set_yticks(range(len(rules)), rules)
    for row, rule in enumerate(rules):
        last = data.sel(rule=rule).isel(point=-1)
        test, accuracy = (float(last[name].mean()) for name in ("test", "accuracy"))
        text = f"η = {float(last['rate']):.3g}, {int(last['steps'])} steps, error {test:.3g}, "
        place = {"xycoords": ("axes fraction", "data"), "fontsize": 7}
        axes[1].annotate(f"{text}accuracy {accuracy:.3f}", (0.22, row - 0.22), **place)
    for bound in (0.0, 1.0):
        axes[1].axvline(bound, color="0.6", ls=":")
    axes[1].set(xlabel="fraction of the gap that is closed", ylim=(len(rules) - 0.3, -0.5))
    figure.suptitle(data.attrs["data"], fontsize=9)
    return figure


def _gaps(data: xr.Dataset) -> xr.DataArray:
    """log of the error at the end over that of SGD, (rule, seed)."""
    end = xr.ufuncs.log(data["test"].isel(point=-1))
    return end - end.sel(rule=BEST, drop=True)


def _shares(data: xr.Dataset) -> xr.DataArray:
    """The fraction of the mean gap that each rule closes, (rule, seed); SGD has 1."""
    gap = _gaps(data)
    return 1 - gap / gap.sel(rule=PLAIN).mean()


def check(data: xr.Dataset) -> list[Claim]:
    """There is a gap, and no rule closes all of it."""
    share, behind = _shares(data), _gaps(data).sel(rule=PLAIN)
    others = [rule for rule in data["rule"].values if rule not in (BEST, PLAIN)]
    return [
        surely_above(CLAIMS["gap"], behind, 0.0),
        *(surely_below(CLAIMS["not closed"], share.sel(rule=r), 1.0, rule=r) for r in others),
    ]
