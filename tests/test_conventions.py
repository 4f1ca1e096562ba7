"""The table of docs/conventions.md: steps and kernels by the formulas of papers and libraries."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import learndyn as ld
from learndyn.networks.parts.affine import Affine

N, K, M = 7, 3, 2
RNG = np.random.default_rng(0)
W, B, XI = (RNG.normal(size=shape) for shape in ((K, N), (M, N), (N,)))


def g(h):
    return erf(h / np.sqrt(2))


def slope(h):
    return np.sqrt(2 / np.pi) * np.exp(-(h**2) / 2)


def stepped(student, rule, target, weights, x=XI[None], scale=0.5):
    """The weights after one step of ours on these examples."""
    data = ld.Dataset(x, np.atleast_1d(target), loss_scale=scale)
    return ld.update(ld.System(data, student, rule), weights)


def test_saad_and_solla():
    J, eta, target = W / np.sqrt(N), 0.8, g(B @ XI / np.sqrt(N)).sum()
    x = J @ XI
    theirs = J + eta / N * np.outer(slope(x) * (target - g(x).sum()), XI)
    ours = stepped(ld.Committee(K, "erf"), ld.SGD(eta), target, W)
    np.testing.assert_allclose(ours, np.sqrt(N) * theirs, rtol=1e-12)
    np.testing.assert_allclose(ours @ ours.T / N, theirs @ theirs.T, rtol=1e-12)


def test_nn2pp():
    lr, lr2, wd, xis = 0.5, 0.3, 0.2, RNG.normal(size=(4, N))
    v, ys = RNG.normal(size=K), g(xis @ B.T / np.sqrt(N)).sum(1)
    h = W @ xis.T / np.sqrt(N)
    gap = ys - v @ g(h)
    w = W - wd / N * W + lr / np.sqrt(N) * (v[:, None] * slope(h) * gap) @ xis / 4
    out = v - wd / N * v + lr2 / N * g(h) @ gap / 4
    student = ld.Committee(K, "erf", outputs=ld.Normal(1.0), train=("inputs", "outputs"))
    # An epoch of one batch has every example once.
    rule = ld.SGD(lr, batch=4, sampling="epochs", output_rate=lr2, decay=wd, output_decay=wd)
    ours = stepped(student, rule, ys, ld.CommitteeWeights(W, v), xis)
    np.testing.assert_allclose(ours.inputs, w, rtol=1e-12)
    np.testing.assert_allclose(ours.outputs, out, rtol=1e-12)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_classical_perceptrons(label):
    """J ← J + (1/N) f s ξ: at one label the sign of this unit is wrong, at the other right."""
    J, eta = W[0] / np.sqrt(N), 0.7
    h = J @ XI
    wrong = h * label < 0
    strengths = {ld.Hebb: 1.0, ld.Perceptron: wrong, ld.AdaTron: wrong * abs(h)}
    for rule, f in strengths.items():
        ours = stepped(ld.Committee(1, "linear"), rule(eta), label, W[:1])
        np.testing.assert_allclose(
            ours[0], np.sqrt(N) * (J + eta / N * f * label * XI), rtol=1e-12, err_msg=str(rule)
        )


def test_scales_of_the_committee_papers():
    """F_k = (4η/p) Δ λ_k of one, η √M/K g' Δ of the other; a step is F x/√N."""
    x, eta = W @ XI / np.sqrt(N), 0.3
    y = np.mean((B @ XI) ** 2 / N)
    F = 4 * eta / K * (y - np.mean(x**2)) * x
    ours = stepped(ld.Committee(K, "quadratic", scale=1 / K), ld.SGD(eta), y, W, scale=1.0)
    np.testing.assert_allclose(ours - W, np.outer(F, XI) / np.sqrt(N), rtol=1e-10)
    a, y = np.sqrt(M) / K, g(B @ XI / np.sqrt(N)).sum() / np.sqrt(M)
    F = eta * a * slope(x) * (y - a * g(x).sum())
    ours = stepped(ld.Committee(K, "erf", scale=a), ld.SGD(eta), y, W)
    np.testing.assert_allclose(ours - W, np.outer(F, XI) / np.sqrt(N), rtol=1e-10)


