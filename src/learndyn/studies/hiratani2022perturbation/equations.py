"""Misprints of the supplement: printed, corrected and measured values.

Averages of Eqs. 62 and 73b are taken over real steps of a network with M = β I, N = α I and
P = c √(αβ) O, O orthogonal, whose teacher is zero. Traces of products are products of traces there,
so that of what Eq. 62 leaves out only the 2 that fourth moments add to sizes is left. The last
bracket of Eq. 62 is measured alone, as the mean of 2 tr[(W_1ᵀ δW_1)²] / L_x that it stands for: in
the whole of δα₂ it is one part in L_h + L_x.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.analysis import escape_time
from learndyn.networks.base import Weights
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.numerics.precision import to_numpy
from learndyn.numerics.random import Source, key_of_run
from learndyn.numerics.types import Array
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation._model import L_H, L_X, L_Y, TARGET, linear_system
from learndyn.studies.hiratani2022perturbation._regression import error_curves
from learndyn.studies.registry import Report, cases
from learndyn.studies.statistics import student_bound
from learndyn.theory.perturbation import errata, node_perturbation, regression, wide
from learndyn.theory.perturbation.setting import Setting
from learndyn.theory.perturbation.state import Traces, traces_of

TITLE = "Misprints: printed, corrected and measured values of four equations"
LEVEL = 0.01  # chance of a false alarm in each claim
RATE = 1e-3
ALPHA, BETA = 1.0, 2.0
SEPARATE = 0.1  # c of layers that see little of each other; it is 1 where they are aligned
BATCH = 256  # steps held in memory at once
POINTS = 200  # recorded steps of a learning curve


class Row(NamedTuple):
    """One equation: how its quantity was measured, and what the measurement may be off by."""

    equation: str
    what: str
    how: str
    measured: float
    error: float
    corrected: float
    printed: float


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
    parts = (_one_layer_cosine, _hidden_cosine, _bracket, _bracket_and_signal, _training_time)
    rows = [row for part in cases(parts, report) for row in part(params)]
    columns = {name: ("row", [getattr(row, name) for row in rows]) for name in Row._fields[1:]}
    numbers = {name: ("row", [*map(float, columns[name][1])]) for name in Row._fields[3:]}
    return xr.Dataset({**columns, **numbers}, {"row": [row.equation for row in rows]})


def _one_layer_cosine(params: Params) -> list[Row]:
    """Eq. 28 for a single layer of a hundred nodes."""
    return [_cosine("28, one layer", [3, 100], params)]


def _hidden_cosine(params: Params) -> list[Row]:
    """Eq. 28 for the hidden layer of the paper's width; the number of inputs does not enter."""
    return [_cosine("28, hidden layer", [2, L_H, L_Y], params)]


def _cosine(equation: str, widths: list[int], params: Params) -> Row:
    """The mean cosine of the first layer's updates on one example, σ → 0."""
    rng = np.random.default_rng(params.key)
    network = ld.DeepLinear(widths)
    model = ld.Model(network, network.sample(rng, tuple(widths[:1])))
    x, y = (rng.standard_normal((1, n)) for n in (widths[0], widths[-1]))
    found = ld.probes.measured_update_cosine(model, x, y, draws=params.draws, key=params.key)
    said = ld.probes.update_cosine(model, x, y)
    nodes, right = widths[1], float(said.mean[0])
    off = student_bound(params.draws, level=LEVEL) * float(found.error[0]) + right / nodes
    sizes = "-".join(map(str, widths))
    what = f"mean cosine between updates of W_1 by node perturbation and SGD, {sizes}"
    values = float(found.mean[0]), off, right, float(said.printed[0])
    return Row(equation, what, f"{params.draws} updates; order 1/{nodes}", *values)


def _bracket(params: Params) -> list[Row]:
    """The last bracket of Eq. 62, where its first part, the norms, is all that matters."""
    (bracket, _), of, now = _averaged(params, SEPARATE)
    return [_bracket_row("norms", SEPARATE, bracket, of, now)]


def _bracket_and_signal(params: Params) -> list[Row]:
    """The same where the projection matters, and the first term of Eq. 73b, which is exact."""
    (bracket, (mean, off)), of, now = _averaged(params, 1.0)
    ahead, back = (Setting(of.L_x, of.L_h, of.L_y, eta, 0.0) for eta in (of.eta, -of.eta))
    gained = [node_perturbation.advance(each, now).beta for each in (ahead, back)]
    right = float(gained[0] - gained[1]) / 2  # what is odd in η of Eq. 68b
    eta_o = of.eta * of.L_h**wide.RHO
    printed = float(errata.printed_eq73b_signal(eta_o, of.L_h, of.L_x, now.phi))
    what = "part of δβ that is linear in η, mean of 2 tr[W_2ᵀ δW_2] / L_y"
    signal = Row("73b", what, f"{params.trials} steps", mean, off, right, printed)
    return [_bracket_row("projection", 1.0, bracket, of, now), signal]


