"""Landmarks against the true vector field of the same system, in scales that are not a paper's."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.solving.fixed_points import jacobian_spectrum
from learndyn.theory.committee.plateau.erf import plateau_state

SPECTRUM = ld.PowerLaw(120, 3, 0.8)
TYPICAL = (SPECTRUM.counts / SPECTRUM.dim)[:, None, None]  # T of every level, without the norm


def system_of(K, M, activation, a, b, eta=0.2, std=1.0, loss_scale=0.5, batch=1, **network):
    teacher = ld.Committee(M, activation, scale=b, init=ld.Normal(std))
    data = ld.TeacherStudent(SPECTRUM, teacher, loss_scale=loss_scale)
    return ld.System(
        data, ld.Committee(K, activation, scale=a, **network), ld.SGD(eta, batch=batch)
    )


@pytest.mark.parametrize("K, a, b, std", [(3, 3**-0.5, 3**-0.5, 1.0), (2, 0.9, 0.4, 1.3)])
def test_erf_plateau(K, a, b, std):
    """The paper's scales, and others with K ≠ M: fixed, at that error, with that growth."""
    theory = ld.theory_of(system_of(K, 3, "erf", a, b, std=std, loss_scale=0.8))
    found = theory.landmarks()
    state = plateau_state(std**2 * TYPICAL * np.eye(3), SPECTRUM.values, K, b / (a * K))
    drift, seen = theory.drift(state, "flow"), theory.observe(state)
    assert max(np.abs(drift.Q).max(), np.abs(drift.R).max()) < 1e-15
    np.testing.assert_allclose(seen["R"], found["plateau_R"], rtol=1e-13)
    np.testing.assert_allclose(seen["Q"], found["plateau_Q"], rtol=1e-13)
    np.testing.assert_allclose(seen["error"], found["plateau_error"], rtol=1e-12)
    top = jacobian_spectrum(theory, state).rates[: 2 * (K - 1)] / 0.2
    np.testing.assert_allclose(top, found["plateau_growth_rate"], rtol=1e-9)
    assert found["escape_time_constant"] == pytest.approx(1 / found["plateau_growth_rate"])


def test_erf_escape_time_of_the_paper():
    """L = 10, β = 1/4, η = 0.1, M = 4: τ = 478.1 by Eq. 116 (239 in print, its half)."""
    net = lambda: ld.Committee(4, "erf", scale=0.5, init=ld.Typical())
    data = ld.TeacherStudent(ld.PowerLaw(7000, 10, 0.25), net())
    found = ld.theory_of(ld.System(data, net(), ld.SGD(0.1))).landmarks()
    assert found["escape_time_constant"] / 0.1 == pytest.approx(478.10648430259596, rel=1e-12)
    assert found["plateau_error"] == pytest.approx(0.007094315967593768, rel=1e-12)
    assert found["plateau_R"] == pytest.approx(0.1889822365046136, rel=1e-12)
    assert found["plateau_Q"] == pytest.approx(1 / 7, rel=1e-12)


def test_erf_late_stage():
    """Rates of the error are twice those of J − B; the critical η is where the top one is 0."""
    make = lambda eta, **rule: ld.theory_of(
        system_of(3, 3, "erf", 0.7, 0.7, eta=eta, std=1.2, loss_scale=0.8, **rule)
    )
    t = 1.44 * TYPICAL * np.eye(3)
    solution, found = ld.Overlaps(t, t, t), make(0.2).landmarks()
    flow = jacobian_spectrum(make(0.2), solution).rates.real / 0.2
    assert np.abs(flow + found["slow_rate"]).min() < 1e-12
    np.testing.assert_allclose(flow.min(), -found["fast_rate"], rtol=1e-10)
    edge = found["critical_learning_rate"]
    below, above = (
        jacobian_spectrum(make(f * edge), solution, "full").rates.real.max() for f in (0.999, 1.001)
    )
    assert below < 0 < above
    assert make(0.2, batch=2).landmarks()["critical_learning_rate"] == pytest.approx(2 * edge)


def test_erf_critical_learning_rate_of_one_unit():
    """K = M = 1, T = 1: ė = −2ηΦe + η² E[g'⁴] e with Φ = 2/(π√3), E[g'⁴] = 4/(π²√5)."""
    system = system_of(1, 1, "erf", 1.0, 1.0)
    edge = ld.theory_of(system).landmarks()["critical_learning_rate"]
    assert edge == pytest.approx(np.pi * np.sqrt(5 / 3), rel=1e-12)


def test_linear_critical_learning_rate_at_any_number_of_levels():
    make = lambda eta: ld.theory_of(
        system_of(2, 1, "linear", 0.6, 1.1, eta=eta, loss_scale=0.8, batch=2)
    )
    edge = make(1.0).landmarks()["critical_learning_rate"]
    assert edge == pytest.approx(2 / (0.8 * 0.36 * 2 * 1.0), rel=1e-12)  # Σ φ_l λ_l = 1
    state = ld.start(make(1.0).system).state
    # Directions that no output sees stay put: zeros of the Jacobian, of about 1e-8 by rounding.
    below, above = (
        jacobian_spectrum(make(f * edge), state, "full").rates.real.max() for f in (0.99, 1.01)
    )
    assert below < 1e-6 and above > 1e-3


def test_nothing_is_said_where_nothing_is_known():
    assert ld.theory_of(system_of(2, 2, "quadratic", 0.5, 0.5)).landmarks() == {}
    frozen = system_of(2, 2, "erf", 0.7, 0.7, trainable=40)
    assert ld.theory_of(frozen).landmarks() == {}
    different = ld.theory_of(system_of(3, 2, "erf", 0.7, 0.7)).landmarks()
    assert "slow_rate" not in different and "plateau_error" in different
    assert "plateau_error" not in ld.theory_of(system_of(1, 2, "erf", 0.7, 0.7)).landmarks()
