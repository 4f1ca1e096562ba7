"""Fig. 4.5: one example of a hundred has a small critical rate, and only its steps spike.

Inputs on the unit sphere and targets 1; one example is doubled, input and target, which makes its
critical rate four times smaller. A two-layer relu network with fixed second layer is trained by SGD
with batch size one, at 1.6 times that example's η_crit, and as a control at half of it. The loss is
the mean of r². A step that raises the loss of all examples by a tenth is a spike. Small increases
do not count: about a third of all steps raise the loss by a little, since examples disturb each
other, and nearly all of these have η < η_crit(x). The quick preset is smaller.

Notes: docs/results/zhu2024catapults/fig4_5/notes.md.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.registry import Report, cases
from learndyn.studies.zhu2024catapults._drawing import critical_rates
from learndyn.studies.zhu2024catapults._training import large_increases, watched

TITLE = "Spikes come from the one example whose critical rate is exceeded"
RATES = {"above": 1.6, "control": 0.5}  # over the initial η_crit of the doubled example
CLAIMS = {
    "spikes": claim("all spikes have η > η_crit(x) (of {events}; base rate {base:.2g}), share",
                    "Fig. 4.5", because="“only occurs when” allows no exception"),
    "steps": claim("all steps with η > η_crit(x) raise the loss (of all steps {share:.2g} do), "
                   "share", "Fig. 4.5", because="an exact match allows no exception"),
    "control": claim("at half of η_crit of that example no step raises the loss by a tenth",
                     "Fig. 4.5", because="no spike is allowed"),
    "end": claim("catapults end: steps with η > η_crit(x) in the last half", "Fig. 4.5",
                 kind="finding", because="each catapult lowers the kernel of its example"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Examples and inputs, width, steps."""

    n: int = 60
    m: int = 300
    steps: int = 800
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(n=100, m=1024, steps=2000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Loss, and η_crit of each step's example, step by step, at both rates."""
    x = np.random.default_rng([params.key, 3]).standard_normal((params.n, params.n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[0], y = 2 * x[0], np.r_[2.0, np.ones(params.n - 1)]
    rng = np.random.default_rng([params.key, 4])
    network = _network(params, rng.choice([-1.0, 1.0], params.m))
    weights = rng.standard_normal((params.m, params.n))
    unit = 1 / float(ld.probes.ntk(ld.Model(network, weights), x[:1])[0, 0])
    problem, rows = ld.Dataset(x, y, loss_scale=1.0), []
    for share in cases(list(RATES.values()), report):
        rule = ld.SGD(share * unit)
        rows.append(watched(problem, network, weights, rule, params.steps, key=params.key))
    name = f"drawn, n = d = {params.n}, width {params.m}"
    return xr.concat(rows, xr.Variable("case", list(RATES))).assign_attrs(data=name)


def _network(params: Params, signs: np.ndarray) -> ld.Network:
    scale = signs / np.sqrt(params.m)

    def apply(weights, x):
        return jax.nn.relu(x @ weights.T) @ jnp.asarray(scale, x.dtype)

    return ld.Network(lambda key: jax.random.normal(key, (params.m, params.n)), apply)


def draw(data: xr.Dataset) -> Figure:
    """Losses with the steps above the critical rate, and critical rates; a row for each rate."""
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


def check(data: xr.Dataset) -> list[Claim]:
    """Spikes where η > η_crit, only there, and none below."""
    above, control = data.sel(case="above"), data.sel(case="control")
    spikes, every = large_increases(above), ld.analysis.find_catapults(above)
    increases = every.increase_match
    assert increases is not None and every.steps_above is not None
    raised = increases.rate * increases.events / max(every.steps_above, 1)
    half = above.isel(time=slice(above.sizes["time"] // 2, None))
    late = int((half["rate"] > half["critical_rate"]).sum())
    share = increases.events / (above.sizes["time"] - 1)
    return [
        CLAIMS["spikes"].format(events=spikes.events, base=spikes.base).at_least(spikes.rate, 1),
        CLAIMS["steps"].format(share=share).at_least(raised, 1),
        CLAIMS["control"].at_most(large_increases(control).events, 0),
        CLAIMS["end"].at_most(late, 0),
    ]
