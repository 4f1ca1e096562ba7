"""The average of Eq. 88 over random frames: real frames, limits, power law."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.linalg import orthonormal_rows
from learndyn.theory.committee.power_law import features, given_frame, random_frame


@pytest.mark.statistical
@pytest.mark.parametrize("beta", [0.3, 1.0, 1.5])
def test_mean_over_frames(beta):
    N, frames, rng = 128, 60, np.random.default_rng(3)
    lam, sizes = ld.PowerLaw(N, N, beta).values, np.array([8, 16, 32, 64, 100])
    rows = []
    for _ in range(frames):
        W = orthonormal_rows(rng.standard_normal((N, N)))
        rows.append(given_frame.mean_asymptote(W * lam @ W.T, sizes, sigma_J=0.5))
    found, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(frames)
    expected = [random_frame.mean_asymptote(lam, int(n), sigma_J=0.5) for n in sizes]
    # Of order 1/N_l: what one direction more or less would change.
    one = [abs(features.local_exponent(int(n), L=N, beta=beta)) / n for n in sizes]
    assert np.all(np.abs(found - expected) < 4 * error + np.array(one) * expected)


def test_a_flat_spectrum_has_no_best_frame():
    lam = np.ones(50)
    for n in (1, 20, 50):
        found = random_frame.mean_asymptote(lam, n, sigma_J=0.5)
        expected = features.asymptote(lam, n, sigma_J=0.5)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("beta", [0.75, 1.0, 1.5])
def test_power_law_and_its_amplitude(beta):
    lam = ld.PowerLaw(10**6, 10**6, beta).values
    few, more = (random_frame.mean_asymptote(lam, n, sigma_J=0.0) for n in (100, 200))
    # Off by the finite N, (N_l/N)^β, and by the sum as an integral, of order 1/N_l.
    slack = (200 / 10**6) ** beta + 1 / 100
    assert np.log(more / few) / np.log(2) == pytest.approx(-beta, rel=2 * slack)
    ratio = few / features.asymptote(lam, 100, sigma_J=0.0)
    assert ratio == pytest.approx(random_frame.excess(beta), rel=2 * slack)
    assert random_frame.excess(1.0) == pytest.approx(np.pi**2 / 4, rel=1e-14)


def test_bad_input():
    with pytest.raises(ValueError, match="n_trainable: got 0"):
        random_frame.mean_asymptote(np.ones(4), 0, sigma_J=0.1)
