"""Misprints of the supplement: printed, corrected and measured values.

Averages of Eqs. 62 and 73b are taken over real steps of a network with M = β I, N = α I and
P = c √(αβ) O, O orthogonal, whose teacher is zero. Traces of products are products of traces there,
so of what Eq. 62 leaves out only the 2 that fourth moments add to sizes remains. The last bracket
of Eq. 62 is measured alone, as the mean of 2 tr[(W_1ᵀ δW_1)²] / L_x for which it stands: in the
whole of δα₂ it is one part in L_h + L_x. Both presets measure the same, the paper preset with more
draws; the paper has no such figure.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis import escape_time
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.numerics.random import Source, key_of_run
from learndyn.runtime.precision import to_numpy
from learndyn.runtime.types import Array, Weights
from learndyn.studies import printed
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation._model import L_H, L_X, L_Y, TARGET, linear_system
from learndyn.studies.hiratani2022perturbation._regression import error_curves
from learndyn.studies.printed import Row
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import LEVEL, student_bound
from learndyn.theory.perturbation import errata, node_perturbation, regression, wide
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces, traces_of

TITLE = "Misprints: printed, corrected and measured values of four equations"
DIFFERS = "the paper has no such figure"
RATE = 1e-3
ALPHA, BETA = 1.0, 2.0
SEPARATE = 0.1  # c of layers that see little of each other; it is 1 where they are aligned
BATCH = 256  # steps held in memory at once
POINTS = 200  # recorded steps of a learning curve
COSINE = "mean cosine between updates of W_1 by node perturbation and SGD"
ROWS = {
    "28, one layer": f"{COSINE}, 3-100",
    "28, hidden layer": f"{COSINE}, 2-{L_H}-{L_Y}",
    "62, norms": f"last bracket of δα₂, overlap c = {SEPARATE:g} of the layers",
    "62, projection": "last bracket of δα₂, overlap c = 1 of the layers",
    "73b": "part of δβ that is linear in η, mean of 2 tr[W_2ᵀ δW_2] / L_y",
    "104": f"steps to {TARGET:g} of the error at the best rate, {L_X}-{L_Y}",
}
BECAUSE = "Student's t, 1 %, and what the equation leaves out; {how}"
CLAIMS = {
    row: claim(f"Eq. {row}: {what}", f"Eq. {row.split(',')[0]}", because=BECAUSE, rate=1 - LEVEL)
    .erratum("{printed:.4g}, {ratio:.3g} of the measured value")
    for row, what in ROWS.items()
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Single steps averaged, draws of cosines, runs of the training time; sizes of the first."""

    size: int = 32
    trials: int = 40_000
    draws: int = 10_000
    seeds: int = 20
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(trials=400_000, draws=50_000, seeds=100)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """All rows, each with what its measurement may be off by."""
    parts = (
        lambda: [_cosine("28, one layer", [3, 100], params)],
        lambda: [_cosine("28, hidden layer", [2, L_H, L_Y], params)],  # any number of inputs
        lambda: _brackets_and_signal(params),
        lambda: [_training_time(params)],
    )
    return printed.table([row for part in cases(parts, report) for row in part()])


def _cosine(equation: str, widths: list[int], params: Params) -> Row:
    """The mean cosine of the first layer's updates on one example, σ → 0."""
    rng = np.random.default_rng(params.key)
    network = ld.DeepLinear(widths)
    model = ld.Model(network, network.sample(rng, tuple(widths[:1])))
    x, y = (rng.standard_normal((1, n)) for n in (widths[0], widths[-1]))
    cosine = ld.probes.measured_update_cosine(model, x, y, draws=params.draws, key=params.key)
    theory = ld.probes.update_cosine(model, x, y)
    nodes, right = widths[1], float(theory.mean[0])
    off = student_bound(params.draws) * float(cosine.error[0]) + right / nodes
    how = f"{params.draws} updates; order 1/{nodes}"
    values = float(cosine.mean[0]), off, right, float(theory.printed[0])
    return Row(equation, ROWS[equation], how, *values)


def _brackets_and_signal(params: Params) -> list[Row]:
    """The last bracket of Eq. 62, and the first term of Eq. 73b, which is exact.

    Of the bracket only its first part, the norms, matters where layers are separate.
    """
    (separate, _), of_separate, now_separate = _averaged(params, SEPARATE)
    (aligned, (mean, off)), of, now = _averaged(params, 1.0)
    ahead, back = (
        PerturbationSetting(of.L_x, of.L_h, of.L_y, eta, 0.0) for eta in (of.eta, -of.eta)
    )
    gained = [node_perturbation.advance(each, now).beta for each in (ahead, back)]
    right = float(gained[0] - gained[1]) / 2  # what is odd in η of Eq. 68b
    eta_o = of.eta * of.L_h**wide.RHO
    wrong = float(errata.printed_eq73b_signal(eta_o, of.L_h, of.L_x, now.phi))
    return [
        _bracket_row("62, norms", separate, of_separate, now_separate),
        _bracket_row("62, projection", aligned, of, now),
        Row("73b", ROWS["73b"], f"{params.trials} steps", mean, off, right, wrong),
    ]