@pytest.mark.parametrize("standard", [False, True], ids=["ntk", "standard"])
def test_kernels_of_neural_tangents(standard):
    """Its layer (s/√N) W x with unit W, or W x with W of variance s²/N; f is its network."""
    s, widths = 1.7, [N, 5, 1]
    draws = [RNG.normal(size=(n, m)) for m, n in itertools.pairwise(widths)]
    x, norms = RNG.normal(size=(4, N)), [s / np.sqrt(m) for m in widths[:-1]]
    theirs = [w * c for w, c in zip(draws, norms, strict=True)] if standard else draws
    fronts = [1.0, 1.0] if standard else norms

    def f(weights, x):
        h = jnp.tanh(fronts[0] * x @ weights[0].T)
        return (fronts[1] * h @ weights[1].T)[:, 0]

    with jax.enable_x64(True):
        rows = jax.jacobian(f)([jnp.asarray(w) for w in theirs], jnp.asarray(x))
        kernel = sum(r.reshape(4, -1) @ r.reshape(4, -1).T for r in rows)
        outputs = np.asarray(f([jnp.asarray(w) for w in theirs], jnp.asarray(x)))
    kind = "standard" if standard else "ntk"
    network = ld.MLP(widths, "tanh", parameterisation=kind, gain=s)
    ours = theirs if standard else [s * w for w in draws]
    model = ld.Model(network, tuple(Affine(w, None) for w in ours))
    with jax.enable_x64(True):
        np.testing.assert_allclose(model(x), outputs, rtol=1e-10)
    factor = 1.0 if standard else s**2
    np.testing.assert_allclose(factor * ld.ntk(model, x), kernel, rtol=1e-10)


def test_kernels_of_neural_tangents_at_infinite_width():
    """Dense, Relu, Dense of its `kernel_fn`: ntk ← nngp + W_std² ntk in every Dense."""
    s, x = 1.3, RNG.normal(size=(4, N))
    covariance, width = x @ x.T / N, 10**9
    for kind in ("ntk", "standard"):
        ntk = s**2 * covariance if kind == "ntk" else N * covariance
        nngp = s**2 * covariance
        size = np.sqrt(np.diag(nngp))
        rho = np.clip(nngp / np.outer(size, size), -1, 1)
        angle = np.arccos(rho)
        slopes = (np.pi - angle) / (2 * np.pi)
        values = np.outer(size, size) * (np.sin(angle) + (np.pi - angle) * rho) / (2 * np.pi)
        own = s**2 * values if kind == "ntk" else width * values
        ntk = own + s**2 * slopes * ntk
        wide = ld.infinite(ld.MLP([N, 64, 1], "relu", parameterisation=kind, gain=s))
        np.testing.assert_allclose(wide.nngp(x), s**2 * values, rtol=1e-6)
        factor = s**2 if kind == "ntk" else width
        np.testing.assert_allclose(factor * wide.ntk(x), ntk, rtol=1e-6)


def test_losses_and_averages():
    """Factors of the losses: a mean over outputs is 1/k, a sum over n examples n/2."""
    n, k = 6, 3
    x, y = RNG.normal(size=(n, N)), RNG.normal(size=(n, k))
    w = RNG.normal(size=(k, N))
    r = x @ w.T - y
    gradients = {1 / k: 2 * r.T @ x / (n * k), n / 2: r.T @ x, 1.0: 2 * r.T @ x / n}
    for scale, gradient in gradients.items():
        data = ld.Dataset(x, y, loss_scale=scale)
        rule = ld.GradientDescent(0.1)
        (ours,) = ld.update(ld.System(data, ld.DeepLinear([N, k]), rule), (w,))
        np.testing.assert_allclose(w - ours, 0.1 * gradient, rtol=1e-10)


def test_the_variance_of_pytorch_layers():
    """U(−c, c) with c = 1/√N has the variance c²/3, that of gain 1/√3."""
    network = ld.MLP([400, 400, 1], "relu", parameterisation="standard", gain=3**-0.5)
    data = ld.Dataset(np.zeros((1, 400)), [0.0])
    weights = ld.start(ld.System(data, network, ld.SGD(0.1)), key=0).weights
    entries = np.asarray(weights[0].weight).ravel()
    # The variance of n normal entries has the relative standard error √(2/n).
    assert np.var(entries) * 3 * 400 == pytest.approx(1, abs=5 * np.sqrt(2 / len(entries)))


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_and_decay_of_pytorch(nesterov):
    """Buffer b ← μ b + g with g = ∇ + wd w; w ← w − lr b, or − lr (g + μ b) with Nesterov's."""
    lr, mu, wd, x, y = 0.1, 0.9, 0.3, RNG.normal(size=(5, N)), RNG.normal(size=(5, 1))
    rule = ld.GradientDescent(lr, momentum=mu, nesterov=nesterov, decay=lr * wd)
    system = ld.System(ld.Dataset(x, y), ld.DeepLinear([N, 1]), rule)
    start = ld.start(system, key=0)
    probes = {"w": lambda model: model.weights[0][0]}
    found = ld.simulate(system, range(4), start=start, dtype="float64", probes=probes)
    w, buffer = start.weights[0], 0.0
    for step in range(4):
        np.testing.assert_allclose(found["w"][0, step], w[0], rtol=1e-10)
        d = (x @ w.T - y).T @ x / 5 + wd * w
        buffer = mu * buffer + d
        w = w - lr * (d + mu * buffer if nesterov else buffer)
