"""Fig. 4.5: one example of a hundred has a small critical rate, and only its steps spike.

Inputs on the unit sphere and targets 1; one example is doubled, input and target, which makes its
critical rate four times smaller. A two-layer relu network with fixed second layer is trained by SGD
with batch size one, at 1.6 times that example's η_crit, and as a control at half of it. The loss is
the mean of r². A step that raises the loss of all examples by a tenth is a spike. Small increases
do not count: about a third of all steps raise the loss by a little, since examples disturb each
other, and nearly all of these have η < η_crit(x). Rows are about all runs of a key. The quick
preset is smaller.

Notes: docs/results/zhu2024catapults/fig4_5/notes.md.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies import intervals
from learndyn.studies.claims import PLANNED, Claim, claim, with_rates
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._drawing import critical_rates
from learndyn.studies.zhu2024catapults._training import large_increases, watched

TITLE = "Spikes come from the one example whose critical rate is exceeded"
DIFFERS = (
    "data are the thesis's; width, rate and steps are not stated, here 1024, 1.6 times η_crit "
    "of the doubled example (½ as a control) and 2000"
)
RATES = {"above": 1.6, "control": 0.5}  # over the initial η_crit of the doubled example
CLAIMS = {
    "spikes": claim("all spikes have η > η_crit(x) (of {events}; base rate {base:.2g}), share",
                    "Fig. 4.5", because="“only occurs when” allows no exception", rate=PLANNED),
    "steps": claim("all steps with η > η_crit(x) raise the loss (of all steps {share:.2g} do), "
                   "share", "Fig. 4.5", because="an exact match allows no exception", rate=PLANNED),
    "control": claim("at half of η_crit of that example no step raises the loss by a tenth",
                     "Fig. 4.5", because="no spike is allowed", rate=PLANNED),
    "end": claim("catapults end: share of runs without a step with η > η_crit(x) in the last half",
                 "Fig. 4.5", kind="finding", because="most runs"),
}  # fmt: skip
_FEW = "a few do not, of hundreds in twenty runs: other examples disturb the one that is doubled"
FAILS = {
    preset: {
        "all spikes have η > η_crit(x), share": _FEW,
        "all steps with η > η_crit(x) raise the loss, share": _FEW,
    }
    for preset in ("quick", "paper")
}
# Of 20 runs 16 have to end for their share to exceed a half: they did at 8 of 20 keys.
WEAK = {CLAIMS["end"].statement: 0.4}


@dataclasses.dataclass(frozen=True)
class Params:
    """Examples and inputs, width, steps, seeds."""

    n: int = 60
    m: int = 300
    steps: int = 800
    seeds: int = 20
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(n=100, m=1024, steps=2000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Loss, and η_crit of each step's example, step by step, at both rates, by seed."""
    seeds = range(params.key, params.key + params.seeds)
    name = f"drawn, n = d = {params.n}, width {params.m}"
    rows: list[xr.Dataset] = [_seed(params, seed) for seed in cases(seeds, report)]
    data: xr.Dataset = xr.concat(rows, "seed")
    return data.assign_attrs(data=name)


def _seed(params: Params, seed: int) -> xr.Dataset:
    x = np.random.default_rng([seed, 3]).standard_normal((params.n, params.n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[0], y = 2 * x[0], np.r_[2.0, np.ones(params.n - 1)]
    # All seeds share the second layer, which is not trained: programs are compiled once.
    signs = np.random.default_rng([params.key, 4]).choice([-1.0, 1.0], params.m)
    network = _network(params, tuple(signs))
    weights = np.random.default_rng([seed, 4, 1]).standard_normal((params.m, params.n))
    unit = 1 / float(ld.probes.ntk(ld.Model(network, weights), x[:1])[0, 0])
    problem = ld.Dataset(x, y, loss_scale=1.0)
    rows: list[xr.Dataset] = []
    for share in RATES.values():
        rule = ld.SGD(share * unit)
        rows.append(watched(problem, network, weights, rule, params.steps, key=seed))
    return xr.concat(rows, xr.Variable("case", list(RATES)))


@functools.cache
def _network(params: Params, signs: tuple[float, ...]) -> ld.Network:
    scale = np.array(signs) / np.sqrt(params.m)

    def apply(weights, x):
        return jax.nn.relu(x @ weights.T) @ jnp.asarray(scale, x.dtype)

    return ld.Network(lambda key: jax.random.normal(key, (params.m, params.n)), apply)


def draw(data: xr.Dataset) -> Figure:
    """Losses of one seed with the steps above the critical rate, and critical rates, by rate."""
    data = data.isel(seed=0)
    figure, axes = panels(4, size=(4.6, 3.0))
    for row, (name, share) in enumerate(RATES.items()):
        one, (left, right) = data.sel(case=name), axes[2 * row : 2 * row + 2]
        above = np.flatnonzero(one["rate"] > one["critical_rate"])
        left.plot(one["time"], one["error"], color="C0", lw=1, label="loss")
        for t in above:
            left.axvline(t, color="C3", ls=":", lw=1)
        left.set(xlabel="steps", ylabel="mean of r²", yscale="log")
        left.set_title(f"η = {share:g} η_crit of the doubled example", fontsize=9)
        styles = {"step with η > η_crit(x)": {"color": "C3", "ls": ":"}} if above.size else {}
        legend(left, styles, fontsize=7)
        critical_rates(right, one, "η_crit(x)")
    figure.suptitle(f"SGD, batch size one; {data.attrs['data']}", fontsize=9)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Spikes where η > η_crit, only there, and none below; all runs together."""
    above, control = (_runs(data.sel(case=case)) for case in RATES)
    spikes = [large_increases(run) for run in above]
    events = sum(each.events for each in spikes)
    matched = sum(each.rate * each.events for each in spikes if each.events)
    every = [ld.analysis.find_catapults(run) for run in above]
    raises = [each.increase_match for each in every if each.increase_match is not None]
    raised = sum(each.rate * each.events for each in raises if each.events)
    steps_above = sum(each.steps_above or 0 for each in every)
    share = sum(each.events for each in raises) / (len(above) * (above[0].sizes["time"] - 1))
    base = np.mean([each.base for each in spikes])
    quiet = [large_increases(run).events for run in control]
    return [
        CLAIMS["spikes"].format(events=events, base=base).at_least(matched / max(events, 1), 1),
        CLAIMS["steps"].format(share=share).at_least(raised / max(steps_above, 1), 1),
        CLAIMS["control"].at_most(sum(quiet), 0),
        CLAIMS["end"].at_least(intervals.of_share([not _late(run) for run in above]), 0.5),
    ]


def _runs(data: xr.Dataset) -> list[xr.Dataset]:
    return [data.isel(seed=i) for i in range(data.sizes["seed"])]


def _late(run: xr.Dataset) -> bool:
    """Whether a step of the second half has η > η_crit(x)."""
    half = run.isel(time=slice(run.sizes["time"] // 2, None))
    return bool((half["rate"] > half["critical_rate"]).any())
