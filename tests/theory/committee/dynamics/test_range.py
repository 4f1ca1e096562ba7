"""General committees away from the usual: many units, many levels, degenerate rows, odd pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

BOTH = ("inputs", "outputs")


def system(g, f, spectrum, K=2, M=2, rule=None, **parts):
    t = np.where(np.arange(M) % 2, -0.6, 1.0)
    data = ld.TeacherStudent(spectrum, ld.Committee(M, f, scale=M**-0.5, outputs=t))
    student = ld.Committee(K, g, scale=K**-0.5, init=ld.Normal(0.5), **parts)
    return ld.System(data, student, rule or ld.SGD(0.4, decay=0.1))


def agree(given, key=1, runs=12, end=3.0):
    """The solution and real networks, by `compare`'s own test."""
    begin, times = ld.start(given, key=key), [0.0, end]
    theory = ld.solve(given, times, start=begin)
    measured = ld.simulate(given, times, start=begin, runs=runs, key=key, method="direct")
    found = ld.compare(theory, measured)
    assert found.verdict != "deviates", found.reason
    for name in ("Q", "R", "error"):
        assert np.abs(np.diff(theory[name].values, axis=0)).max() > 1e-2


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("g", "f", "units", "spectrum"),
    [
        ("erf", "erf", (6, 6), ld.Isotropic(600)),
        ("erf", "erf", (2, 3), ld.PowerLaw(600, 6, 0.5)),
        ("erf", "sign", (2, 1), ld.Isotropic(400)),
        pytest.param("relu", "erf", (2, 2), ld.PowerLaw(600, 6, 0.5), marks=pytest.mark.slow),
        pytest.param("relu", "relu", (6, 2), ld.Isotropic(600), marks=pytest.mark.slow),
        pytest.param("tanh", "gelu", (2, 6), ld.Isotropic(600), marks=pytest.mark.slow),
    ],
)
def test_theory_and_networks_agree(g, f, units, spectrum):
    agree(system(g, f, spectrum, *units, train=BOTH, outputs=ld.Normal(1.0)))


@pytest.mark.statistical
@pytest.mark.slow
def test_a_function_of_your_own_as_a_student():
    softer = lambda h: h / jnp.sqrt(1 + h**2)
    agree(system(softer, "tanh", ld.Isotropic(400), train=("inputs", "biases")))


# Rows of the student (equal, zero, one that is the teacher's) and of a teacher of two units.
EQUAL = np.array([[0.5, 0.0, 0.0, 0.3], [0.5, 0.0, 0.0, 0.3]])
ZERO = np.array([[0.0, 0.0, 0.0, 0.0], [0.4, 0.1, 0.6, 0.0]])
COPY = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
TEACHER = np.eye(2, 4)


@pytest.mark.parametrize("g", ["erf", pytest.param("relu", marks=pytest.mark.slow)])
def test_degenerate_rows_are_solved_and_simulated(g):
    """Equal rows with equal outputs stay equal; a zero row and the teacher itself give no NaN."""
    given = system(g, g, ld.Isotropic(200), train=BOTH, rule=ld.SGD(0.4))
    ends = {}
    for name, rows in (("equal", EQUAL), ("zero", ZERO), ("copy", COPY)):
        both = np.concatenate([rows, TEACHER])
        C = both @ both.T
        outputs = [1.0, -0.6] if name == "copy" else [0.5, 0.5]
        state = ld.Overlaps(C[:2, :2], C[:2, 2:], C[2:, 2:], outputs=outputs)
        begin = ld.start(given, state=state, key=1)
        ends[name] = ld.solve(given, [0.0, 3.0], start=begin)
        for method in ("direct", "reduced"):
            runs = ld.simulate(given, [0.0, 3.0], start=begin, runs=2, method=method)
            assert np.all(np.isfinite(runs.error)) and set(runs.outcome.values) == {"finished"}
    for record in ends.values():
        assert np.all(np.isfinite(record.error)) and record.outcome.item() == "finished"
    Q = ends["equal"].Q.values[-1]
    np.testing.assert_allclose(ends["equal"].outputs[-1, 0], ends["equal"].outputs[-1, 1])
    np.testing.assert_allclose(Q[0, 0], Q[0, 1] if g == "linear" else Q[1, 1])
    np.testing.assert_allclose(ends["copy"].error, 0, atol=1e-12)


def test_outputs_of_either_sign_mirror_each_other():
    """For an odd activation, (−w_i, −v_i) is the same student as (w_i, v_i)."""
    records = []
    for sign in (1.0, -1.0):
        given = system("erf", "erf", ld.Isotropic(100), outputs=[0.7, 0.4 * sign], train=BOTH)
        flip = np.diag([1.0, sign, 1.0, 1.0])
        both = np.concatenate([ZERO + 0.1, TEACHER])
        C = flip @ both @ both.T @ flip
        state = ld.Overlaps(C[:2, :2], C[:2, 2:], C[2:, 2:])
        records.append(ld.solve(given, [0.0, 2.0], start=ld.start(given, state=state)))
    one, other = records
    np.testing.assert_allclose(one.error, other.error, rtol=1e-7)
    np.testing.assert_allclose(one.outputs[:, 1], -other.outputs[:, 1], rtol=1e-7)


def test_rows_that_do_not_learn_leave_a_linear_problem():
    """With outputs alone, dv/dα = h_v (b − A v) has a closed solution."""
    given = system("erf", "erf", ld.Isotropic(100), train="outputs", rule=ld.SGD(0.4))
    begin = ld.start(given, key=2)
    record = ld.solve(given, [0.0, 5.0], start=begin, rtol=1e-10)
    np.testing.assert_array_equal(record.Q[0], record.Q[1])
    sigma = begin.state.gram[0]
    norm = np.sqrt((1 + np.diag(sigma))[:, None] * (1 + np.diag(sigma)))
    I2 = 2 / np.pi * np.arcsin(sigma / norm)
    a = 0.5**0.5
    A, b = a**2 * I2[:2, :2], a * I2[:2, 2:] @ (a * np.array([1.0, -0.6]))
    fixed = np.linalg.solve(A, b)
    values, V = np.linalg.eigh(A)
    end = fixed + V @ (np.exp(-0.4 * 5.0 * values) * (V.T @ (np.ones(2) - fixed)))
    np.testing.assert_allclose(record.outputs[1], end, rtol=1e-7)


def test_many_levels_use_the_stiff_schemes():
    """Rodas, with outputs that learn and decay, against Dopri8 on the same equations."""
    spectrum = ld.PowerLaw(60, 12, 1.0)
    given = system("erf", "erf", spectrum, train=BOTH, rule=ld.SGD(0.4, decay=0.2))
    from learndyn.solving.integrate import integrate
    from learndyn.theory.dynamics import Explicit, Implicit

    theory, begin = ld.theory_of(given), ld.start(given, key=1)
    flow, times = theory.dynamics("full"), np.array([0.0, 5.0, 30.0])
    with jax.enable_x64(True):
        ends = [
            integrate(
                theory, flow, how, times, np.float64(1), np.float64(1e-9), np.float64(1e-11)
            ).saved[0]
            for how in (Explicit(begin.state), Implicit(begin.state, flow.linearise))
        ]
    for name in ("Q", "R", "outputs", "error"):
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=1e-5, atol=1e-7)
