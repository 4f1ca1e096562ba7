"""Losses of PyTorch, and one label per token, against dense autograd and against JAX."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import learndyn as ld
from learndyn.probes.arguments import MeanLoss
from learndyn.probes.tensors import in_tensors

p = ld.probes
N, D, T, V = 5, 3, 4, 3
torch.manual_seed(0)
X = torch.randn(N, D).double()
CLASS = torch.tensor([0, 2, -100, 1, 2])
REAL, UNIT = torch.randn(N, V).double(), torch.rand(N, V).double()
MODULE = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, V)).double()
WEIGHT = torch.tensor([0.5, 2.0, 1.0])
SEVERAL = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, T * V), nn.Unflatten(1, (T, V)))
SEVERAL = SEVERAL.double()
TOKENS = torch.randint(V, (N, T))
TOKENS[0, 1:], TOKENS[3], TOKENS[4, 0] = -100, -100, -100
rows = lambda y: functional.log_softmax(y, 1)
LOSSES = {  # a module, a loss as a probe takes it, targets; the same loss as a mean by hand
    "MSE": (MODULE, nn.MSELoss(), REAL, functional.mse_loss),
    "L1": (MODULE, nn.L1Loss(), REAL, functional.l1_loss),
    "smooth L1": (MODULE, nn.SmoothL1Loss(beta=0.3), REAL,
                  lambda f, y: functional.smooth_l1_loss(f, y, beta=0.3)),
    "cross-entropy": (MODULE, nn.CrossEntropyLoss(), CLASS, functional.cross_entropy),
    "weights and smoothing": (
        MODULE, nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1), CLASS,
        lambda f, y: functional.cross_entropy(f, y, WEIGHT.double(), label_smoothing=0.1)),
    "probabilities": (MODULE, nn.CrossEntropyLoss(), UNIT / UNIT.sum(1, keepdim=True),
                      functional.cross_entropy),
    "logits": (MODULE, nn.BCEWithLogitsLoss(), UNIT, functional.binary_cross_entropy_with_logits),
    "Poisson": (MODULE, nn.PoissonNLLLoss(), UNIT, functional.poisson_nll_loss),
    "batchmean": (nn.Sequential(*MODULE, nn.LogSoftmax(1)), nn.KLDivLoss(reduction="batchmean"),
                  UNIT, lambda f, y: functional.kl_div(f, y, reduction="batchmean")),
    "a function": (MODULE, lambda f, y: (f - y).cosh().log().sum(1), REAL,
                   lambda f, y: (f - y).cosh().log().sum(1).mean()),
    "ours": (MODULE, ld.SquaredLoss(0.3), REAL, lambda f, y: 0.3 * ((f - y) ** 2).sum(1).mean()),
    "tokens": (SEVERAL, ld.CrossEntropy(ignore_index=-100), TOKENS,
               lambda f, y: functional.cross_entropy(f.flatten(0, 1), y.flatten())),
    "all tokens": (SEVERAL, ld.CrossEntropy(), TOKENS.clamp(0),
                   lambda f, y: functional.cross_entropy(f.flatten(0, 1), y.flatten())),
    "classes last": (
        SEVERAL, nn.CrossEntropyLoss(weight=WEIGHT), TOKENS,
        lambda f, y: functional.cross_entropy(f.flatten(0, 1), y.flatten(), WEIGHT.double())),
    "classes second": (nn.Sequential(*SEVERAL[:3], nn.Unflatten(1, (V, T))), nn.CrossEntropyLoss(),
                       TOKENS, functional.cross_entropy),
}  # fmt: skip


def dense(module: Any, y: Any, mean: Any) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian of the mean loss and its Gauss-Newton part, by autograd."""
    weights = list(module.parameters())
    pull = lambda value, create=False: torch.cat([
        (torch.zeros_like(w) if g is None else g).reshape(-1)
        for g, w in zip(torch.autograd.grad(
            value, weights, retain_graph=True, create_graph=create, allow_unused=True),
            weights, strict=True)
    ])  # fmt: skip
    outputs = module(X)
    J = torch.stack([pull(each) for each in outputs.reshape(-1)])
    gradient = pull(mean(outputs, y), create=True)
    H = torch.stack([pull(each) for each in gradient])
    A = torch.autograd.functional.hessian(lambda f: mean(f, y), outputs.detach())
    return H.numpy(), (J.T @ A.reshape(len(J), len(J)) @ J).numpy()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_against_dense_autograd(name):
    module, loss, y, mean = LOSSES[name]
    H, G = dense(module, y, mean)
    operator = p.hessian_operator(module, X, y, loss=loss)
    np.testing.assert_allclose(operator @ np.eye(len(H)), H, rtol=0, atol=1e-11)
    assert p.hessian_trace(module, X, y, loss=loss, draws=None).value == pytest.approx(np.trace(H))
    top = np.linalg.eigvalsh(G)[-1]
    rate = float(p.critical_learning_rate(module, X, y, loss=loss))
    assert rate == (np.inf if top < 1e-12 else pytest.approx(2 / top, rel=1e-9))
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)  # the same by products
    by_products = p.critical_learning_rate(module, X, y, loss=loss, optimiser=optimiser)
    assert float(by_products) == (np.inf if top < 1e-12 else pytest.approx(2 / top, rel=1e-3))


