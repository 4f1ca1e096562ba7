"""Linear noise: closed forms of a variance, its scaling with N, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld
from learndyn.solving.fluctuations import integrate_with_noise
from learndyn.theory.dynamics import Explicit, Implicit


def linear(N, rule, noise=0.0):
    """K = M = 1, isotropic: e = Q − 2 R + T obeys a closed chain, and error = e / 2."""
    teacher = ld.Committee(1, "linear", init=ld.Typical())
    data = ld.TeacherStudent(ld.Isotropic(N), teacher, label_noise=noise)
    return ld.System(data, ld.Committee(1, "linear"), rule)


def solve(system, times, state, **options):
    begin = ld.start(system, state=state)
    return ld.solve(system, times, start=begin, fluctuations=True, **options)


FAR = ld.Overlaps([[0.7]], [[0.2]], [[1.0]])


@pytest.mark.parametrize(
    ("N", "order"),
    [
        (400, "full"),
        pytest.param(1_000_000, "full", marks=pytest.mark.slow),
        pytest.param(400, "flow", marks=pytest.mark.slow),
    ],
)
def test_linear_student_without_noise(N, order):
    # V_e = −r s² with s ~ N(0, e) and r = 2η − η² (2η for the flow): e decays at the rate r,
    # and dP/dα = −2 r P + 2 r² e²/N gives the relative standard deviation r √(2α/N).
    eta, times = 0.4, np.linspace(0, 6, 7)
    system = linear(N, ld.SGD(eta))
    record = solve(system, times, FAR, order=order, rtol=1e-12, atol=1e-14)
    r = 2 * eta - eta**2 * (order == "full")
    expected = record.error * r * np.sqrt(2 * times / N)
    np.testing.assert_allclose(record.error_std, expected, rtol=1e-6)
    assert record.error_std[0] == 0


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_linear_student_at_its_noise_floor(batch):
    # V_e = −2η s² + 2ησ s ε + (η²/b)(s − σε)², e = e* where its mean vanishes, and
    # P = (Cov[V_e]/b) (1 − exp(−2 r α)) / (2 r N).
    N, eta, sigma, times = 900, 0.6, 0.5, np.array([0.0, 0.3, 1.0, 10.0])
    r, k = 2 * eta - eta**2 / batch, eta**2 / batch
    e = k * sigma**2 / r
    state = ld.Overlaps([[1.0 + e]], [[1.0]], [[1.0]])  # Q − 2 R + T = e
    record = solve(linear(N, ld.SGD(eta, batch=batch), sigma), times, state)
    np.testing.assert_allclose(record.error, e / 2, rtol=1e-9)
    variance = 2 * r**2 * e**2 + (2 * eta - 2 * k) ** 2 * sigma**2 * e + 2 * k**2 * sigma**4
    P = variance / batch * (1 - np.exp(-2 * r * times)) / (2 * r * N)
    np.testing.assert_allclose(record.error_std, np.sqrt(P) / 2, rtol=1e-6)


def soft(N):
    spectrum = ld.Spectrum([1.5, 0.5], [N // 2, N // 2])
    data = ld.TeacherStudent(spectrum, ld.Committee(2, "erf", scale=0.7), label_noise=0.1)
    return ld.System(data, ld.Committee(2, "erf", scale=0.7), ld.SGD(1.0))


START = ld.Overlaps(
    np.stack([np.eye(2)] * 2), np.stack([[[0.4, 0.1], [0.0, 0.3]]] * 2), np.stack([np.eye(2)] * 2)
)


def test_a_record_with_fluctuations():
    """Same curves as without; standard deviations of every observable, ∝ N^(-1/2)."""
    times = [0.0, 1.0, 4.0]
    small, large = (solve(soft(N), times, START) for N in (100, 40_000))
    begin = ld.start(soft(100), state=START)
    plain = ld.solve(soft(100), times, start=begin)
    for name in ("Q", "R", "error"):
        np.testing.assert_allclose(small[name], plain[name], rtol=1e-6, atol=1e-8)
        std = small[f"{name}_std"]
        assert std.dims == small[name].dims and std.attrs["long_name"]
        assert not np.any(std[0]) and np.all(std[1:] > 0)
        np.testing.assert_allclose(std, 20 * large[f"{name}_std"], rtol=1e-6)
    np.testing.assert_allclose(small.Q_std, small.Q_std.values.swapaxes(1, 2), rtol=1e-9)


def test_a_rule_that_does_not_sample_has_none():
    record = solve(linear(100, ld.GradientDescent(0.5)), [0.0, 2.0], FAR)
    assert not np.any(record.error_std) and not np.any(record.R_std)


def test_large_states_are_refused():
    # 40 levels of 6 · 7 / 2 + 6 · 5 = 51 variables.
    data = ld.TeacherStudent(ld.PowerLaw(400, 40, 1.0), ld.Committee(5, "quadratic"))
    system = ld.System(data, ld.Committee(6, "quadratic"), ld.SGD(0.01))
    with pytest.raises(ValueError, match="fluctuations: got True for a state of 2040 variables"):
        ld.solve(system, [0, 1], fluctuations=True)


@pytest.mark.slow
def test_the_scheme_of_the_flow_does_not_matter():
    system = linear(400, ld.SGD(0.4), noise=0.1)
    theory = ld.theory_of(system)
    flow, noise = theory.dynamics("full"), theory.noise("full")
    numbers = np.array([0.5, 2.0]), np.asarray(1.0), 400.0, np.asarray(1e-8), np.asarray(1e-10)
    with jax.enable_x64(True):
        hows = Explicit(FAR), Implicit(FAR, flow.linearise)
        paths = [integrate_with_noise(theory, flow, noise, how, *numbers) for how in hows]
    explicit, implicit = (path.saved[0] for path in paths)
    for name, values in explicit.items():
        np.testing.assert_allclose(implicit[name], values, rtol=1e-5, atol=1e-9)


def test_a_dense_integration_gives_the_same():
    """State and covariance together, by SciPy; rates span a factor of 400."""
    N, times = 100, np.array([0.0, 0.05, 0.3, 2.0, 7.0, 7.1, 30.0])
    spectrum = ld.Spectrum([2.0, 0.1, 0.005], [20, 40, 40])
    data = ld.TeacherStudent(spectrum, ld.Committee(1, "quadratic"), label_noise=0.2)
    system = ld.System(data, ld.Committee(2, "quadratic"), ld.SGD(0.05))
    begin = ld.start(system, key=1)
    record = ld.solve(system, times, start=begin, fluctuations=True, states=True)
    theory = ld.theory_of(system)
    noise, state = theory.noise("full"), theory.as_state(begin.state)
    y0 = np.asarray(theory.vector(state))
    n = len(y0)

    def rates(y):
        v, P = y[:n], y[n:].reshape(n, n)
        drift = lambda v: theory.vector(theory.drift(theory.with_vector(state, v)))
        half = jax.jacfwd(drift)(v) @ P
        growth = half + half.T + noise.diffusion(theory.with_vector(state, v))
        return jnp.concatenate([drift(v), growth.ravel()])

    error = lambda v: theory.observe(theory.with_vector(state, v))["error"]
    with jax.enable_x64(True):
        field, slope = jax.jit(rates), jax.jit(jax.grad(error))
        start = np.concatenate([y0, np.zeros(n * n)])
        dense = solve_ivp(
            lambda t, y: np.asarray(field(y)), (0, 30), start, "DOP853", times,
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip
        slopes = [np.asarray(slope(y[:n])) for y in dense.y.T]
    expected = [
        np.sqrt(g @ y[n:].reshape(n, n) @ g / N) for g, y in zip(slopes, dense.y.T, strict=True)
    ]
    np.testing.assert_allclose(record.error_std, expected, rtol=1e-5, atol=1e-12)
    assert record.state_Q.shape == (len(times), 3, 2, 2)


def test_a_flow_that_diverges_has_spread_until_then():
    data = ld.TeacherStudent(ld.Isotropic(100), ld.Committee(1, "quadratic"))
    system = ld.System(data, ld.Committee(1, "quadratic"), ld.SGD(1.0))
    far = ld.Overlaps([[4.0]], [[0.2]], [[1.0]])
    record = solve(system, [0.0, 1e-4, 1e3], far)
    assert record.outcome == "diverged"
    assert np.all(np.isfinite(record.error_std[:2])) and record.error_std[1] > 0
    assert not np.isfinite(record.error_std[2])
