"""What the supplement says of the noise of updates: Eqs. 36a, 39, 97-100 and Appendix C.1.

Eqs. 36a and 39 are evaluated for a small network of tanh units on a few examples, and compared with
updates that node perturbation draws there: their variance along random directions, and how they
change the loss. Changes by a step and by its negative tell the first order in the learning rate
from the second.

Eqs. 99 and 100 bound what products of traces leave out of tr[W_2 W_2ᵀ E Eᵀ] and tr[W_1ᵀ W_1 Eᵀ E]
at random weights. With variances 1/L_h, as at Xavier's initialisation, both are of order
L_h^(−1/2). With σ_(1)² = L_h^(−2/3) and σ_(2)² = 1/L_h, the limit of what the text after Eq. 100
calls sufficient, the bounds are L_h^(−1/3) and 1.

Appendix C.1 says of Fig. S3D that the principal eigenvalue contributes more to the covariance of
the hidden activity under node perturbation than under SGD. Here both rules train one hidden layer
of relu units at one rate, on the data of Fig. 4 in the preset `paper`, on the noisy answers of a
random network in the quick one. The supplement has no figure of all this, and states no sizes.

Notes: docs/results/hiratani2022perturbation/approximations/notes.md.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.numerics import dense
from learndyn.numerics.random import Source, key_of_run
from learndyn.plotting import legend, panels
from learndyn.runtime.precision import to_numpy
from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Tolerance, claim, with_rates
from learndyn.studies.hiratani2022perturbation import _curves
from learndyn.studies.hiratani2022perturbation._intervals import surely_above
from learndyn.studies.hiratani2022perturbation._tasks import motor, network
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL, exponents, student_bound, student_tolerance
from learndyn.tangent import forward

TITLE = "Covariance of updates, their effect on the loss, products of traces, principal eigenvalue"
DIFFERS = (
    "the supplement has no such figure and states no sizes; without SARCOS's training file, a "
    "split of its test file"
)
WIDTHS, EXAMPLES = (3, 5, 2), 6  # of the network of Eqs. 36a and 39
RATE = 1e-4  # of Eq. 39: what the next order leaves is of relative order RATE²
L_X, L_Y = 20, 10  # of Eqs. 97-100
GROUPS = 20  # of draws, each of which gives an exponent
FINITE = 0.03  # what weights of finite L_h, whose W_2 W_1 is not small, add to an exponent
# σ_(1)² and σ_(2)² as powers of L_h, and the exponents of the bounds of Eqs. 99 and 100.
VARIANCES = {"Xavier": (-1.0, -1.0), "sufficient": (-2 / 3, -1.0)}
BOUNDS = {"Xavier": (-1 / 2, -1 / 2), "sufficient": (-1 / 3, 0.0)}
TRACES = {"99": "tr[W₂W₂ᵀEEᵀ]", "100": "tr[W₁ᵀW₁EᵀE]"}
BATCH = 256  # steps held in memory at once
CLAIMS = {
    "36": claim("variances of updates along random directions are those of Eq. 36a: largest "
                "deviation, in standard errors", "Eq. 36a", rate=1 - LEVEL,
                because="0; the bound is Student's, of all directions together"),
    "39": claim("change of the loss, {order} order in the rate, over that of Eq. 39", "Eq. 39"),
    "Xavier": claim("variances 1/L_h: what the product of traces leaves out of {trace} goes with "
                    "L_h to the power", "Eq. {equation}",
                    within=Tolerance(FINITE, "(L_x + L_y)/L_h at the smallest L_h")),
    "sufficient": claim("σ₁² = L_h^(−2/3), σ₂² = 1/L_h: what the product of traces leaves out of "
                        "{trace} grows with L_h at most to the power", "Eq. {equation}"),
    # On the random network's answers the shares are not told apart; the quick preset promises less.
    "principal": claim("the principal eigenvalue contributes more to the covariance of the hidden "
                       "activity under node perturbation than under SGD: logarithm of the ratio "
                       "of its shares at the end, mean over seeds", "Appendix C.1",
                       because="an order", rate=0.05),
}  # fmt: skip
# Changes of second order are skewed, which Student's bound leaves out: measured at twenty keys.
WEAK = {CLAIMS["39"].statement.format(order="second"): 0.9}


@dataclasses.dataclass(frozen=True)
class Params:
    """Steps drawn, directions; L_h and draws of traces; the task of C.1.

    `data`, `rows`, `width`, `batch`, `rate`, `steps` and `seeds` are of the networks of C.1.
    """

    trials: int = 40_000
    directions: int = 20
    L_h: tuple[int, ...] = (400, 1600, 6400)
    draws: int = 400
    data: str = "teacher"
    rows: int = 1000
    width: int = 50
    batch: int = 10
    rate: float = 0.001
    steps: int = 4000
    seeds: int = 20
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        trials=100_000,
        L_h=(400, 1600, 6400, 25_600),
        data="sarcos",
        rows=0,
        width=200,
        batch=20,
        rate=1e-5,
        steps=5000,
        seeds=6,
    ),
}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Ratios to Eqs. 36a and 39; what products of traces leave out; shares of an eigenvalue."""
    parts = (_updates, _products, _principal)
    return xr.merge([part(params) for part in cases(parts, report)])