def _bracket_row(
    equation: str, measured: tuple[float, float], of: PerturbationSetting, now: Traces
) -> Row:
    forms = node_perturbation.bracket_of_alpha2, errata.printed_eq62_bracket
    right, wrong = (float(form(of, now)) for form in forms)
    (mean, off), L = measured, int(of.L_x)
    values = mean, off + 2 / L * right, right, wrong
    return Row(equation, ROWS[equation], f"order 2/{L}", *values)


def _averaged(
    params: Params, c: float
) -> tuple[list[tuple[float, float]], PerturbationSetting, Traces]:
    """Means over single steps of 2 tr[(W_1ᵀ δW_1)²] / L_x and 2 tr[W_2ᵀ δW_2] / L_y.

    Args:
        params: sizes, trials, key.
        c: overlap of the layers.

    Returns:
        Each with its bound of chance, and the setting and the traces of the network.
    """
    system, start = _aligned(params, c)

    def measure(old: Weights, new: Weights) -> Array:
        inner = old[0].T @ (new[0] - old[0])
        both = jnp.sum(inner * inner.T), jnp.sum(old[1] * (new[1] - old[1]))
        return 2 / params.size * jnp.stack(both)

    @jax.jit
    def drawn(weights: Weights, teacher: Weights, run_key: Array) -> Array:
        rule = system.rule.bind(system.problem, system.network, teacher, jnp.float64)
        memory = rule.init(weights)
        one = lambda i: measure(weights, rule.step(weights, memory, Source(run_key, i))[0])
        return jax.lax.map(one, jnp.arange(params.trials), batch_size=BATCH)

    with jax.enable_x64(True):
        inputs = jax.tree.map(jnp.asarray, (start.weights, start.teacher))
        values = to_numpy(drawn(*inputs, key_of_run(params.key, 0)))
    errors = values.std(axis=0, ddof=1) / math.sqrt(params.trials)
    bounds = student_bound(params.trials) * errors
    means = [*zip(values.mean(axis=0).tolist(), bounds.tolist(), strict=True)]
    return means, PerturbationSetting.of(system), traces_of(start.state)


def _aligned(params: Params, c: float) -> tuple[ld.System, ld.Start]:
    """The network of the module's docstring."""
    L, rng = params.size, np.random.default_rng(params.key)
    system = linear_system(ld.NodePerturbation(RATE), L_x=L, L_h=2 * L, L_y=L)
    O, I = orthonormal_rows(rng.standard_normal((L, L))), np.eye(L)
    P = c * math.sqrt(ALPHA * BETA) * O
    state = ld.Gram(BETA * I, ALPHA * I, P, np.zeros((L, L)))
    return system, ld.start(system, key=params.key, state=state)


def _training_time(params: Params) -> Row:
    """Eq. 104 at its best rate; at 100-10 the exact one, whose K is not L_x L_y."""
    K = regression.noise(L_X, L_Y, "node perturbation")
    rate, right = regression.optimal_learning_rate(K), regression.minimal_time(K, TARGET)
    options = float(rate), 1.2 * float(right), POINTS, params.seeds, params.key
    times = escape_time(error_curves("node perturbation", *options), fraction=TARGET).values
    error = times.std(ddof=1) / math.sqrt(params.seeds)
    # The logarithm of an error falls faster than that of the mean error, by half its variance.
    off = student_bound(params.seeds) * error + times.var(ddof=1) * rate / 2
    wrong = float(errata.printed_eq104(L_X, L_Y, TARGET))
    return Row("104", ROWS["104"], f"{params.seeds} runs", times.mean(), off, right, wrong)


def draw(data: xr.Dataset) -> Figure:
    """Corrected and printed values over measured ones, with what these may be off by."""
    labels = [f"Eq. {row}" for row in data["row"].values]
    figure, axis, place = printed.rows_figure(data, labels, 0.4)
    measured, error = data["measured"], abs(data["error"] / data["measured"])
    axis.barh(place, 2 * error, left=1 - error, color="0.85", label="uncertainty")
    axis.axvline(1, color="0.6", linewidth=0.8)
    for name, marker, color in (("printed", "x", "C3"), ("corrected", "o", "C0")):
        look = {"color": color, "ms": 6, "mfc": "none", "mew": 1.5}
        axis.plot(data[name] / measured, place, marker, **look, label=name)
    axis.set(xlabel="value over the measured one", xlim=(-1.1, 1.6))
    printed.finish(axis, 3)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The corrected form holds within the measurement's uncertainty; the printed one misses."""
    return [_erratum(data.sel(row=row)) for row in data["row"].values]


def _erratum(one: xr.Dataset) -> Claim:
    wrong, measured = float(one["printed"]), float(one["measured"])
    fields = {"how": one["how"].item(), "printed": wrong, "ratio": wrong / measured}
    sentence = CLAIMS[one["row"].item()].format(**fields).erratum(value=wrong)
    return sentence.equals(measured, one["corrected"], float(one["error"]))