def test_the_update_that_raises_the_loss():
    """Along a gradient of a quadratic loss: 2 |g|²/(gᵀ H g)."""
    module, y = nn.Linear(D, V).double(), REAL
    functional.mse_loss(module(X), y).backward()
    update = {n: w.grad for n, w in module.named_parameters()}
    g = torch.cat([w.grad.reshape(-1) for w in module.parameters()]).numpy()
    H, _ = dense(module, y, functional.mse_loss)
    found = p.critical_rate_along(module, X, y, loss=nn.MSELoss(), update=update)
    expected = 2 * g @ g / (g @ H @ g)
    # The search may hit it to rounding, where either sign of the difference of losses is right.
    assert found.low <= (1 + 1e-10) * expected and found.high >= (1 - 1e-10) * expected


def test_tokens_in_jax_and_pytorch():
    key = jax.random.key(0)

    class Both(eqx.Module):
        mlp: Any

        def __call__(self, x):
            return self.mlp(x).reshape(T, V)

    module = Both(eqx.nn.MLP(D, T * V, 4, 1, activation=jnp.tanh, key=key))
    wide = lambda w: np.asarray(w, np.float64) if eqx.is_inexact_array(w) else w
    module = jax.tree.map(wide, module)
    with torch.no_grad():
        for mine, theirs in zip(module.mlp.layers, (SEVERAL[0], SEVERAL[2]), strict=True):
            theirs.weight.copy_(torch.from_numpy(mine.weight))
            theirs.bias.copy_(torch.from_numpy(mine.bias))
    x, y, loss = X.numpy(), TOKENS.numpy(), ld.CrossEntropy(ignore_index=-100)
    for of in (
        lambda m: p.hessian_top(m, x, y, loss=loss, k=2, tolerance=0).values,
        lambda m: float(p.critical_learning_rate(m, x, y, loss=loss)),
    ):
        np.testing.assert_allclose(of(module), of(SEVERAL), rtol=1e-9)
    whole = [float(p.critical_learning_rate(m, x, loss=ld.CrossEntropy())) for m in
             (module, SEVERAL)]  # fmt: skip
    assert whole[0] == pytest.approx(whole[1], rel=1e-9)  # no targets: the same for all labels
    said = p.hessian_top(SEVERAL, x, y, loss=loss).convention
    assert "4 examples with 12 labels" in said


