"""The chapter's misprints: Eq. 2.18, Assumption 2.3.2, Appendix A.1, A.4.

Eq. 2.18 bounds ⟨‖∇f‖⟩ by what its proof bounds √⟨‖∇f‖²⟩ by: Jensen's inequality is used the wrong
way round. For one layer and one input ⟨‖∇f‖⟩ = ⟨|x|⟩ = √(2/π), below the printed 1. The proof's
other use of Jensen needs a degree r ≥ 1 of homogeneity, where Assumption 2.4.2 says r > 0: for
σ(z) = |z|^½ and one input, the mean square of a neuron is √(2/π) times the printed bound C_σ.
Assumption 2.3.2 states its Lipschitz conditions one derivative too high: proofs use |σ'| ≤ γ_1.
The printed γ_1 bounds |σ''|, 4/√27 for tanh, whose slopes reach 1; and it admits σ(z) = z², whose
slopes have no bound. Appendix A.1 drops links where ξ < p, ξ Bernoulli(p), which keeps them with
probability p instead of 1 − p, and divides by in(v) before dropping. The matrices of Eq. A.4 are
one layer too late. The quick preset has fewer draws than the paper preset; the chapter has no such
figure.

Notes: docs/results/zhu2024linearity/equations/notes.md.
"""

import dataclasses
import math

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import legend, panels
from learndyn.studies.claims import Claim, Tolerance, claim
from learndyn.studies.registry import Report
from learndyn.studies.statistics import LEVEL, mean_tolerance, normal_bound

TITLE = "Errata: the gradient's bound, the activation's slopes, dropped links"
DIFFERS = "the paper has no such figure"
DROPPED = 0.2  # p
INPUTS = 64  # of the networks whose neurons are looked at
PRINTED_SLOPE = 4 / math.sqrt(27)  # the largest |tanh''|
TRUE_SLOPE = 1.0  # the largest |tanh'|
WIDTHS = (INPUTS, 32, 24, 1)  # for the shapes of Eq. A.4


