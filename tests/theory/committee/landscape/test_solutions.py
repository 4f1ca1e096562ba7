import numpy as np
import pytest

from learndyn.numerics import stiefel
from learndyn.theory.committee.landscape import risk, solutions
from learndyn.theory.committee.landscape.solutions import distance, is_conserved, polar_factor

EPS = np.finfo(float).eps

RHO0 = np.array(
    [
        [-0.017, 0.0449, -0.0684],
        [0.0067, -0.0394, -0.0978],
        [0.0646, 0.018, 0.0015],
        [-0.0433, -0.0979, 0.0398],
        [-0.0406, 0.0863, -0.0414],
        [-0.023, -0.0126, -0.0178],
    ]
)
S_REFERENCE = np.array(
    [
        [-0.17355116449804625, 0.24286839614029027, -0.4703402991812152],
        [0.14096565119193105, -0.41587644091873954, -0.8236365777393676],
        [0.6943918529866011, 0.09997610653854197, 0.0033559974799517727],
        [-0.44325067139803986, -0.6331248528765715, 0.20598757290043856],
        [-0.46459093005380225, 0.5887515604333737, -0.19217569264995485],
        [-0.23561142376415067, -0.10291271507294932, -0.14501431316225],
    ]
)
RHO_INFINITY_ROW0 = [-0.24543841059878102, 0.3434677796934, -0.6651616300326938]


def conservation_cases():
    """name -> (Q0, rho0, T, whether S is conserved), p = 4 and p* = 2."""
    rng = np.random.default_rng(0)
    p, q = 4, 2
    rho = 0.2 * rng.standard_normal((p, q))
    U, _, Vt = np.linalg.svd(rho)
    flat = 0.25 * stiefel.random_point(p, q, rng)
    F = np.linalg.svd(flat)[0]
    tilted = np.diag([1.4, 0.6])
    S = polar_factor(flat)
    A = np.array([[1.0, 0.3], [0.3, 0.8]])
    inside = S @ A @ S.T + F[:, q:] @ np.diag([0.7, 1.2]) @ F[:, q:].T
    weak = np.diag([1.1, 0.9])
    cancelling = p * (Vt.T @ np.diag([0.70, 0.75]) @ Vt - weak / q)
    cancelling = U[:, :q] @ Vt @ cancelling @ Vt.T @ U[:, :q].T + U[:, q:] @ U[:, q:].T
    leaking = np.diag([0.6, 1.3, 0.9, 1.1])
    leaking[0, 2] = leaking[2, 0] = 0.3
    aligned_Q = U @ np.diag([0.6, 1.3, 0.9, 1.1]) @ U.T
    return {
        "orthonormal": (np.eye(p), rho, np.eye(q), True),
        "T = 2I": (np.eye(p), rho, 2 * np.eye(q), True),
        "Q0 commutes": (aligned_Q, rho, np.eye(q), True),
        "Q0 and T commute": (aligned_Q, rho, Vt.T @ tilted @ Vt, True),
        "equal singular values, T = I": (inside, flat, np.eye(q), True),
        "equal singular values, Q0 = I": (np.eye(p), flat, tilted, True),
        "Q0 = diag": (np.diag(np.linspace(0.5, 1.5, p)), rho, np.eye(q), False),
        "T = diag": (np.eye(p), rho, tilted, False),
        "Q0 leaves the column space": (U @ leaking @ U.T, rho, np.eye(q), False),
        # Q0 commutes with rho rhoᵀ and T with rhoᵀ rho, but not Q0 with rho T rhoᵀ.
        "equal singular values, neither": (inside, flat, tilted, False),
        # dS/dt = 0 at t = 0 only.
        "cancelling at first": (cancelling, rho, weak, False),
    }


CASES = conservation_cases()


def test_polar_factor_reference():
    np.testing.assert_allclose(polar_factor(RHO0), S_REFERENCE, atol=1e-14)


