"""The plateau of a drawn teacher: its height, its escape times, and when a curve leaves it."""

from typing import NamedTuple, cast

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform


class Plateau(NamedTuple):
    """The exact plateau of a teacher.

    Attributes:
        error: generalisation error.
        overlap: mean of R^(1).
        T1: T^(1) of the teacher, (M, M).
    """

    error: float
    overlap: float
    T1: np.ndarray


class Escape(NamedTuple):
    """E-folding times in α of the escape from a teacher's plateau.

    Attributes:
        exact: of the fastest deviation.
        second: of the next one; infinite or negative where none grows.
        uniform: Eq. 116 with the mean diagonal entry and off-diagonal row sum of T.
    """

    exact: float
    second: float
    uniform: float


def eigenvalues(system: ld.System) -> np.ndarray:
    """λ_l of the inputs."""
    return cast(ld.TeacherStudent, system.problem).inputs.spectrum.values


def plateau_of(system: ld.System, state: ld.Overlaps) -> Plateau:
    """The plateau that belongs to the teacher of a start, K = M in the paper's scales."""
    lam = eigenvalues(system)
    plateau = erf_plateau.plateau_state(state.T, lam)
    found = ld.theory_of(system).observe(plateau)
    T1 = np.einsum("k,kij->ij", lam, state.T)
    return Plateau(float(found["error"]), float(np.mean(found["R"])), T1)


def escape_of(system: ld.System, state: ld.Overlaps) -> Escape:
    """How fast students leave it, exactly and by the paper's formula."""
    lam, eta = eigenvalues(system), float(cast(ld.SGD, system.rule).learning_rate)
    T1, T2 = (np.einsum("k,kij->ij", lam**l, state.T) for l in (1, 2))
    first, second = 1 / (eta * erf_plateau.escape_rates(T1, T2)[:2])
    (T, D), (S, E) = erf_uniform.uniform_part(T1), erf_uniform.uniform_part(T2)
    uniform = erf_uniform.escape_time(T, D, S, E, len(T1), eta)
    return Escape(float(first), float(second), uniform)


def leaving(record: xr.Dataset, plateau_error: float, fraction: float) -> xr.DataArray:
    """α at which the error falls to a fraction of the plateau's; NaN where it does not.

    All runs of the record begin alike.
    """
    first = float(record["error"].isel(time=0).mean())
    return ld.analysis.escape_time(record, fraction=fraction * plateau_error / first)
