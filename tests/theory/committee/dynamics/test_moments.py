"""The moment formulation equals the level-resolved one, until rounding parts them."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

import learndyn as ld
from learndyn.numerics.gaussian import ACTIVATIONS
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics import moments

LAM, PHI, ETA = np.array([1.9, 0.7, 0.4]), np.array([0.2, 0.3, 0.5]), 0.4


def system_of(K, M, activation="erf", spectrum=None, eta=ETA):
    spectrum = spectrum or ld.Spectrum(LAM, (100 * PHI).astype(int))
    data = ld.TeacherStudent(spectrum, ld.Committee(M, activation, scale=M**-0.5))
    return ld.System(data, ld.Committee(K, activation, scale=M**0.5 / K), ld.SGD(eta))


_drift = eqx.filter_jit(lambda theory, state, order: theory.drift(state, order))


def powers(blocks, lam):
    return np.stack([np.einsum("k,kij->ij", lam**l, blocks) for l in range(len(lam))])


def test_reference_field():
    """K = M = 1, L = 2, brute-force averages."""
    lam, phi = np.array([1.6, 0.4]), [0.5, 0.5]
    column = lambda a, b: np.array([[[a]], [[b]]])
    q, r, t = column(0.072808, 0.158233), column(0.061583, 0.01425), column(0.319167, 0.401667)
    state = moments.moments_of(ld.Overlaps(q, r, t), lam)
    found = moments.drift(state, lam, phi, 0.5)
    np.testing.assert_allclose(found.R.ravel(), [0.12638851664093417, 0.16011648963747516])
    np.testing.assert_allclose(found.Q.ravel(), [-0.007231343779053191, 0.014926698739510746])
    np.testing.assert_allclose(moments.error(state, lam), 0.1329696970195154)


@pytest.mark.parametrize("activation", ["erf", "linear"])
def test_field_is_that_of_the_levels(activation):
    """K ≠ M; the printed Eqs. 18 and 19 give other numbers."""
    system = system_of(3, 2, activation)
    theory, levels = ld.theory_of(system), ld.start(system, key=1).state
    state = moments.moments_of(levels, LAM)
    for order in ("flow", "full"):
        found = moments.drift(state, LAM, PHI, ETA, activation, order)
        with jax.enable_x64(True):
            true = _drift(theory, levels, order)
        np.testing.assert_allclose(found.R, powers(true.R, LAM), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.Q, powers(true.Q, LAM), rtol=1e-12, atol=1e-14)
        assert not np.any(found.T)
    error = theory.observe(levels)["error"]
    np.testing.assert_allclose(moments.error(state, LAM, activation), error, rtol=1e-12)
    printed = errata.printed_eq18(state, LAM, PHI, ETA, activation)
    assert np.abs(printed.R / found.R - 1).max() > 0.1
    assert np.abs(printed.Q - found.Q).max() > 1e-3 * np.abs(found.Q).max()
    assert abs(errata.printed_eq19(state, LAM, activation) / error - 1) > 0.1


def test_linear_unit_has_the_matrices_of_the_paper():
    """Eqs. 26 to 29 for K = M = 1, T^(l) = ν_l: dR = η(A₁R + u), dQ = η(A₃R + A₄Q + ηu)."""
    rng = np.random.default_rng(0)
    A1, u = moments.companion(LAM), moments.traces(LAM, PHI)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(A1).real), np.sort(-LAM), rtol=1e-12)
    R, Q, T = rng.standard_normal(3), rng.standard_normal(3), np.append(1.0, u[:2])
    column = lambda a: a[:, None, None]
    state = moments.Moments(column(Q), column(R), column(T))
    found = moments.drift(state, LAM, PHI, ETA, "linear")
    # Eq. 26 takes T^(1) = 1 in the η² term; here it is u[0].
    U = np.outer(u, [0, 1, 0])
    dQ = (-2 * A1 - 2 * ETA * U) @ R + (2 * A1 + ETA * U) @ Q + ETA * u[0] * u
    np.testing.assert_allclose(found.R.ravel(), ETA * (A1 @ R + u), rtol=1e-12)
    np.testing.assert_allclose(found.Q.ravel(), ETA * dQ, rtol=1e-12)


@pytest.mark.slow
def test_solutions_part_as_the_powers_grow():
    """Same curve to the integrator's tolerance at L = 2; ten levels amplify it a hundredfold."""
    gaps = {L: _gap(L) for L in (2, 10)}
    assert gaps[2] < 1e-9
    assert gaps[10] > 10 * gaps[2]


def _gap(L):
    """|ΔR^(1)| at α = 100 of the two formulations integrated alike, flow, K = M = 2."""
    system = system_of(2, 2, spectrum=ld.PowerLaw(1000 * L, L, 1.0))
    theory, spectrum = ld.theory_of(system), system.problem.inputs.spectrum
    lam, phi, levels = spectrum.values, spectrum.counts / 1000 / L, ld.start(system).state
    one = _integrate(lambda y: theory.drift(y, "flow"), levels)
    two = _integrate(
        lambda y: moments.drift(y, lam, phi, ETA, "erf", "flow"), moments.moments_of(levels, lam)
    )
    return np.abs(two.R[1] - np.einsum("k,kij->ij", lam, one.R)).max()


def _integrate(field, start, alpha=100.0):
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(start)
        rhs = jax.jit(lambda _, x: ravel_pytree(field(unravel(x)))[0])
        end = solve_ivp(rhs, (0, alpha), np.asarray(flat), "DOP853", rtol=1e-11, atol=1e-13)
        return jax.tree.map(np.asarray, unravel(end.y[:, -1]))


@pytest.mark.parametrize(
    "C, I4",
    [
        (
            [
                [0.9471, 0.0264, 0.2038, -1.5896],
                [0.0264, 0.5595, -0.029, -0.5663],
                [0.2038, -0.029, 1.1059, -0.4499],
                [-1.5896, -0.5663, -0.4499, 3.4311],
            ],
            -0.027737815324593407,
        )
    ],
)
def test_printed_eq91(C, I4):
    with jax.enable_x64(True):
        np.testing.assert_allclose(ACTIVATIONS["erf"].I4(np.array(C)), I4, rtol=1e-12)
    assert abs(errata.printed_eq91(np.array(C)) / I4 - 1) > 0.3


def test_moment_of_one_kind_for_any_power():
    rng, lam = np.random.default_rng(0), np.array([2.0, 0.5])
    blocks = rng.standard_normal((5, 2, 3, 4))
    np.testing.assert_allclose(moments.moment(blocks, lam, 3), 8 * blocks[:, 0] + blocks[:, 1] / 8)
    levels = ld.Overlaps(
        np.eye(2)[None].repeat(2, 0), rng.standard_normal((2, 2, 2)), np.eye(2)[None].repeat(2, 0)
    )
    np.testing.assert_allclose(
        moments.moments_of(levels, lam).R[1], moments.moment(levels.R, lam, 1)
    )
