"""Σ JᵀJ in blocks, against the Jacobian and the tangent kernel."""

import jax
import numpy as np
import pytest

import learndyn as ld
from learndyn.tangent.gauss_newton import gauss_newton
from learndyn.tangent.kernel import kernel


@pytest.mark.parametrize("block", [None, 150])
def test_blocks_add_up(block):
    rng, network = np.random.default_rng(0), ld.MLP([5, 4, 2], "tanh")
    x = rng.standard_normal((11, 5))
    system = ld.System(ld.Dataset(x, np.zeros((11, 2))), network, ld.GradientDescent(0.1))
    weights = ld.start(system, key=1).weights
    with jax.enable_x64(True):
        found = gauss_newton(network, weights, x, block=block)
        rows = jax.tree.leaves(jax.jacobian(lambda w: network(w, x))(weights))
        K = np.asarray(kernel(network, weights, x)).reshape(22, 22)
    J = np.concatenate([np.reshape(row, (22, -1)) for row in rows], axis=1)
    np.testing.assert_allclose(found, J.T @ J, rtol=1e-12, atol=1e-12)
    top = lambda A: np.sort(np.linalg.eigvalsh(A))[-20:]
    np.testing.assert_allclose(top(found), top(K), rtol=1e-9)
