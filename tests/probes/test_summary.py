"""One table of the probes."""

import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

p = ld.probes
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2))
MODULE = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))


def test_its_numbers_are_those_of_the_probes(capsys):
    found = p.summary(MODULE, X, Y, learning_rate=0.1, s=2)
    values = p.ntk_spectrum(MODULE, X)
    np.testing.assert_allclose(found.kernel, values[[-1, 0]])
    assert found.rate_kernel == pytest.approx(float(p.critical_learning_rate(MODULE, X)))
    assert found.sharpness == pytest.approx(2 / found.rate_exact, rel=1e-4)
    top, rest = p.split_loss(MODULE, X, Y, s=2)
    assert found.top_share == pytest.approx(top / (top + rest))
    assert found.agop_rank == pytest.approx(p.effective_rank(p.agop(MODULE, X)), rel=1e-4)
    assert found.agop_rank <= 3
    text = " ".join(capsys.readouterr().out.split())
    for said in ("sharpness", "η = 0.1", "cohen2021", "zhu2024"):
        assert said in text


def test_losses_that_do_not_split_and_bad_input(capsys):
    found = p.summary(MODULE, X, np.array([0, 1, 1, 0, 1, 0]), loss=ld.CrossEntropy())
    assert found.top_share is None and found.learning_rate is None
    with pytest.raises(ValueError, match="learning_rate: got -1; allowed is a positive"):
        p.summary(MODULE, X, Y, learning_rate=-1)


def test_a_dead_network_has_a_summary(capsys):
    """Every unit of a relu layer is off: outputs depend on neither weights nor inputs."""
    dead = eqx.tree_at(
        lambda m: [m.layers[0].bias, m.layers[1].bias], MODULE, [jnp.full(8, -1e3), None],
        is_leaf=lambda leaf: leaf is None,
    )  # fmt: skip
    found = p.summary(dead, X, Y, learning_rate=0.1)
    assert found.rate_kernel == found.rate_exact == np.inf
    assert found.sharpness == 0 and found.kernel == (0, 0)
    assert np.isnan(found.agop_rank) and np.isnan(found.top_share)
    assert "η = 0.1" in " ".join(capsys.readouterr().out.split())


def test_batches_leave_out_the_kernel(capsys):
    found = p.summary(MODULE, lambda: ((X[i : i + 4], Y[i : i + 4]) for i in (0, 4)))
    whole = p.summary(MODULE, X, Y)
    assert found.rate_exact == pytest.approx(whole.rate_exact, rel=1e-4)
    assert found.rate_kernel == pytest.approx(whole.rate_kernel, rel=1e-4)
    assert found.agop_rank == pytest.approx(whole.agop_rank, rel=1e-4)
    assert found.kernel is None and set(found.skipped) == {"kernel", "top_share"}
    assert found.skipped["kernel"].startswith("the kernel is of all examples at once")
    assert "not computed:" in " ".join(capsys.readouterr().out.split())


def test_quantities_that_do_not_apply_are_left_out_with_a_reason(capsys, monkeypatch):
    table = np.linspace(-1, 1, 12).reshape(4, 3)
    tokens, labels = RNG.integers(4, size=(6, 2)), RNG.integers(3, size=(6, 2))
    model = ld.Model(ld.Network(None, lambda w, x: jnp.sin(w[x["tokens"]])), table)
    given = {"x": {"tokens": tokens}, "y": labels, "loss": ld.CrossEntropy()}
    whole = p.summary(model, **given)
    assert set(whole.skipped) == {"top_share", "agop_rank"} and whole.kernel is not None
    module = importlib.import_module("learndyn.probes.summary")  # the function has its name
    monkeypatch.setattr(module, "memory", lambda: 1000)
    monkeypatch.setattr(module, "LONG", 0.0)
    found = p.summary(model, **given)
    assert found.rate_kernel == pytest.approx(whole.rate_kernel, rel=1e-3)
    assert found.skipped["kernel"].startswith("the kernel of 36 rows would take")
    said = " ".join(capsys.readouterr().out.split())
    assert "This computes at most 12 Hessian products of" in said and "not computed:" in said
    assert found.skipped["agop_rank"] == "needs one array of floats as inputs"