def _updates(params: Params) -> xr.Dataset:
    """Of drawn steps: squares along directions, and changes of the loss, over the equations'."""
    rng = np.random.default_rng([params.key, 36])
    x, y = (rng.standard_normal((EXAMPLES, n)) for n in (WIDTHS[0], WIDTHS[-1]))
    net, problem = ld.MLP(WIDTHS, "tanh", bias=True), ld.Dataset(x, y, loss_scale=0.5)
    model = ld.Model(net, net.sample(rng, (WIDTHS[0],)))
    C = ld.probes.update_covariance(model, x, y).perturbation
    along = rng.standard_normal((params.directions, len(C)))
    moved, changes = _drawn(
        params, ld.System(problem, net, ld.NodePerturbation(RATE)), model, along
    )
    variance = np.einsum("di,ij,dj->d", along, C, along)
    squares = (moved - moved.mean(axis=0)) ** 2 / variance * params.trials / (params.trials - 1)
    once, twice = (
        float(ld.probes.loss_change(model, x, y, learning_rate=rate).perturbation)
        for rate in (RATE, 2 * RATE)
    )
    second = (twice - 2 * once) / 2
    ratios = changes / np.array([once - second, second])
    error = lambda values: values.std(axis=0, ddof=1) / np.sqrt(params.trials)
    return xr.Dataset(
        {
            "variance": ("direction", squares.mean(axis=0)),
            "variance_error": ("direction", error(squares)),
            "change": ("order", ratios.mean(axis=0)),
            "change_error": ("order", error(ratios)),
            "trials": params.trials,
        },
        {"order": ["first", "second"]},
    )


