"""The end of learning to leading order in J − B: the Jacobian at the teacher, and the ODE."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.semidefinite import gram_factor
from learndyn.solving.fixed_points import jacobian_spectrum
from learndyn.theory.committee.late_stage import deviations, erf_hessian
from learndyn.theory.committee.late_stage import erf as erf_late

SPECTRUM, ETA, M = ld.PowerLaw(60, 3, 1.0), 0.3, 3
LAM = SPECTRUM.values


def system_of(units=M):
    net = lambda: ld.Committee(units, "erf", scale=units**-0.5)
    return ld.System(ld.TeacherStudent(SPECTRUM, net()), net(), ld.SGD(ETA))


def near_teacher(size):
    rng = np.random.default_rng(0)
    B, noise = rng.standard_normal((2, M, SPECTRUM.dim))
    return ld.theory_of(system_of()).project(B + size * (noise + B), B)


def test_span_rates_are_eigenvalues_of_the_jacobian():
    """R near the teacher moves by the Hessian inside the span, at half the rates of the error."""
    theory, t = ld.theory_of(system_of()), near_teacher(0.1).T
    true = jacobian_spectrum(theory, ld.Overlaps(t, t, t)).rates
    h = np.linalg.eigvalsh(erf_hessian.span_hessian([gram_factor(block) for block in t], LAM))
    assert len(h) == 3 * M * M
    assert max(np.abs(true + ETA * value / M).min() for value in h) < 1e-12


def test_curve_approaches_the_ode_where_the_linear_law_does_not():
    """The relative gap is of order |J − B|; that of the law linear in the overlaps stays."""
    alphas, gaps, linear = np.array([0.0, 1.0, 10.0, 100.0]), [], []
    for size in (4e-3, 1e-3):
        state, system = near_teacher(size), system_of()
        begin = ld.start(system, state=state)
        record = ld.solve(system, alphas, start=begin, order="flow", rtol=1e-11, atol=1e-16)
        T = np.einsum("k,kij->ij", LAM, state.T)
        law = erf_late.late_curve(alphas, deviations.deviation(state), T, LAM, ETA)
        curve = erf_hessian.end_curve(alphas, state, LAM, ETA)
        gaps.append(np.abs(record.error.values / curve - 1))
        linear.append(np.abs(record.error.values / law - 1))
    assert np.all(gaps[0] < 10 * 4e-3) and np.all(gaps[1] < 10 * 1e-3)
    assert gaps[0].max() / gaps[1].max() == pytest.approx(4, rel=0.1)
    assert linear[1].max() / linear[0].max() == pytest.approx(1, rel=0.1)
    assert linear[1].max() > 0.1


def test_too_many_variables_is_one_line():
    with pytest.raises(ValueError, match="got a span of 3200 variables; allowed is at most 3000"):
        erf_hessian.span_hessian([np.eye(40)] * 2, [1.5, 0.5])