def test_polar_factor_is_the_inverse_square_root():
    rho = np.random.default_rng(1).standard_normal((5, 4, 2, 3, 3))
    values, vectors = np.linalg.eigh(np.swapaxes(rho, -1, -2) @ rho)
    root = (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    # The square in rhoᵀ rho costs the comparison two powers of the condition number.
    bound = 16 * EPS * values[..., -1] / values[..., 0]
    assert np.all(np.abs(polar_factor(rho) - rho @ root).max((-1, -2)) < bound)
    np.testing.assert_array_equal(polar_factor(rho)[2, 1, 0], polar_factor(rho[2, 1, 0]))


@pytest.mark.parametrize("T", [None, np.diag([1.4, 1.0, 0.6])])
@pytest.mark.parametrize("seed", range(4))
def test_direct_minimisation_finds_the_polar_factor(seed, T):
    rng = np.random.default_rng(seed)
    p, q = RHO0.shape

    def objective(S):
        TS = S if T is None else S @ T
        G = 2 * p / q * TS - 2 * np.sqrt(p / q) * RHO0
        return distance(S, RHO0, np.eye(p), T), G

    found = stiefel.minimise(objective, stiefel.random_point(p, q, rng))
    assert found.converged
    # The Hessian of D on the manifold is at least 2 sqrt(p/p*) times the smallest singular value.
    stiffness = 2 * np.sqrt(p / q) * np.linalg.svd(RHO0, compute_uv=False)[-1]
    error = np.linalg.norm(found.point - polar_factor(RHO0))
    assert error < 2 * found.gradient_norm / stiffness + 64 * EPS / stiffness


def test_direct_minimisation_square():
    # O(3) has two components: the better of their two minima is the polar factor.
    rng = np.random.default_rng(5)
    rho = 0.1 * rng.standard_normal((3, 3))
    S0 = stiefel.random_point(3, 3, rng)
    starts = (S0, S0 * [-1, 1, 1])
    runs = [stiefel.minimise(lambda S: (-np.sum(S * rho), -rho), start) for start in starts]
    best = min(runs, key=lambda run: run.value)
    np.testing.assert_allclose(best.point, polar_factor(rho), atol=1e-10)


@pytest.mark.parametrize("general", [False, True])
def test_overlaps_and_distance_are_those_of_weights(general):
    N, p, q = 9, 4, 2
    rng = np.random.default_rng(6)
    V_star = stiefel.random_point(N, q, rng).T
    if general:
        V_star = rng.standard_normal((q, q)) @ V_star
    T = V_star @ V_star.T if general else None
    V0, S = rng.standard_normal((p, N)), stiefel.random_point(p, q, rng)
    V = np.sqrt(p / q) * S @ V_star
    rho_bar, Q_bar = solutions.solution_overlaps(S, T)
    np.testing.assert_allclose(rho_bar, V @ V_star.T, atol=1e-13)
    np.testing.assert_allclose(Q_bar, V @ V.T, atol=1e-13)
    assert risk.risk(V, V_star) < 1e-13
    expected = np.sum((V - V0) ** 2)
    assert distance(S, V0 @ V_star.T, V0 @ V0.T, T) == pytest.approx(expected, rel=1e-13)


def test_overlaps_reference_and_batch():
    rho_bar, Q_bar = solutions.solution_overlaps(polar_factor(RHO0))
    np.testing.assert_allclose(rho_bar[0], RHO_INFINITY_ROW0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.eigvalsh(Q_bar), [0, 0, 0, 2, 2, 2], atol=1e-14)
    stacked = solutions.solution_overlaps(np.stack([S_REFERENCE, -S_REFERENCE]))
    assert stacked[0].shape == (2, 6, 3) and stacked[1].shape == (2, 6, 6)


@pytest.mark.parametrize("eta", [0.0, 0.1])
@pytest.mark.parametrize("name", list(CASES))
def test_conservation_is_what_the_equations_do(quadratics, name, eta):
    Q0, rho0, T, conserved = CASES[name]
    assert np.linalg.eigvalsh(np.block([[T, rho0.T], [rho0, Q0]])).min() > 0
    assert is_conserved(Q0, rho0, T) is conserved
    S = polar_factor(quadratics.overlap_flow(Q0, rho0, T, 40.0, eta)[0])
    drift = np.abs(S - S[0]).max()
    # The integrator keeps 1e-11 a step; what is not conserved must stand far above that.
    assert drift < 1e-9 if conserved else drift > 1e-3


def test_cancelling_start_is_at_rest_at_first():
    Q0, rho0, T, _ = CASES["cancelling at first"]
    p, q = rho0.shape
    m = np.trace(T) / q - np.trace(Q0) / p
    drho = 4 / p * (m * rho0 + 2 * (rho0 @ T / q - Q0 @ rho0 / p))
    h = 1e-4
    moved = (polar_factor(rho0 + h * drho) - polar_factor(rho0 - h * drho)) / (2 * h)
    assert np.abs(moved).max() < 1e-11


def test_nearest_solution_is_reached_only_where_S_is_conserved(quadratics):
    rng = np.random.default_rng(7)
    rho0, Q0 = 0.1 * rng.standard_normal((2, 2)), np.eye(2)
    for T, nearest in ((np.eye(2), True), (np.diag([1.4, 0.6]), False)):
        rho, Q = quadratics.overlap_flow(Q0, rho0, T, 60.0)
        S = polar_factor(rho[-1])
        # p = p*: the approach is exponential, and the end is the solution of its own S.
        rho_bar, Q_bar = solutions.solution_overlaps(S, T)
        np.testing.assert_allclose(rho[-1], rho_bar, atol=1e-8)
        np.testing.assert_allclose(Q, Q_bar, atol=1e-8)
        gap = distance(S, rho0, Q0, T) - distance(polar_factor(rho0), rho0, Q0, T)
        assert abs(gap) < 1e-9 if nearest else gap > 1e-4


def test_overparameterised_run_ends_at_the_reference(quadratics):
    rho, Q = quadratics.overlap_flow(np.eye(6), RHO0, np.eye(3), 200.0)
    np.testing.assert_allclose(
        polar_factor(rho), np.broadcast_to(S_REFERENCE, rho.shape), atol=1e-9
    )
    # For p > p* the approach is algebraic: rho = rho_bar (1 + p* m/4), m = 1 − tr Q/p = O(1/t).
    m = 1 - np.trace(Q) / 6
    rho_bar = solutions.solution_overlaps(S_REFERENCE)[0]
    assert np.linalg.norm(rho[-1] - rho_bar) < abs(m) * np.linalg.norm(rho_bar)


def test_conservation_sees_small_singular_values():
    # Two small singular values turn as fast as two large ones: a test on rho rhoᵀ misses them.
    rho0 = np.diag([1.0, 2e-6, 1e-6])
    Q0 = np.eye(3)
    Q0[1, 2] = Q0[2, 1] = 0.3
    assert not is_conserved(Q0, rho0)
    assert is_conserved(np.diag([1.0, 2.0, 3.0]), rho0)


@pytest.mark.parametrize("T", [None, np.diag([1.4, 1.0, 0.6])])
def test_distance_gradient_is_that_of_differences(T):
    rng = np.random.default_rng(10)
    S, U = rng.standard_normal((2, 6, 3))
    # Central differences are exact for a quadratic function.
    ahead, behind = (distance(S + h * U, RHO0, np.eye(6), T) for h in (0.5, -0.5))
    expected = np.sum(U * solutions.distance_gradient(S, RHO0, T))
    assert ahead - behind == pytest.approx(expected, rel=64 * EPS, abs=64 * EPS * ahead)


def test_nearest_weights_are_a_solution_and_none_is_nearer():
    rng = np.random.default_rng(11)
    V, V_star = rng.standard_normal((4, 7)), rng.standard_normal((2, 7))
    nearest = solutions.nearest_weights(V, V_star)
    np.testing.assert_allclose(nearest.T @ nearest / 4, V_star.T @ V_star / 2, atol=1e-14)
    np.testing.assert_allclose(solutions.nearest_weights(nearest, V_star), nearest, atol=1e-13)
    others = [np.sqrt(2) * stiefel.random_point(4, 2, rng) @ V_star for _ in range(200)]
    assert np.linalg.norm(nearest - V) < min(np.linalg.norm(other - V) for other in others)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: polar_factor(np.ones((2, 3))), r"rho: got shape \(2, 3\); allowed .* p >= p"),
        (lambda: polar_factor(np.ones((3, 2))), "rho: got smallest .* allowed is full column rank"),
        (lambda: polar_factor(np.zeros((4, 3, 2))), "rho: got smallest singular value 0"),
        (lambda: distance(RHO0[:3], RHO0, np.eye(6)), r"S: got shape \(3, 3\); allowed"),
        (lambda: distance(RHO0, RHO0, np.eye(3)), r"Q0: got shape \(3, 3\); allowed is \(6, 6\)"),
        (lambda: is_conserved(np.eye(6), RHO0, np.eye(2)), r"T: got shape \(2, 2\); allowed"),
        (lambda: is_conserved(np.eye(6), RHO0[None]), r"rho0: got shape \(1, 6, 3\); allowed"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("p", "p_star"), [(4, 2), (3, 3)])