def _drawn(
    params: Params, system: ld.System, model: ld.Model, along: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Steps over −η along the directions; odd and even parts of their changes of the loss."""

    @jax.jit
    def drawn(weights: Any, along: Any, run_key: Any) -> Any:
        rule = system.rule.bind(system.problem, system.network, None, jnp.float64)
        memory, (flat, unravel) = rule.init(weights), ravel_pytree(weights)
        data: Any = system.problem
        y = jnp.asarray(data.y)
        loss = lambda v: jnp.mean(jnp.sum((system.network(unravel(v), data.x) - y) ** 2, 1)) / 2
        begin = loss(flat)

        def one(i: Any) -> Any:
            new = rule.step(weights, memory, Source(run_key, i))[0]
            step = ravel_pytree(new)[0] - flat
            ahead, back = loss(flat + step) - begin, loss(flat - step) - begin
            return -along @ step / RATE, jnp.stack([ahead - back, ahead + back]) / 2

        return jax.lax.map(one, jnp.arange(params.trials), batch_size=BATCH)

    with jax.enable_x64(True):
        inputs = jax.tree.map(jnp.asarray, (model.weights, along))
        return to_numpy(drawn(*inputs, key_of_run(params.key, 0)))


def _products(params: Params) -> xr.Dataset:
    """Root mean squares of what products of traces leave out, by variances, equation and L_h."""
    rng = np.random.default_rng([params.key, 97])
    powers = list(VARIANCES.values())
    left = [[_left_out(rng, L_h, *power, params.draws) for L_h in params.L_h] for power in powers]
    values = np.sqrt(np.mean(np.square(left).reshape(*np.shape(left)[:3], GROUPS, -1), axis=-1))
    coords = {"scaling": list(VARIANCES), "equation": list(TRACES), "L_h": list(params.L_h)}
    return xr.Dataset({"left_out": (("scaling", "L_h", "equation", "group"), values)}, coords)


def _left_out(
    rng: np.random.Generator, L_h: int, first: float, second: float, draws: int
) -> np.ndarray:
    """tr[M Eᵀ…] less the product of traces: Eqs. 99 and 100, by draws of weights and teachers."""
    rows: list[list[float]] = []
    for _ in range(draws):
        W_1 = L_h ** (first / 2) * rng.standard_normal((L_h, L_X))
        W_2 = L_h ** (second / 2) * rng.standard_normal((L_Y, L_h))
        E = W_2 @ W_1 - rng.standard_normal((L_Y, L_X)) * np.sqrt(2 / (L_X + L_Y))
        pairs = (W_2 @ W_2.T, E @ E.T), (W_1.T @ W_1, E.T @ E)
        rows.append([float(np.sum(M * S) - M.trace() * S.trace() / len(M)) for M, S in pairs])
    return np.transpose(rows)


def _principal(params: Params) -> xr.Dataset:
    """The share of the principal eigenvalue at the start and at the end, by rule and seed."""
    task = motor(params.data, params.rows)
    x = task.problem.x

    def principal(model: ld.Model) -> Any:
        active = jax.nn.relu(forward(model.network, model.weights, x)[1]["layer1"])
        centred = active - jnp.mean(active, axis=0)
        return dense.spectral_norm(centred) ** 2 / jnp.sum(centred**2)

    steps, probes = np.array([0, params.steps]), {"principal": principal}
    options = {"key": params.key, "seeds": params.seeds, "probes": probes}
    rules = {"np": _curves.perturbed(params.batch), "sgd": _curves.gradient(params.batch)}
    one = lambda rule: _curves.trained(task, network(task, [params.width]), rule, steps, **options)
    rows = [one(rule(params.rate)) for rule in rules.values()]
    curves = xr.concat(rows, xr.Variable("rule", list(rules)))
    return curves[["principal", "test"]].assign_attrs(data=task.name)


def draw(data: xr.Dataset) -> Figure:
    """Ratios to Eqs. 36a and 39; what products leave out; shares of the principal eigenvalue."""
    figure, (left, middle, right) = panels(3, columns=3, size=(3.6, 3.0))
    above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
    bound = student_bound(float(data["trials"]), data.sizes["direction"])
    at = np.arange(data.sizes["direction"])
    left.errorbar(at, data["variance"], bound * data["variance_error"], fmt="o", ms=3, label="36a")
    bound = student_bound(float(data["trials"]))
    look = {"fmt": "s", "ms": 4, "label": "39, both orders"}
    left.errorbar(len(at) + np.arange(2), data["change"], bound * data["change_error"], **look)
    left.axhline(1, color="0.6", lw=0.8)
    left.set(xlabel="direction; order", ylabel="measured over the equation's")
    legend(left, **above)
    for number, scaling in enumerate(data["scaling"].values):
        for equation, style in zip(data["equation"].values, ("o-", "s--"), strict=True):
            values = data["left_out"].sel(scaling=scaling, equation=equation).mean("group")
            label = f"{equation}, {scaling}"
            middle.plot(data["L_h"], values, style, color=f"C{number}", ms=4, label=label)
    _curves.few_ticks(middle, data["L_h"].values)
    middle.set(yscale="log", xlabel="$L_h$", ylabel="left out by the product of traces")
    legend(middle, **above)
    for number, (rule, name) in enumerate((("np", "node perturbation"), ("sgd", "SGD"))):
        values = data["principal"].sel(rule=rule).transpose("step", "seed").values
        right.plot([0, 1], values, "o-", color=f"C{number}", lw=0.6, ms=3, alpha=0.6)
        right.plot([], [], "o-", color=f"C{number}", label=name)
    right.set_xticks([0, 1], ["start", f"step {float(data['step'][-1]):g}"])
    right.set(ylabel="share of the principal eigenvalue", xlim=(-0.3, 1.3))
    legend(right, **above)
    return figure


@with_rates
def check(data: xr.Dataset) -> list[Claim]:
    """Eqs. 36a and 39 within the error of the draws; exponents; the eigenvalue's share."""
    count = int(data["trials"])
    off = (abs(data["variance"] - 1) / data["variance_error"]).max()
    share = data["principal"].isel(step=-1)
    ratio = xr.ufuncs.log(share.sel(rule="np") / share.sel(rule="sgd"))
    return [
        CLAIMS["36"].at_most(off, student_bound(count, data.sizes["direction"])),
        *(_change(data.sel(order=order), count) for order in data["order"].values),
        *_exponents(data),
        surely_above(CLAIMS["principal"], ratio, 0.0),
    ]


def _change(one: xr.Dataset, count: int) -> Claim:
    within = student_tolerance(one["change_error"], count, "steps")
    sentence = CLAIMS["39"].format(order=one["order"].item())
    return sentence.equals(one["change"], 1.0, within)


def _exponents(data: xr.Dataset) -> list[Claim]:
    found = exponents(data["left_out"], "L_h")
    rows = []
    for scaling, bounds in BOUNDS.items():
        for (equation, trace), bound in zip(TRACES.items(), bounds, strict=True):
            one = found.sel(scaling=scaling, equation=equation)
            sentence = CLAIMS[scaling].format(trace=trace, equation=equation)
            if scaling == "Xavier":
                error = one.std(ddof=1) / np.sqrt(one.size)
                within = student_tolerance(error, one.size, "groups of draws")
                rows.append(sentence.equals(one.mean(), bound, within))
            else:
                rows.append(sentence.at_most(intervals.of_mean(one, "groups of draws"), bound))
    return rows
