"""Kernels of infinite width against published closed forms, trained-size networks and widths."""

import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.gaussian import NAMED

X = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -1.0], [2.0, -1.0, 0.3]])
IMAGES = np.random.default_rng(5).normal(size=(3, 5, 4, 2))


def sampled(network, x, runs, seed=0, scale=1.0):
    """Tangent kernels of sampled networks, (runs, n, n)."""
    rng = np.random.default_rng(seed)
    drawn = [network.sample(rng, x.shape[1:]) for _ in range(runs)]
    narrow = [jax.tree.map(lambda w: w.astype(np.float32), weights) for weights in drawn]
    x = x.astype(np.float32)
    return np.array([ld.ntk(ld.Model(network, w), x) for w in narrow], np.float64) / scale


def test_relu_has_the_arc_cosine_kernels():
    """κ₀ and κ₁ of Cho and Saul (2009): with gain √2 the kernels of depth 2 on the unit circle."""
    angle = np.linspace(0.0, 3.1, 9)
    x = np.sqrt(2) * np.stack([np.cos(angle), np.sin(angle)], 1)  # so that S_1 = 2 cos
    theta = np.arccos(np.clip(np.cos(angle[:, None] - angle), -1, 1))
    k0 = 1 - theta / np.pi
    k1 = (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / np.pi
    wide = ld.infinite(ld.MLP([2, 8, 1], "relu", gain=np.sqrt(2)))
    np.testing.assert_allclose(wide.nngp(x), 2 * k1, atol=1e-12)
    np.testing.assert_allclose(wide.ntk(x), k1 + np.cos(theta) * k0, atol=1e-7)


def test_erf_has_the_arcsine_kernel():
    """Williams (1997), for erf(h/√2) with inputs of covariance S."""
    S = X @ X.T / 3 + 1
    q = 1 + np.diag(S)
    expected = 2 / np.pi * np.arcsin(S / np.sqrt(q[:, None] * q)) + 1
    wide = ld.infinite(ld.MLP([3, 8, 1], "erf", bias=True))
    np.testing.assert_allclose(wide.nngp(X), expected, rtol=1e-13)


def test_gelu_has_its_closed_form():
    """E[g g'] of x Φ(x), arXiv:2002.08517, here with biases."""
    S = X @ X.T / 3 + 1
    q, p = np.diag(S)[:, None], np.diag(S)
    ones = (1 + q) * (1 + p)
    det = ones - S**2
    first = (S**2 + q * p * det) / (ones * np.sqrt(det)) + S * np.arctan2(S, np.sqrt(det))
    wide = ld.infinite(ld.MLP([3, 8, 1], "gelu", bias=True))
    np.testing.assert_allclose(wide.nngp(X), first / (2 * np.pi) + S / 4 + 1, rtol=1e-10)


def test_three_layers_have_the_reference_values():
    """Of gain 1.3, from an independent recursion."""
    nngp = [
        [0.5027926041666668, 0.26163961750214737, 0.8966539405089248],
        [0.26163961750214737, 0.8044681666666669, 0.5033311213073294],
        [0.8966539405089248, 0.5033311213073294, 2.0473714841666673],
    ]
    ntk = [
        [0.8925312500000002, 0.16539476480331647, 1.3194224171890188],
        [0.16539476480331647, 1.4280500000000003, 0.29455770762296074],
        [1.3194224171890188, 0.29455770762296074, 3.6343872500000005],
    ]
    wide = ld.infinite(ld.MLP([3, 9, 9, 1], "relu", gain=1.3))
    np.testing.assert_allclose(wide.nngp(X), nngp, rtol=1e-13)
    np.testing.assert_allclose(wide.ntk(X), ntk, rtol=1e-13)


def test_linear_networks_multiply():
    """Depth times x·x'/d at gain 1, whatever the skip; a skip doubles and adds."""
    gram = X @ X.T / 3
    np.testing.assert_allclose(ld.infinite(ld.MLP([3, 4, 4, 1], "linear")).ntk(X), 3 * gram)
    # f_2 = h_2 + f_1 has the moments 2 gram, so S_3 = 2 gram; T_3 = 2 gram + (2 + 1) gram.
    residual = ld.infinite(ld.ResidualMLP([3, 4, 4, 1], "linear"))
    np.testing.assert_allclose(residual.nngp(X), 2 * gram)
    np.testing.assert_allclose(residual.ntk(X), 5 * gram)


@pytest.mark.parametrize("name", ["tanh", "swish", "gelu", "softplus", "sigmoid", "sine", "erf"])
def test_averages_are_those_of_a_fine_grid(name):
    """E[g g'] and E[ġ ġ'] by a product of two Gauss-Hermite rules."""
    y, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    g = NAMED[name]
    x, x2 = X[:2], X[2:]
    C = np.block([[x @ x.T, x @ x2.T], [x2 @ x.T, x2 @ x2.T]]) / 3
    with jax.enable_x64(True):
        slope = jax.vmap(jax.vmap(jax.grad(g)))
        for i in range(2):
            a, b, c = C[i, i], C[2, 2], C[i, 2]
            u = np.sqrt(a) * y[:, None] + 0 * y
            v = c / np.sqrt(a) * y[:, None] + np.sqrt(b - c**2 / a) * y
            value = np.sum(np.outer(w, w) * np.asarray(g(u)) * np.asarray(g(v)))
            slopes = np.sum(np.outer(w, w) * np.asarray(slope(u)) * np.asarray(slope(v)))
            wide = ld.infinite(ld.MLP([3, 5, 1], name))
            np.testing.assert_allclose(wide.nngp(x, x2)[i, 0], value, rtol=1e-7)
            np.testing.assert_allclose(wide.ntk(x, x2)[i, 0], value + c * slopes, rtol=1e-7)


def test_your_own_activation_has_its_closed_form():
    """E[g g'] = det(1 + S)^(−1/2) of g = e^(−h²/2), and its derivative by the covariance."""
    S = X @ X.T / 3
    det = (1 + np.diag(S)[:, None]) * (1 + np.diag(S)) - S**2
    wide = ld.infinite(ld.MLP([3, 5, 1], lambda h: jax.numpy.exp(-(h**2) / 2)))
    np.testing.assert_allclose(wide.nngp(X), det**-0.5, rtol=1e-10)
    np.testing.assert_allclose(wide.ntk(X), det**-0.5 + S**2 * det**-1.5, rtol=1e-10)


def test_a_steep_activation_takes_a_finer_grid():
    steep = ld.infinite(ld.MLP([3, 5, 1], lambda h: jax.numpy.tanh(3 * h)))
    wide = ld.infinite(ld.MLP([3, 5, 1], "tanh"))
    np.testing.assert_allclose(steep.ntk(X), wide.ntk(3 * X), rtol=1e-10)


def test_two_arguments_are_a_block_of_one():
    wide = ld.infinite(ld.ResidualMLP([3, 6, 6, 6, 2], "softplus", skip=1, bias=True))
    for kernel in (wide.nngp, wide.ntk):
        np.testing.assert_allclose(kernel(X[:2], X[1:]), kernel(X)[:2, 1:], rtol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_no_examples_have_an_empty_kernel(activation):
    wide = ld.infinite(ld.ResidualMLP([3, 6, 6, 6, 1], activation))
    assert wide.ntk(X[:0]).shape == (0, 0) and wide.nngp(X, X[:0]).shape == (3, 0)


NETWORKS = {
    "biases": lambda m: (ld.MLP([3, m, m, 1], "swish", bias=True, gain=1.2), X, 1.0),
    "residual": lambda m: (ld.ResidualMLP([3, m, m, m, 1], "relu", bias=True), X, 1.0),
    "standard": lambda m: (
        ld.MLP([3, 2 * m, m, 1], "erf", parameterisation="standard", gain=1.4), X, float(m),
    ),
    "images": lambda m: (
        ld.CNN([m // 4, m // 4], 3, 1, "relu", gain=1.3, stride=[1, 2]), IMAGES, 1.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_sampled_networks_have_this_mean_kernel(name):
    """24 networks of width 512: five standard errors, and a finite-width bias of 5/width."""
    network, x, scale = NETWORKS[name](512)
    kernels, limit = sampled(network, x, 24, scale=scale), ld.infinite(network).ntk(x)
    error = kernels.std(0, ddof=1) / np.sqrt(len(kernels))
    assert np.all(np.abs(kernels.mean(0) - limit) < 5 * error + 5 / 512 * np.abs(limit).max())
    assert np.abs(kernels.mean(0) - limit).max() < 0.1 * np.abs(limit).max()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "erf", "tanh"])
def test_single_networks_approach_as_one_over_the_root_of_the_width(activation):
    """Widths 2¹² and 2¹⁴ (two layers): the spread halves, by an F test of 24 networks each."""
    spread = []
    for m in (2**12, 2**14):
        network = ld.MLP([3, m, 1], activation, gain=1.3)
        kernels, limit = sampled(network, X, 24, seed=m), ld.infinite(network).ntk(X)
        error = kernels.std(0, ddof=1) / np.sqrt(len(kernels))
        assert np.all(np.abs(kernels.mean(0) - limit) < 5 * error)
        spread.append(np.sqrt(np.mean((kernels - limit) ** 2)))
    # A ratio of two standard deviations from 24 runs scatters by 0.2; the exponent by log_4 of it.
    assert abs(np.log(spread[1] / spread[0]) / np.log(4) + 0.5) < 0.45


def test_networks_without_a_limit_are_refused():
    with pytest.raises(ValueError, match="network: got the output map 'softmax'"):
        ld.infinite(ld.MLP([3, 4, 2], "relu", output="softmax"))
    with pytest.raises(ValueError, match="network: got DeepLinear"):
        ld.infinite(ld.DeepLinear([3, 4, 2]))
    with pytest.raises(ValueError, match=r"network: got inputs of shape \(2,\)"):
        ld.infinite(ld.MLP([3, 4, 2], "relu")).ntk(np.eye(2))
    kinked = ld.Activation(lambda h: jax.numpy.maximum(h, -1.0), kinks=[-1.0])
    with pytest.raises(ValueError, match="network: got an activation with kinks, whose averages"):
        ld.infinite(ld.MLP([3, 4, 2], kinked))
    with pytest.raises(ValueError, match="x: got inputs whose kernels overflow"):
        ld.infinite(ld.MLP([3, 4, 2], "relu")).ntk(1e200 * X)
    with pytest.raises(ValueError, match="variance: got pre-activations of"):
        ld.infinite(ld.MLP([3, 4, 2], "tanh")).ntk(1e10 * np.eye(3))
    with pytest.raises(ValueError, match="which has no weights"):
        ld.infinite(ld.MLP([3, 4, 2], "relu")).sample(np.random.default_rng(0), (3,))