def test_descents_find_the_distance_of_the_polar_factor(p, p_star):
    rng = np.random.default_rng(p)
    rho, Q, T = rng.standard_normal((p, p_star)), np.eye(p), np.diag(np.linspace(0.6, 1.4, p_star))
    nearest = distance(polar_factor(rho), rho, Q, T)
    found = solutions.least_distance(rho, Q, T, 3, rng)
    np.testing.assert_allclose(found, nearest, rtol=1e-12)


def test_norms_outside_the_teacher():
    rng = np.random.default_rng(0)
    W, W_star = rng.standard_normal((2, 5, 7)), np.eye(3, 7)
    Q, rho = W @ np.swapaxes(W, 1, 2), W @ W_star.T
    np.testing.assert_allclose(solutions.norm_outside(Q, rho), np.sum(W[..., 3:] ** 2, (1, 2)))
    # At a solution nothing is spare; what stands across it is, once.
    S = polar_factor(rho)
    solved = solutions.solution_overlaps(S)[1]
    np.testing.assert_allclose(solutions.spare_norm(solved, 3), 0.0, atol=1e-14)
    across = np.eye(5) - S @ np.swapaxes(S, 1, 2)
    np.testing.assert_allclose(solutions.spare_norm(solved + 0.1 * across, 3), 0.1)
    assert np.isnan(solutions.spare_norm(np.eye(3), 3))