CLAIMS = {
    "gradient": claim("one layer, one input: ⟨‖∇f‖⟩", "Eq. 2.18")
    .erratum("at least 1: Jensen's inequality the wrong way round", 1.0),
    "square": claim("one layer, one input: ⟨‖∇f‖²⟩, which the proof bounds", "Eq. 2.18",
                    kind="finding"),
    "root": claim("degree r = ½, one input: ⟨f²⟩/C_σ of a neuron", "Eq. 2.18, r < 1")
    .erratum("at least 1: Jensen's inequality needs r ≥ 1", 1.0),
    "tanh": claim("tanh: the largest slope |σ'|, which proofs bound by γ_1", "Assumption 2.3.2",
                  because="1 − h² at the smallest of {count} normal |h|, 1 %", rate=1 - LEVEL)
    .erratum("γ_1 bounds |σ''|, 4/√27 here", PRINTED_SLOPE),
    "quadratic": claim("σ = z², printed γ_1 = 2: fraction of the neurons with a larger slope",
                       "Assumption 2.3.2, z²",
                       because="P(|h| > 1), normal distribution, 1 %", rate=1 - LEVEL)
    .erratum("none: |σ'| ≤ γ_1", 0.0),
    "links": claim(f"links dropped with probability {DROPPED:g}: fraction that is kept", "App. A.1")
    .erratum("ξ ≥ p with ξ from Bernoulli(p) keeps a fraction p", DROPPED),
    "field": claim("inputs ± 1: mean square of a pre-activation, in(v) after dropping",
                   "App. A.1, in(v)")
    .erratum("in(v) before dropping leaves a fraction 1 − p of it", 1 - DROPPED),
    "rows": claim(f"rows of W^(1), widths {'-'.join(map(str, WIDTHS))}", "Eq. A.4",
                  within=Tolerance(0.0, "a dimension"))
    .erratum("m_(ℓ+1) rows", WIDTHS[2]),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Draws for means, neurons whose slopes are looked at."""

    draws: int = 20_000
    neurons: int = 20_000
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(draws=200_000, neurons=100_000)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Draws and networks that the claims are read off."""
    table: dict = {"gradient": ("draw", _gradients(params))}
    report(0.3)
    table["root_neuron"] = ("draw", _root_neurons(params))
    table |= {f"slope_{name}": ("neuron", _slopes(params, name)) for name in ("tanh", "quadratic")}
    report(0.7)
    kept, field = _dropped(params)
    table |= {"links": ("neuron", kept), "field": ("neuron", field)}
    shapes = [layer.weight.shape for layer in ld.MLP(WIDTHS, "tanh").like((INPUTS,)) or ()]
    table["rows"] = ("layer", [shape[0] for shape in shapes])
    report(1.0)
    return xr.Dataset(table, {"layer": np.arange(1, len(shapes) + 1)})


def _gradients(params: Params) -> np.ndarray:
    """‖∇f‖ of a network of one layer and one input, one input a draw."""
    x = np.random.default_rng([params.key, 1]).standard_normal((params.draws, 1))
    network = ld.MLP([1, 1], "linear")
    model = ld.Model(network, network.sample(np.random.default_rng([params.key, 2]), (1,)))
    # The network is linear: its gradient with respect to the only weight is J 1.
    return np.abs(model.jvp(x, np.ones(1))[:, 0])


def _root_neurons(params: Params) -> np.ndarray:
    """|f^(1)|²/C_σ for σ(z) = |z|^½ and one input, weight and input drawn anew."""
    w, x = np.random.default_rng([params.key, 3]).standard_normal((2, params.draws))
    return np.abs(w * x) / math.sqrt(2 / math.pi)  # C_σ = ⟨|z|⟩


def _slopes(params: Params, name: str) -> np.ndarray:
    """|σ'| of the neurons of a first layer, ‖∂f_i/∂w_i‖, for inputs ± 1."""
    x = np.random.default_rng([params.key, 4]).choice([-1.0, 1.0], (1, INPUTS))
    network = ld.MLP([INPUTS, params.neurons, 1], name)
    weights = network.sample(np.random.default_rng([params.key, 5]), (INPUTS,))
    rows = np.asarray(ld.Model(network, weights).vjp(x, np.ones((1, 1))))
    first = rows[: INPUTS * params.neurons].reshape(params.neurons, INPUTS)
    outer = weights[1].weight[0] / math.sqrt(params.neurons)
    return np.linalg.norm(first, axis=1) / np.abs(outer)


def _dropped(params: Params) -> tuple[np.ndarray, np.ndarray]:
    """Shares of links that neurons keep, and their pre-activations for inputs ± 1."""
    network = ld.DenseNet([INPUTS, params.neurons, 1], "tanh", dropped=DROPPED, key=params.key)
    weights = network.sample(np.random.default_rng([params.key, 6]), (INPUTS,))
    x = np.random.default_rng([params.key, 7]).choice([-1.0, 1.0], (1, INPUTS))
    kept = network.links[0]
    assert kept is not None
    return kept.mean(axis=1), np.asarray(ld.forward(network, weights, x)[1]["layer1"])[0]


def draw(data: xr.Dataset) -> Figure:
    """Each erratum as a bar for what is printed, corrected and measured."""
    figure, axes = panels(2, size=(5.2, 3.8))
    found = [each for each in check(data) if each.kind == "erratum" and each.expected < 2]
    at = np.arange(len(found))
    labels = {"printed_value": "printed", "expected": "corrected"}
    rows = ("printed_value", "C3", "x"), ("expected", "C0", "o"), ("measured", "black", "+")
    for name, color, marker in rows:
        values, label = [getattr(each, name) for each in found], labels.get(name, name)
        face = {"facecolors": "none"} if marker == "o" else {}
        axes[0].scatter(values, at, color=color, marker=marker, label=label, s=60, **face)
    axes[0].set_yticks(at, [each.source for each in found], fontsize=7)
    axes[0].set(xlabel="value of the statement", ylim=(-0.6, len(found) - 0.4))
    legend(axes[0])
    for number, name in enumerate(("tanh", "quadratic")):
        slopes = np.sort(data[f"slope_{name}"].values)
        part = np.arange(1, slopes.size + 1) / slopes.size
        axes[1].plot(slopes, part, color=f"C{number}", label=name)
    axes[1].axvline(PRINTED_SLOPE, color="C0", ls=":", label=r"printed $\gamma_1$ of tanh")
    axes[1].axvline(2.0, color="C1", ls=":", label=r"printed $\gamma_1$ of $z^2$")
    axes[1].set(xlabel=r"slope $|\sigma'|$ of neurons", ylabel="part of neurons below")
    legend(axes[1], loc="lower right")
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """Printed, corrected and measured."""
    low, share = math.sqrt(2 / math.pi), 0.31731  # share: P(|h| > 1)
    expected = {"gradient": low, "square": 1.0, "root": low, "links": 1 - DROPPED, "field": 1.0}
    means = {
        "gradient": data["gradient"],
        "square": data["gradient"] ** 2,
        "root": data["root_neuron"],
        "links": data["links"],
        "field": data["field"] ** 2,
    }
    rows = {
        name: CLAIMS[name].equals(
            values.mean(), expected[name], mean_tolerance(values, f"{values.dims[0]}s")
        )
        for name, values in means.items()
    }
    tanh, square = data["slope_tanh"], data["slope_quadratic"]
    # The smallest |h| of m normal numbers exceeds −ln(level) √(2π)/(2 m) with the chance `level`.
    least = -math.log(LEVEL) * math.sqrt(2 * math.pi) / (2 * tanh.size)
    slope = CLAIMS["tanh"].format(count=tanh.size)
    rows["tanh"] = slope.equals(tanh.max(), TRUE_SLOPE, least**2)
    spread = normal_bound() * math.sqrt(share * (1 - share) / square.size)
    rows["quadratic"] = CLAIMS["quadratic"].equals((square > 2.0).mean(), share, spread)
    rows["rows"] = CLAIMS["rows"].equals(data["rows"].sel(layer=1), WIDTHS[1])
    return [rows[name] for name in CLAIMS]