BAD = {
    "a mean": lambda: p.hessian_top(MODULE, X, REAL, loss=functional.mse_loss),
    "a mean of a module of one's own": lambda: p.hessian_top(
        MODULE, X, REAL, loss=nn.Sequential(nn.Identity())
    ),
    "sum": lambda: p.hessian_top(MODULE, X, REAL, loss=nn.MSELoss(reduction="sum")),
    "none": lambda: p.hessian_top(MODULE, X, REAL, loss=nn.MSELoss(reduction="none")),
    "numbers": lambda: p.hessian_top(MODULE, X, REAL, loss=lambda f, y: 3.0),
    "each entry": lambda: p.hessian_top(MODULE, X, REAL, loss=lambda f, y: (f - y) ** 2),
    "targets that do not fit": lambda: p.hessian_top(MODULE, X, REAL[:, :2], loss=nn.MSELoss()),
    "the class": lambda: p.hessian_top(MODULE, X, REAL, loss=nn.MSELoss),
    "no second derivative": lambda: p.hessian_top(
        MODULE, X, CLASS.clamp(0), loss=nn.MultiMarginLoss()
    ),
    "only ignored labels": lambda: p.hessian_top(
        MODULE, X, torch.full((N,), -100), loss=nn.CrossEntropyLoss()
    ),
    "no targets": lambda: p.critical_learning_rate(MODULE, X, loss=nn.MSELoss()),
    "a split": lambda: p.split_loss(MODULE, X, REAL, loss=nn.MSELoss(), s=1),
    "for JAX": lambda: p.hessian_top(
        eqx.nn.MLP(D, V, 2, 1, key=jax.random.key(0)), X, REAL, loss=nn.MSELoss()
    ),
    "a label for each example": lambda: p.hessian_top(
        SEVERAL, X, torch.zeros(N, dtype=int), loss=ld.CrossEntropy()
    ),
    "a label out of range": lambda: p.hessian_top(SEVERAL, X, TOKENS + V, loss=ld.CrossEntropy()),
    "a label below 0": lambda: p.hessian_top(SEVERAL, X, TOKENS, loss=ld.CrossEntropy()),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_losses_are_one_line(call):
    with pytest.raises(ValueError, match=r"\A[A-Za-z]+: [^\n]*allowed[^\n]*\Z"):
        call()


LABELS = np.array([1, 0, 2, -7, 1])
OURS = {  # outputs, targets, loss
    "numbers": ((N, V), REAL.numpy(), ld.SquaredLoss(0.3)),
    "labels as numbers": ((N, V), abs(LABELS) % V, ld.SquaredLoss()),
    "one output": ((N, 1), np.array([1, 0, 1, 1, 0]), ld.SquaredLoss()),
    "labels": ((N, V), abs(LABELS) % V, ld.CrossEntropy()),
    "some ignored": ((N, V), LABELS, ld.CrossEntropy(ignore_index=-7)),
    "all ignored": ((N, V), np.full(N, -7), ld.CrossEntropy(ignore_index=-7)),
    "probabilities": ((N, V), (UNIT / UNIT.sum(1, keepdim=True)).numpy(), ld.CrossEntropy()),
    "a logit": ((N,), np.array([1, 0, 1, 1, 0]), ld.CrossEntropy()),
    "signs": ((N, 1), np.array([1.0, -1, 1, 1, -1])[:, None], ld.CrossEntropy()),
    "token logits": ((N, T, 1), TOKENS.clamp(-100, 1).numpy(), ld.CrossEntropy(ignore_index=-100)),
    "tokens": ((N, T, V), TOKENS.numpy(), ld.CrossEntropy(ignore_index=-100)),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_our_losses_are_the_same_in_tensors(name, scale):
    """Value, slope and bend of both libraries, also where exponentials overflow."""
    shape, y, loss = OURS[name]
    rng = np.random.default_rng(0)
    outputs, change = scale * rng.normal(size=shape), rng.normal(size=shape)
    ours, tensors = MeanLoss(loss, y), in_tensors(ld.as_model(MODULE), MeanLoss(loss, y))
    assert type(tensors) is not MeanLoss
    with jax.enable_x64(True):
        value, slope = float(ours(outputs)), np.asarray(ours.gradient(outputs))
        bend = np.asarray(ours.curvature(outputs, change))
    np.testing.assert_allclose(tensors(outputs), value, rtol=1e-12)
    np.testing.assert_allclose(tensors.gradient(outputs), slope, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(tensors.curvature(outputs, change), bend, rtol=1e-11, atol=1e-14)
