"""The same numbers from JAX and PyTorch for the same weights, and from curvlinops."""

import pathlib
import runpy
import subprocess
import sys
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import learndyn as ld

p = ld.probes
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


class Convolutional(eqx.Module):
    layers: list

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(2, 3, 3, padding=1, stride=2, key=keys[0]),
            eqx.nn.Conv2d(3, 4, 2, dilation=2, key=keys[1]),
            eqx.nn.Linear(16, 3, key=keys[2]),
        ]

    def __call__(self, x):
        h = jnp.tanh(self.layers[1](jnp.tanh(self.layers[0](x))))
        return self.layers[2](h.reshape(-1))


def pair(name):
    """An equinox module and a PyTorch module with its weights, in float64."""
    key = jax.random.key(0)
    if name == "MLP":
        module, shape = eqx.nn.MLP(3, 2, 6, 2, activation=jnp.tanh, key=key), (3,)
        dense = [nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)]
        other = nn.Sequential(*dense)
    else:
        module, shape = Convolutional(key), (2, 8, 8)
        first = nn.Conv2d(2, 3, 3, padding=1, stride=2), nn.Tanh(), nn.Conv2d(3, 4, 2, dilation=2)
        other = nn.Sequential(*first, nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))
    wide = lambda w: np.asarray(w, np.float64) if eqx.is_inexact_array(w) else w
    module, other = jax.tree.map(wide, module), other.double()
    layers = [layer for layer in other if hasattr(layer, "weight")]
    with torch.no_grad():
        for mine, theirs in zip(module.layers, layers, strict=True):
            theirs.weight.copy_(torch.from_numpy(mine.weight))
            theirs.bias.copy_(torch.from_numpy(mine.bias.reshape(-1)))
    return module, other, np.random.default_rng(0).normal(size=(6, *shape))


@pytest.mark.parametrize("name", ["MLP", "CNN"])
def test_jax_and_pytorch_agree(name):
    module, other, x = pair(name)
    y, loss = np.random.default_rng(1).integers(2, size=6), ld.CrossEntropy()
    probes = {
        "kernel": lambda m: p.ntk(m, x),
        "rate": lambda m: float(p.critical_learning_rate(m, x, loss=loss)),
        "exact": lambda m: float(
            p.critical_learning_rate(m, x, y, loss=loss, exact=True, tolerance=0)
        ),
        "split": lambda m: p.split_loss(m, x, y, s=2),
        "hessian": lambda m: p.hessian_top(m, x, y, loss=loss, k=2, tolerance=0).values,
        "trace": lambda m: p.hessian_trace(m, x, y, loss=loss, draws=None).value,
        "agop": lambda m: p.agop(m, x),
    }
    for what, probe in probes.items():
        mine, theirs = np.asarray(probe(module)), np.asarray(probe(other))
        size = np.abs(mine).max()
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=1e-10 * size, err_msg=what)


@pytest.mark.parametrize("name", ["MLP", "CNN"])
def test_hessians_against_curvlinops(name):
    """Its matrix, by an implementation that is not ours.

    Version 3.0.1 has no Hessian of silu, and that of layer norms is not symmetric: for those the
    dense Hessians of `test_probes.py` decide.
    """
    with warnings.catch_warnings():  # those of its own imports
        warnings.simplefilter("ignore")
        curvlinops = pytest.importorskip("curvlinops")
    _, module, x = pair(name)
    y, given = torch.from_numpy(np.random.default_rng(1).integers(2, size=6)), torch.from_numpy(x)
    weights, data = list(module.parameters()), [(given, y)]
    operator = curvlinops.HessianLinearOperator(module, nn.CrossEntropyLoss(), weights, data)
    H = operator.to_scipy() @ np.eye(ld.as_model(module).size)
    values = np.linalg.eigvalsh(H)[::-1]
    examples = {"x": x, "y": y, "loss": ld.CrossEntropy()}
    found = p.hessian_top(module, **examples, k=2, tolerance=0)
    np.testing.assert_allclose(found.values, values[:2], rtol=0, atol=1e-10 * values[0])
    density = p.spectral_density(module, **examples, draws=1, steps=3, key=0)
    v = (2.0 * np.random.default_rng(0).integers(2, size=len(H)) - 1) / np.sqrt(len(H))
    moments = [v @ np.linalg.matrix_power(H, j) @ v for j in range(6)]
    np.testing.assert_allclose([density.moment(j) for j in range(6)], moments, rtol=1e-9)


def test_a_summary_is_printed(capsys):
    _, module, x = pair("MLP")
    y = np.random.default_rng(1).normal(size=(6, 2))
    found = p.summary(module, x, y, learning_rate=0.1, s=2)
    assert found.sharpness == pytest.approx(2 / found.rate_exact, rel=1e-9)
    assert "sharpness" in capsys.readouterr().out


def test_the_example_learns(capsys, tmp_path):
    run = runpy.run_path(str(EXAMPLES / "recorder_pytorch.py"))["main"]
    record, module = run(path=str(tmp_path / "run.nc"))
    assert record["step"].values.tolist() == list(range(201))
    assert record["loss"].values[0, -1] < 0.5 * record["loss"].values[0, 0]
    read = record["sharpness"].dropna("time")["step"]
    assert read.values.tolist() == [0, 50, 100, 150, 200] and module.training
    assert ld.load(tmp_path / "run.nc").equals(record)
    assert "probes took" in capsys.readouterr().out


def test_learndyn_does_not_import_torch():
    code = "import sys, learndyn; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
