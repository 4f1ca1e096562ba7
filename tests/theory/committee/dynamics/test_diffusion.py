"""The covariance of one SGD step: product quadrature, Monte Carlo, the drift as its mean."""

import functools

import numpy as np
import pytest
from scipy.special import erf

import learndyn as ld
from learndyn.theory.committee.dynamics import diffusion
from learndyn.theory.committee.setting import CommitteeSetting

ACTIVATIONS = {
    "linear": (lambda h: h, np.ones_like),
    "quadratic": (lambda h: h**2, lambda h: 2 * h),
    "erf": (lambda h: erf(h / 2**0.5), lambda h: (2 / np.pi) ** 0.5 * np.exp(-(h**2) / 2)),
}
STUDENT, TEACHER, NOISE, LOSS, ETA = 0.8, 0.6, 0.3, 0.7, 0.4


def system(activation, K=1, M=1, lam=(1.6, 0.5), counts=(40, 60), batch=1):
    teacher = ld.Committee(M, activation, scale=TEACHER)
    data = ld.TeacherStudent(ld.Spectrum(lam, counts), teacher, label_noise=NOISE, loss_scale=LOSS)
    return ld.System(data, ld.Committee(K, activation, scale=STUDENT), ld.SGD(ETA, batch=batch))


def overlaps(L, K, M, seed=0):
    F = np.random.default_rng(seed).standard_normal((L, K + M, K + M + 3))
    C = F @ F.swapaxes(1, 2) / (K + M + 3)
    return ld.Overlaps(C[:, :K, :K], C[:, :K, K:], C[:, K:, K:])


def increments(system, u, epsilon, state):
    """V of `theory.committee.dynamics.diffusion`, written out; u (points, L, d) standard normal."""
    setting = CommitteeSetting.of(system)
    lam, counts, K = setting.spectrum.values, setting.spectrum.counts, setting.student.units
    g, slope = ACTIVATIONS[setting.student.activation]
    factors = np.linalg.cholesky(lam[:, None, None] * state.gram)
    z = np.einsum("lmn,pln->plm", factors, u)
    x, y = z.sum(1)[:, :K], z.sum(1)[:, K:]
    xi = TEACHER * g(y).sum(1) - STUDENT * g(x).sum(1) + NOISE * epsilon
    delta, h = slope(x) * xi[:, None], 2 * LOSS * ETA * STUDENT
    Q, R = [], []
    for l in range(len(lam)):
        noise = h**2 * lam[l] * counts[l] / counts.sum() / setting.rule.batch
        for i in range(K):
            for j in range(i, K):
                drift = h * (delta[:, i] * z[:, l, j] + z[:, l, i] * delta[:, j])
                Q.append(drift + noise * delta[:, i] * delta[:, j])
            R.extend(h * delta[:, i] * z[:, l, n] for n in range(K, z.shape[2]))
    return np.stack(Q + R, axis=1)


def quadrature(system, state, nodes):
    """Mean and covariance of V by a product rule, exact for polynomials of degree 2·nodes − 1.

    Three nodes serve ε, in which V Vᵀ has the degree 4.
    """
    L, K, M = state.R.shape
    rule = functools.lru_cache(np.polynomial.hermite_e.hermegauss)
    axes = [rule(nodes)] * (L * (K + M)) + [rule(3)]
    grids = np.meshgrid(*(x for x, _ in axes), indexing="ij")
    weights = functools.reduce(np.multiply.outer, (w / w.sum() for _, w in axes)).reshape(-1)
    points = np.stack([grid.reshape(-1) for grid in grids], axis=1)
    V = increments(system, points[:, :-1].reshape(-1, L, K + M), points[:, -1], state)
    mean = weights @ V
    return mean, (V - mean).T @ (weights[:, None] * (V - mean))


CLOSED = [("linear", 1, 1, 2, 1), ("quadratic", 1, 1, 2, 3), ("quadratic", 2, 1, 1, 1)]


@pytest.mark.parametrize(("activation", "K", "M", "L", "batch"), CLOSED)
def test_closed_forms_are_exact(activation, K, M, L, batch):
    # V Vᵀ has degree 12 in each variable at most: 7 nodes leave no error but rounding.
    given = system(activation, K, M, (1.6, 0.5)[:L], (40, 60)[:L], batch)
    setting, state = CommitteeSetting.of(given), overlaps(L, K, M)
    mean, covariance = quadrature(given, state, 7)
    found = diffusion.step_moments(setting, state)
    np.testing.assert_allclose(found[0], mean, rtol=1e-11)
    np.testing.assert_allclose(found[1], covariance, rtol=1e-10)
    np.testing.assert_allclose(diffusion.diffusion(setting, state), covariance / batch, rtol=1e-10)
    assert diffusion.diffusion_error(setting, state) == 0


