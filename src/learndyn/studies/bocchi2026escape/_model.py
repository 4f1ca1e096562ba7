"""The paper's system, in its own scalings."""

import numpy as np

import learndyn as ld


def quadratic_system(p: int, p_star: int, eta: float, N: int, **problem) -> ld.System:
    """Student (1/p) Σ λ², teacher (1/p*) Σ u² with orthonormal rows, loss (y − ŷ)² (Eqs. 1-5)."""
    teacher = ld.Committee(p_star, "quadratic", scale=1 / p_star, init=ld.Orthonormal(1.0))
    student = ld.Committee(p, "quadratic", scale=1 / p, init=ld.Orthonormal(1.0))
    data = ld.TeacherStudent(ld.Isotropic(N), teacher, loss_scale=1.0, **problem)
    return ld.System(data, student, ld.SGD(eta))


def small_overlaps(p: int, p_star: int, epsilon: float, key: int, norm: float = 1.0) -> ld.Overlaps:
    """Eq. 8: Q = norm · I, ρ independent normal of standard deviation ε, T = I."""
    rho = epsilon * np.random.default_rng(key).standard_normal((p, p_star))
    return ld.Overlaps(norm * np.eye(p), rho, np.eye(p_star))
