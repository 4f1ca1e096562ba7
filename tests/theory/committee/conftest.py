"""Quadratic committees in the paper's scales, as the tests of several rooms need them."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import learndyn as ld


def system(p, p_star, eta):
    teacher = ld.Committee(p_star, "quadratic", scale=1 / p_star, init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.Isotropic(100), teacher, loss_scale=1.0)
    return ld.System(problem, ld.Committee(p, "quadratic", scale=1 / p), ld.SGD(eta))


def drift(p, p_star, eta, order="full"):
    """(Q, ρ) → their drift per t = η α."""
    theory = ld.theory_of(system(p, p_star, eta))

    def field(Q, rho):
        rate = theory.drift(ld.Overlaps(Q, rho, np.eye(p_star)), order)
        return rate.Q[0] / eta, rate.R[0] / eta

    return field


def jacobian(field, Q, rho, h=1e-6):
    """The derivative of the drift on symmetric Q and all ρ, by central differences."""
    p, p_star = rho.shape
    rows, columns = np.triu_indices(p)
    pack = lambda A, B: np.concatenate([A[rows, columns], B.ravel()])
    derivative = []
    for unit in np.eye(len(rows) + p * p_star):
        dQ = np.zeros((p, p))
        dQ[rows, columns] = dQ[columns, rows] = unit[: len(rows)]
        step = h * dQ, h * unit[len(rows) :].reshape(p, p_star)
        ahead, behind = field(Q + step[0], rho + step[1]), field(Q - step[0], rho - step[1])
        derivative.append((pack(*ahead) - pack(*behind)) / (2 * h))
    return np.array(derivative).T


def start_of(Q, rho):
    p, p_star = rho.shape
    return ld.start(system(p, p_star, 0.1), state=ld.Overlaps(Q, rho, np.eye(p_star)))


def overlap_flow(Q0, rho0, T, t_end, eta=0.0):
    """rho(t) and the last Q of the closed overlap equations, in t = η α."""
    p, q = rho0.shape

    def rates(_, y):
        rho, Q = y[: p * q].reshape(p, q), y[p * q :].reshape(p, p)
        Q = (Q + Q.T) / 2
        m = np.trace(T) / q - np.trace(Q) / p
        K = rho @ rho.T / q - Q @ Q / p
        spread = np.sum(T**2) / q**2 - 2 * np.sum(rho**2) / (p * q) + np.sum(Q**2) / p**2
        cubic = rho @ T @ rho.T / q**2 + Q @ Q @ Q / p**2
        cubic -= (rho @ rho.T @ Q + Q @ rho @ rho.T) / (p * q)
        drho = 4 / p * (m * rho + 2 * (rho @ T / q - Q @ rho / p))
        noise = 16 * eta / p**2 * ((m**2 + 2 * spread) * Q + 4 * m * K + 8 * cubic)
        return np.concatenate([drho.ravel(), (8 / p * (m * Q + 2 * K) + noise).ravel()])

    start = np.concatenate([rho0.ravel(), Q0.ravel()])
    run = solve_ivp(rates, (0, t_end), start, method="DOP853", rtol=1e-11, atol=1e-13)
    return run.y[: p * q].T.reshape(-1, p, q), run.y[p * q :, -1].reshape(p, p)


@pytest.fixture
def quadratics():
    """Systems, starts and drifts of quadratic committees, and their equations written out."""
    return SimpleNamespace(
        system=system, start=start_of, drift=drift, jacobian=jacobian, overlap_flow=overlap_flow
    )