@pytest.mark.parametrize(("K", "M", "L", "nodes"), [(1, 1, 2, 20), (2, 1, 1, 48)])
def test_points_err_as_little_as_they_say(K, M, L, nodes):
    given = system("erf", K, M, (1.6, 0.5)[:L], (40, 60)[:L])
    setting, state = CommitteeSetting.of(given), overlaps(L, K, M)
    mean, covariance = quadrature(given, state, nodes)
    coarse = quadrature(given, state, nodes - 4)[1]
    size = np.linalg.norm(covariance)
    error = float(diffusion.diffusion_error(setting, state))
    assert np.linalg.norm(coarse - covariance) < 0.1 * error * size  # it has converged
    assert error < 0.01
    found = diffusion.step_moments(setting, state)
    # The stated error is a root mean square, estimated from one pair.
    assert np.linalg.norm(found[1] - covariance) < 4 * error * size
    apart = np.linalg.norm(
        found[0] - diffusion.step_moments(setting, state, seed=diffusion.SEED + 1)[0]
    )
    assert np.linalg.norm(found[0] - mean) < 4 * apart


ORDERS = [("linear", "full"), ("quadratic", "full"), ("quadratic", "flow"), ("erf", "full")]


@pytest.mark.parametrize(("activation", "order"), ORDERS)
def test_the_mean_of_a_step_is_the_drift(activation, order):
    given = system(activation, K=2, M=1, batch=2)
    setting, state = CommitteeSetting.of(given), overlaps(2, 2, 1)
    drift = diffusion.flatten(ld.theory_of(given).drift(state, order=order))
    mean = diffusion.step_moments(setting, state, order)[0]
    if activation == "erf":
        other = diffusion.step_moments(setting, state, order, diffusion.SEED + 1)[0]
        assert np.linalg.norm(mean - drift) < 4 * np.linalg.norm(mean - other)
    else:
        np.testing.assert_allclose(mean, drift, rtol=1e-11, atol=1e-13)


@pytest.mark.statistical
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_monte_carlo(activation):
    # Several units and levels together, in standard errors that come from the sample.
    given = system(activation, K=2, M=2)
    state, count = overlaps(2, 2, 2), 100_000
    rng = np.random.default_rng(5)
    V = increments(given, rng.standard_normal((count, 2, 4)), rng.standard_normal(count), state)
    V -= V.mean(axis=0)
    sampled = V.T @ V / (count - 1)
    errors = np.sqrt((V**2).T @ V**2 / count - sampled**2) / np.sqrt(count)
    covariance = diffusion.step_moments(CommitteeSetting.of(given), state)[1]
    errors = np.hypot(
        errors, diffusion.diffusion_error(CommitteeSetting.of(given), state) * np.abs(covariance)
    )
    assert np.abs((covariance - sampled) / errors).max() < 5


def test_the_vector_of_moving_variables():
    state = overlaps(2, 3, 2)
    vector = diffusion.flatten(state)
    assert vector.shape == (2 * (6 + 6),)
    np.testing.assert_array_equal(vector[:6], state.Q[0][np.triu_indices(3)])
    np.testing.assert_array_equal(vector[12:18], state.R[0].ravel())
    back = diffusion.unflatten(state, vector)
    for name in "QRT":
        np.testing.assert_array_equal(getattr(back, name), getattr(state, name))
    moved = diffusion.unflatten(state, 2 * vector)
    np.testing.assert_array_equal(moved.Q, 2 * state.Q)
    np.testing.assert_array_equal(moved.T, state.T)


def test_singular_overlaps_and_rules_that_do_not_sample():
    given = system("quadratic", 2, 2)
    same = np.stack([np.eye(2), 0.3 * np.eye(2)])
    perfect = ld.Overlaps(same, same, same)  # student = teacher: (Q, R; Rᵀ, T) is singular
    closed = diffusion.diffusion(CommitteeSetting.of(given), perfect)
    near = ld.Overlaps(same, same, same * (1 + 1e-9))
    np.testing.assert_allclose(
        closed, diffusion.diffusion(CommitteeSetting.of(given), near), atol=1e-7
    )
    descent = ld.System(given.problem, given.network, ld.GradientDescent(0.1))
    assert not np.any(diffusion.diffusion(CommitteeSetting.of(descent), perfect))
