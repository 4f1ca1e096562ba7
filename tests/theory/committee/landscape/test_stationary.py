import numpy as np
import pytest

from learndyn.theory.committee.landscape import risk, stationary
from learndyn.theory.committee.landscape.stationary import realise, stationary_point


def families(most=5):
    for p in range(1, most + 1):
        for p_star in range(1, 5):
            for s in range(min(p, p_star) + 1):
                for r in range(p - s + 1 if s < p_star else 1):
                    yield p, p_star, s, r


@pytest.mark.parametrize("p, p_star, s, r", list(families()))
def test_gradient_vanishes_and_risk_is_right(p, p_star, s, r):
    point = stationary_point(p, p_star, s, r)
    V, V_star = realise(point, N=p_star + r + 2, seed=11)
    assert np.abs(risk.gradient(V, V_star)).max() < 1e-13
    assert abs(risk.risk(V, V_star) - point.risk) < 1e-13
    expected = np.sort([point.a] * s + [point.b] * r + [0.0] * (p - s - r))
    np.testing.assert_allclose(np.linalg.eigvalsh(V @ V.T), expected, atol=1e-13)
    np.testing.assert_allclose(V_star @ V_star.T, np.eye(p_star), atol=1e-14)
    assert np.linalg.matrix_rank(V @ V_star.T, tol=1e-10) == s


def test_reference_values():
    mixed = stationary_point(3, 2, s=1, r=1)
    assert (mixed.a, mixed.b, mixed.risk) == pytest.approx((1.875, 0.375, 0.625), rel=1e-15)
    mixed = stationary_point(5, 3, s=2, r=1)
    assert (mixed.a, mixed.b, mixed.risk) == pytest.approx((2.0, 1 / 3, 4 / 15), rel=1e-14)
    assert stationary_point(3, 2, s=0, r=3).risk == pytest.approx(1.4, rel=1e-15)
    assert stationary_point(3, 3, s=0, r=3).risk == pytest.approx(1.0666666666666664, rel=1e-15)
    assert stationary_point(3, 2, s=0, r=3).b == pytest.approx(0.6, rel=1e-15)
    assert stationary_point(4, 2, s=2, r=0).risk == pytest.approx(0, abs=1e-15)
    assert stationary_point(4, 2, s=0, r=0).risk == 2.0


def test_kinds():
    kinds = [stationary_point(3, 2, s, r).kind for s, r in ((0, 0), (0, 2), (1, 0), (1, 1), (2, 0))]
    assert kinds == ["zero", "uncorrelated", "correlated", "mixed", "zero_error"]


@pytest.mark.parametrize("seed", range(3))
def test_descent_ends_in_the_list(seed):
    # Fewer students than teachers: no zero-error point, and descent must stop at s = p, r = 0.
    rng = np.random.default_rng(seed)
    V, V_star = 0.3 * rng.standard_normal((2, 6)), np.eye(3, 6)
    for _ in range(2000):
        V = V - 0.1 * risk.gradient(V, V_star)
    point = stationary_point(2, 3, s=2, r=0)
    assert risk.risk(V, V_star) == pytest.approx(point.risk, abs=1e-12)
    np.testing.assert_allclose(np.linalg.eigvalsh(V @ V.T), [point.a] * 2, atol=1e-7)


def test_families_are_those_of_all_ranks():
    found = [
        (x.p, x.p_star, x.s, x.r)
        for p in range(1, 6)
        for q in range(1, 5)
        for x in stationary.families(p, q)
    ]
    assert found == list(families())
    assert max(x.r for x in stationary.families(5, 2, N=5)) == 3


def test_realise_is_reproducible():
    point = stationary_point(3, 2, s=1, r=1)
    for one, two in zip(realise(point, 8, seed=3), realise(point, 8, seed=3), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.allclose(realise(point, 8, seed=3)[0], realise(point, 8, seed=4)[0])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: stationary_point(3, 2, 3, 0), "s: got 3; allowed is 0 to .* = 2"),
        (lambda: stationary_point(3, 2, 2, 1), "r: got 1; allowed is 0 to 0"),
        (lambda: stationary_point(3, 2, 1, 3), "r: got 3; allowed is 0 to 2"),
        (lambda: stationary_point(0, 2, 0, 0), "p: got 0; allowed is a positive integer"),
        (lambda: realise(stationary_point(3, 2, 1, 2), 3), "N: got 3; allowed .* p_star . r = 4"),
    ],
)
def test_bad_sizes(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ranks_are_those_of_the_family():
    for point in stationary.families(4, 3, 8):
        assert stationary.ranks(*stationary.realise(point, 8, 1), 1e-3) == (point.s, point.r)


def test_a_blind_search_ends_at_zeros_of_the_gradient():
    rng = np.random.default_rng(0)
    for _ in range(5):
        V, V_star, left = stationary.search(6, 3, 2, rng)
        assert np.abs(risk.gradient(V, V_star)).max() == pytest.approx(left, abs=1e-14)
        if left < 1e-12:
            point = stationary.stationary_point(3, 2, *stationary.ranks(V, V_star, 1e-3))
            assert risk.risk(V, V_star) == pytest.approx(point.risk, abs=1e-13)