def _bracket_row(
    part: str, c: float, measured: tuple[float, float], of: Setting, now: Traces
) -> Row:
    forms = node_perturbation.bracket_of_alpha2, errata.printed_eq62_bracket
    right, printed = (float(form(of, now)) for form in forms)
    (mean, off), L = measured, int(of.L_x)
    what = f"last bracket of δα₂, overlap c = {c:g} of the layers"
    return Row(f"62, {part}", what, f"order 2/{L}", mean, off + 2 / L * right, right, printed)


def _averaged(params: Params, c: float) -> tuple[list[tuple[float, float]], Setting, Traces]:
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
        given = jax.tree.map(jnp.asarray, (start.weights, start.teacher))
        found = to_numpy(drawn(*given, key_of_run(params.key, 0)))
    errors = found.std(axis=0, ddof=1) / math.sqrt(params.trials)
    bounds = student_bound(params.trials, level=LEVEL) * errors
    values = [*zip(found.mean(axis=0).tolist(), bounds.tolist(), strict=True)]
    return values, Setting.of(system), traces_of(start.state)


def _aligned(params: Params, c: float) -> tuple[ld.System, ld.Start]:
    """The network of the module's docstring."""
    L, rng = params.size, np.random.default_rng(params.key)
    system = linear_system(ld.NodePerturbation(RATE), L_x=L, L_h=2 * L, L_y=L)
    O, I = orthonormal_rows(rng.standard_normal((L, L))), np.eye(L)
    P = c * math.sqrt(ALPHA * BETA) * O
    state = ld.Gram(BETA * I, ALPHA * I, P, np.zeros((L, L)))
    return system, ld.start(system, key=params.key, state=state)


def _training_time(params: Params) -> list[Row]:
    """Eq. 104 at its best rate; at 100-10 the exact one, whose K is not L_x L_y."""
    K = regression.noise(L_X, L_Y, "node perturbation")
    rate, right = regression.optimal_learning_rate(K), regression.minimal_time(K, TARGET)
    given = float(rate), 1.2 * float(right), POINTS, params.seeds, params.key
    times = escape_time(error_curves("node perturbation", *given), fraction=TARGET).values
    error = times.std(ddof=1) / math.sqrt(params.seeds)
    # The logarithm of an error falls faster than that of the mean error, by half its variance.
    off = student_bound(params.seeds, level=LEVEL) * error + times.var(ddof=1) * rate / 2
    printed = float(errata.printed_eq104(L_X, L_Y, TARGET))
    what = f"steps to {TARGET:g} of the error at the best rate, {L_X}-{L_Y}"
    return [Row("104", what, f"{params.seeds} runs", times.mean(), off, right, printed)]


def draw(data: xr.Dataset) -> Figure:
    """Corrected and printed values over measured ones, with what these may be off by."""
    figure, (axis,) = panels(1, size=(7.0, 0.4 * data.sizes["row"] + 1.4))
    place, measured = np.arange(data.sizes["row"]), data["measured"]
    error = abs(data["error"] / measured)
    axis.barh(place, 2 * error, left=1 - error, color="0.85", label="uncertainty")
    axis.axvline(1, color="0.6", linewidth=0.8)
    for name, marker, color in (("printed", "x", "C3"), ("corrected", "o", "C0")):
        axis.plot(
            data[name] / measured, place, marker, color=color, ms=6, mfc="none", mew=1.5, label=name
        )
    axis.set(xlabel="value over the measured one", xlim=(-1.1, 1.6))
    axis.set_yticks(place, [f"Eq. {row}" for row in data["row"].values])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    legend(axis, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """The corrected form holds within the measurement's uncertainty; the print misses."""
    return [_erratum(data.sel(row=row)) for row in data["row"].values]


def _erratum(one: xr.Dataset) -> Claim:
    printed, measured = float(one["printed"]), float(one["measured"])
    equation, what, how = (one[name].item() for name in ("row", "what", "how"))
    return (
        claim(f"Eq. {equation}: {what}", f"Eq. {equation.split(',')[0]}")
        .erratum(f"{printed:.4g}, {printed / measured:.3g} of the measured value", printed)
        .equals(
            measured,
            one["corrected"],
            within=one["error"],
            because=f"{LEVEL:.0%} by Student's t, and what the form leaves out: {how}",
            rate=1 - LEVEL,
        )
    )
