"""Landmarks against the true vector field of the same system, in scales that are not a paper's."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.networks import AbstractInitialisation
from learndyn.solving.fixed_points import jacobian_spectrum
from learndyn.theory.committee.plateau import erf_finite_rate
from learndyn.theory.committee.plateau.erf import plateau_state

SPECTRUM = ld.PowerLaw(120, 3, 0.8)
TYPICAL = (SPECTRUM.counts / SPECTRUM.dim)[:, None, None]  # T of every level, without the norm


def system_of(
    K, M, activation, a, b, eta=0.2, std=1.0, loss_scale=0.5, batch=1, noise=0.0, **network
):
    teacher = ld.Committee(M, activation, scale=b, init=ld.Normal(std))
    data = ld.TeacherStudent(SPECTRUM, teacher, loss_scale=loss_scale, label_noise=noise)
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


@pytest.mark.parametrize(
    "K, a, b, rule, noise",
    [(3, 3**-0.5, 3**-0.5, {"eta": 1.0}, 0.0), (2, 0.9, 0.4, {"eta": 1.5, "batch": 2}, 0.1)],
)
def test_erf_plateau_at_the_own_learning_rate(K, a, b, rule, noise):
    """A fixed point of all levels, and the eigenvalue of the whole Jacobian that specialises."""
    system = system_of(K, 3, "erf", a, b, std=1.3, loss_scale=0.8, noise=noise, **rule)
    theory, eta = ld.theory_of(system), rule["eta"]
    found = theory.landmarks()
    sigma = erf_finite_rate.plateau(theory._setting).covariance  # Σ φ_l λ_l = 1
    parts = (sigma[:K, :K], sigma[:K, K:], sigma[K:, K:])
    state = ld.Overlaps(*(TYPICAL * part for part in parts))
    drift = theory.drift(state, "full")
    assert max(np.abs(drift.Q).max(), np.abs(drift.R).max()) < 1e-12
    assert sigma[0, 0] > sigma[0, 1] + 1e-3  # noise drives students apart
    assert float(theory.observe(state)["error"]) == pytest.approx(found["plateau_error_full"])
    rates = jacobian_spectrum(theory, state, "full").rates.real / eta
    same = np.abs(rates / found["plateau_growth_rate_full"] - 1) < 1e-7
    assert np.sum(same) == 2 * (K - 1)  # x and e of zero sum
    assert same[0] and rates[0] > 0
    assert found["escape_time_constant_full"] == pytest.approx(1 / rates[0], rel=1e-7)


def test_erf_plateau_tends_to_its_limit():
    """What η adds to the error and to the rate halves with η."""
    marks = [
        ld.theory_of(system_of(3, 3, "erf", 0.6, 0.6, eta=eta)).landmarks() for eta in (0.1, 0.05)
    ]
    for name in ("plateau_error", "plateau_growth_rate"):
        more = [each[f"{name}_full"] / each[name] - 1 for each in marks]
        assert 0 < abs(more[0]) < 0.1 and more[0] / more[1] == pytest.approx(2, abs=0.1)
    none = system_of(3, 3, "erf", 0.6, 0.6)
    none = ld.System(none.problem, none.network, ld.GradientDescent(1.0))
    whole = ld.theory_of(none).landmarks()
    assert whole["plateau_error_full"] == whole["plateau_error"]


def test_trained_committees_stay_at_the_plateau_of_their_own_learning_rate():
    """Eight runs at N = 4000 and η = 1, from small students; the limit η → 0 is a quarter lower."""
    net = lambda **law: ld.Committee(3, "erf", scale=3**-0.5, **law)
    data = ld.TeacherStudent(ld.Isotropic(4000), net(init=ld.Typical()))
    system = ld.System(data, net(init=ld.Normal(0.1)), ld.SGD(1.0))
    found = ld.theory_of(system).landmarks()
    runs = ld.simulate(system, np.linspace(15, 25, 11), runs=8, method="reduced")
    assert float(runs.error.mean()) == pytest.approx(found["plateau_error_full"], rel=0.02)
    assert found["plateau_error"] < 0.8 * found["plateau_error_full"]
    units = ld.theory_of(system).landmark_units()
    limits = {
        name for name, unit in units.items() if unit.endswith("in the limit learning rate → 0")
    }
    assert {"plateau_error", "escape_time_constant", "slow_rate"} <= limits
    assert not any(name.endswith("_full") for name in limits) and set(units) == set(found)


def test_above_some_learning_rate_there_is_no_plateau():
    found = ld.theory_of(system_of(3, 3, "erf", 0.6, 0.6, eta=50.0)).landmarks()
    assert "plateau_error" in found and not any(name.endswith("_full") for name in found)


def test_quadratic_plateau_with_label_noise():
    """The norm at which the drift vanishes, and the error there; none beyond `plateau_end`."""
    teacher = ld.Committee(2, "quadratic", scale=0.4, init=ld.Normal(1.2))
    data = ld.TeacherStudent(ld.Isotropic(100), teacher, label_noise=0.5, loss_scale=0.7)
    make = lambda eta: ld.theory_of(
        ld.System(data, ld.Committee(3, "quadratic", scale=0.5), ld.SGD(eta))
    )
    theory, found = make(0.05), make(0.05).landmarks()
    q = found["plateau_norm"]
    state = ld.Overlaps(q * np.eye(3), np.zeros((3, 2)), 1.44 * np.eye(2))
    assert np.abs(theory.drift(state).Q).max() < 1e-12 and q > found["norm_fixed_point"]
    error = float(theory.observe(state)["error"])
    assert error == pytest.approx(found["plateau_error_full"], rel=1e-12)
    assert found["plateau_error"] < found["plateau_error_full"]
    rates = jacobian_spectrum(theory, state, "full").rates.real / 0.05
    assert np.abs(rates - found["plateau_growth_rate"]).min() < 1e-9
    assert theory.landmark_units()["plateau_error"] == "1, in the limit learning rate → 0"
    assert theory.landmark_units()["plateau_growth_rate"] == "1 / (learning rate × steps / N)"
    beyond = make(2.0).landmarks()
    assert "plateau_error" in beyond and not {"plateau_norm", "plateau_error_full"} & set(beyond)


class Same(AbstractInitialisation):
    """A law whose rows are all alike."""

    @property
    def variance(self):
        return 1.0

    def sample(self, rng, units, dim):
        return np.tile(rng.standard_normal((1, dim)), (units, 1))


def test_landmarks_of_independent_teachers_are_not_those_of_any_law():
    system = lambda activation: ld.System(
        ld.TeacherStudent(ld.Isotropic(50), ld.Committee(2, activation, init=Same())),
        ld.Committee(2, activation), ld.SGD(0.1),
    )  # fmt: skip
    assert ld.theory_of(system("erf")).landmarks() == {}
    assert ld.theory_of(system("quadratic")).landmarks() == {}
    assert set(ld.theory_of(system("linear")).landmarks()) == {"critical_learning_rate"}


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
