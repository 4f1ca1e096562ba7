"""The paper's system in its own scalings, and what several of its studies compute alike."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.registry import Report


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


def ode(state: ld.Overlaps, eta: float, alpha: Any, N: int = 1000, **options) -> xr.Dataset:
    """The solution of the ODE from these overlaps, at times α; N only numbers the steps."""
    p, p_star = state.R.shape[1:]
    system = quadratic_system(p, p_star, eta, N)
    return ld.solve(system, alpha, start=ld.start(system, state=state), **options)


def two_sizes(
    params: Any, times: np.ndarray, report: Report
) -> tuple[ld.System, Any, list[xr.Dataset]]:
    """Runs of networks of sizes N and 2N from the same overlaps.

    Means over runs have a bias of order 1/N, which the two sizes together remove.

    Args:
        params: with p, p_star, eta, N, runs and key.
        times: α of the record.
        report: progress.

    Returns:
        The system of size N, its start, and the runs at both sizes.
    """
    size = params.p, params.p_star, params.eta
    single, double = (quadratic_system(*size, factor * params.N) for factor in (1, 2))
    start = ld.start(single, key=params.key)
    again = ld.start(double, state=start.state, key=params.key)
    first, second = ({"runs": params.runs, "progress": part} for part in shares((1, 2), report))
    runs = [
        ld.simulate(single, times, start=start, key=2 * params.key, **first),
        ld.simulate(double, times, start=again, key=2 * params.key + 1, **second),
    ]
    return single, start, runs


def shares(weights: Sequence[int], report: Report) -> list[Report]:
    """One report per job, which covers a part of the whole in proportion to the job's weight."""
    ends = np.cumsum([0, *weights]) / sum(weights)
    return [lambda done, a=a, b=b: report(a + done * (b - a)) for a, b in itertools.pairwise(ends)]


def nested(rows: list, outer: xr.Variable, inner: str) -> Any:
    """One array of rows that go through an inner dimension for each value of an outer one."""
    count = len(rows) // outer.size
    groups = [xr.concat(rows[i : i + count], inner) for i in range(0, len(rows), count)]
    return xr.concat(groups, outer)


def sizes(one: xr.Dataset) -> tuple[int, int]:
    """p and p* of one case, from its coordinates or else its attributes."""
    p, p_star = (one[name] if name in one.coords else one.attrs[name] for name in ("p", "p_star"))
    return int(p), int(p_star)
