import numpy as np
import pytest

from learndyn.numerics import linalg
from learndyn.theory.committee.landscape import risk, spectra, stationary
from learndyn.theory.committee.landscape.spectra import predicted_spectrum
from learndyn.theory.committee.landscape.stationary import realise, stationary_point

SIZES = [(12, 3, 2), (15, 5, 3), (10, 2, 2), (9, 4, 1)]
POINTS = [x for p in range(1, 6) for q in range(1, 5) for x in stationary.families(p, q)]


# (N, p, p*) -> kind -> (eigenvalue, multiplicity), worked out independently of this package.
REFERENCE = {
    (12, 3, 2): {
        "tabula_rasa": [(-2.6666666666666665, 6), (-1.3333333333333333, 30)],
        "plateau": [
            (-1.3333333333333333, 6),
            (0.0, 24),
            (1.0666666666666667, 5),
            (2.6666666666666665, 1),
        ],
        "zero_error": [
            (0.0, 13),
            (1.3333333333333333, 20),
            (2.6666666666666665, 2),
            (5.333333333333333, 1),
        ],
        "aligned": [
            (-1.7777777777777777, 2),
            (-0.4444444444444444, 20),
            (0.0, 3),
            (1.3333333333333333, 10),
            (5.333333333333333, 1),
        ],
    },
    (10, 2, 2): {
        "tabula_rasa": [(-4.0, 4), (-2.0, 16)],
        "plateau": [(-2.0, 4), (0.0, 13), (2.0, 2), (4.0, 1)],
        "zero_error": [(0.0, 1), (2.0, 16), (4.0, 2), (8.0, 1)],
        "aligned": [
            (-2.6666666666666665, 1),
            (-0.6666666666666666, 8),
            (0.0, 2),
            (2.0, 8),
            (8.0, 1),
        ],
    },
}


def ranks(kind, p, p_star):
    table = {"tabula_rasa": (0, 0), "plateau": (0, p), "zero_error": (p_star, 0), "aligned": (1, 0)}
    return table[kind]


def assert_same_spectrum(found, expected):
    assert [count for _, count in found] == [count for _, count in expected]
    # Eigenvalues of an n × n matrix are found to a few n ε |H|; here n <= 75 and |H| <= 25.
    np.testing.assert_allclose([v for v, _ in found], [v for v, _ in expected], atol=1e-12)


@pytest.mark.parametrize("kind", spectra.KINDS)
@pytest.mark.parametrize("N, p, p_star", SIZES)
def test_spectrum_by_diagonalisation(N, p, p_star, kind):
    point = stationary_point(p, p_star, *ranks(kind, p, p_star))
    found = linalg.distinct_eigenvalues(risk.hessian(*realise(point, N, seed=12)))
    predicted = predicted_spectrum(kind, N, p, p_star)
    assert_same_spectrum(found, predicted)
    assert sum(count for _, count in predicted) == p * N


@pytest.mark.parametrize("kind", spectra.KINDS)
@pytest.mark.parametrize("sizes", list(REFERENCE))
def test_spectrum_against_reference(sizes, kind):
    assert_same_spectrum(predicted_spectrum(kind, *sizes), REFERENCE[sizes][kind])


@pytest.mark.parametrize("kind, sizes", [("zero_error", (3, 6, 2)), ("aligned", (3, 5, 3))])
def test_spectrum_with_more_units_than_inputs(kind, sizes):
    N, p, p_star = sizes
    point = stationary_point(p, p_star, *ranks(kind, p, p_star))
    found = linalg.distinct_eigenvalues(risk.hessian(*realise(point, N, seed=13)))
    assert_same_spectrum(found, predicted_spectrum(kind, *sizes))


def test_one_teacher_makes_aligned_and_zero_error_the_same():
    assert predicted_spectrum("aligned", 9, 4, 1) == predicted_spectrum("zero_error", 9, 4, 1)


@pytest.mark.parametrize("point", POINTS, ids=lambda x: f"{x.p}-{x.p_star}-{x.s}-{x.r}")
def test_full_spectrum_by_diagonalisation(point):
    N = point.p_star + point.r + 2
    found = linalg.distinct_eigenvalues(risk.hessian(*realise(point, N, seed=15)))
    predicted = spectra.full_spectrum(point, N)
    assert_same_spectrum(found, predicted)
    assert sum(count for _, count in predicted) == point.p * N
    negative = sum(count for value, count in found if value < 0)
    assert spectra.negative_directions(point, N) == negative


@pytest.mark.parametrize("kind", spectra.KINDS)
@pytest.mark.parametrize("N, p, p_star", SIZES)
def test_full_spectrum_holds_the_four_of_the_paper(N, p, p_star, kind):
    point = stationary_point(p, p_star, *ranks(kind, p, p_star))
    assert_same_spectrum(spectra.full_spectrum(point, N), predicted_spectrum(kind, N, p, p_star))


def test_mixed_points_are_saddles():
    point = stationary_point(3, 2, s=1, r=1)
    values = [v for v, _ in linalg.distinct_eigenvalues(risk.hessian(*realise(point, 10, seed=14)))]
    assert values[0] < 0 < values[-1]


@pytest.mark.parametrize("N, p, p_star", [*SIZES, (20, 3, 2), (20, 3, 3)])
def test_ratio_counts_the_plateau_spectrum(N, p, p_star):
    counts = {np.sign(v): n for v, n in predicted_spectrum("plateau", N, p, p_star)[:2]}
    ratio = spectra.negative_to_null_ratio(N, p, p_star)
    assert ratio == pytest.approx(counts[-1] / counts[0], rel=1e-15)


def test_ratio_reference_and_extreme():
    assert spectra.negative_to_null_ratio(20, 3, 2) == 0.125
    assert spectra.negative_to_null_ratio(20, 3, 3) == 0.2
    assert spectra.negative_to_null_ratio(20, 18, 2) == pytest.approx(4 / 17, rel=1e-15)
    assert spectra.negative_to_null_ratio(2, 1, 1) == float("inf")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: spectra.full_spectrum(stationary_point(3, 2, 1, 2), 3), "N: got 3; allowed"),
        (lambda: predicted_spectrum("peak", 9, 3, 2), "kind: got 'peak'; allowed is one of"),
        (lambda: predicted_spectrum("plateau", 4, 3, 2), "N: got 4; allowed .* p . p_star = 5"),
        (lambda: predicted_spectrum("zero_error", 9, 2, 3), "p: got 2; allowed .* p_star = 3"),
        (lambda: predicted_spectrum("tabula_rasa", 2, 3, 3), "N: got 2; allowed .* p_star = 3"),
        (lambda: spectra.negative_to_null_ratio(4, 3, 2), "N: got 4; allowed"),
    ],
)
def test_bad_sizes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
