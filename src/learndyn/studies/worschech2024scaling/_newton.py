"""Newton's fixed point of the plateau and its Jacobian, for the study plateau_exact.

Every function takes the study's parameters.
"""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.solving.fixed_points import find_fixed_point, jacobian_spectrum
from learndyn.studies.worschech2024scaling._erf import ETA, eigenvalues, plateau_system
from learndyn.theory.committee import errata
from learndyn.theory.committee.dynamics.moments import moment
from learndyn.theory.committee.plateau import erf as erf_plateau
from learndyn.theory.committee.plateau import erf_uniform

POWER = 2  # of the moments that Eq. 98 is shown for
SAME = 1e-6  # rates that differ by less, relative to the largest, count as equal


def uniform(params: Any) -> xr.Dataset:
    """Fixed point, Jacobian and escape for a uniform teacher with D ≠ 0, beside Eqs. 96 to 99."""
    system, t = plateau_system(params.uniform_levels, params.M, params.N), _uniform_teacher(params)
    theory, lam, M = ld.theory_of(system), eigenvalues(system), params.M
    near = erf_plateau.near_plateau(t, lam, params.apart)
    point = find_fixed_point(theory, near, symmetry=erf_plateau.equal_students)
    rates = np.real(jacobian_spectrum(theory, point.state).rates)
    (T, D), (T_2, D_2) = (erf_uniform.uniform_part(moment(t, lam, l)) for l in (1, POWER))
    tau = erf_uniform.escape_time(T, D, T_2, D_2, M, ETA)
    both = lambda l: [moment(x, lam, l)[0, 0] for x in (point.state.R, point.state.Q)]
    error = float(theory.observe(point.state)["error"])
    numbers = {
        "T": T,
        "D": D,
        "error": error,
        "error_99": erf_uniform.plateau_error(T, D, M),
        "error_printed": errata.printed_eq99(T, D, M),
        "overlaps": ("kind", both(1)),
        "overlaps_97": ("kind", list(erf_uniform.plateau_overlaps(T, D, M))),
        "moments": ("kind", both(POWER)),
        "moments_98": ("kind", list(erf_uniform.plateau_moments(T_2, D_2, T, D, M))),
        "moments_printed": ("kind", list(errata.printed_eq98(T_2, T, D, M))),
        "tau": 1 / rates[0],
        "tau_116": tau,
        "multiplicity": int(np.sum(rates > rates[0] * (1 - SAME))),
    }
    parts = _without_overlap(params, lam), _escape(params, system, near, error, tau)
    return xr.merge([xr.Dataset(numbers), *parts])


def _without_overlap(params: Any, lam: np.ndarray) -> xr.Dataset:
    """Eq. 96 where it is exact: D = 0."""
    t = _uniform_teacher(dataclasses.replace(params, overlap=0.0))
    T1, Tl = (moment(t, lam, l) for l in (1, POWER))
    return xr.Dataset(
        {
            "separate": moment(erf_plateau.plateau_state(t, lam).R, lam, POWER)[0, 0],
            "separate_96": erf_uniform.approximate_moments(Tl, T1)[0][0],
            "separate_printed": errata.printed_eq96(Tl, T1)[0][0],
        }
    )


def _uniform_teacher(params: Any) -> np.ndarray:
    """t^k of a teacher whose rows have equal norms, and overlap in the first level only."""
    M, norm, later = params.M, params.norm / params.uniform_levels, params.uniform_levels - 1
    overlaps = [params.overlap * norm * (M - 1)] + [0.0] * later
    return np.stack([erf_uniform.uniform_overlaps(norm, D, M) for D in overlaps])


def _escape(params: Any, system: ld.System, near, error: float, tau: float) -> xr.Dataset:
    """r of R_ii = R* + r, R_im = R* − r/(M−1), and ε* − ε_g, from close to the plateau."""
    times = np.linspace(0, params.lasts * tau, params.points)
    begin = ld.start(system, state=near)
    # The error falls by parts in 10⁸.
    record = ld.solve(system, times, start=begin, order="flow", rtol=1e-12, atol=1e-15)
    R = record["R"].values
    r = np.einsum("tii->t", R) / params.M - R.mean(axis=(1, 2))
    return xr.Dataset(
        {"r": ("alpha", r), "drop": ("alpha", error - record["error"].values)}, {"alpha": times}
    )


def drawn(params: Any) -> xr.Dataset:
    """Newton from a uniform teacher's plateau, and the Jacobian, for a teacher that is drawn."""
    system = plateau_system(params.uniform_levels, params.M, params.N)
    theory, lam, M = ld.theory_of(system), eigenvalues(system), params.M
    t = ld.start(system, key=params.key).state.T
    begin, closed = (erf_plateau.plateau_state(x, lam) for x in (_uniform_teacher(params), t))
    begin = ld.Overlaps(begin.Q, begin.R, t)
    point = find_fixed_point(theory, begin, symmetry=erf_plateau.equal_students)
    heights = lambda state: np.concatenate([state.R[:, 0].ravel(), state.Q[:, 0, 0]])
    rates = np.real(jacobian_spectrum(theory, point.state).rates)[: (M - 1) ** 2]
    exact = ETA * erf_plateau.escape_rates(moment(t, lam, 1), moment(t, lam, 2))[: M - 1]
    distinct = 1 + int(np.sum(rates[:-1] - rates[1:] > SAME * rates[0]))
    return xr.Dataset(
        {
            "drawn_heights": ("height", heights(point.state)),
            "drawn_heights_exact": ("height", heights(closed)),
            "drawn_rates": ("growing", rates),
            "drawn_rates_exact": ("growing", np.repeat(exact, M - 1)),
            "distinct": distinct,
        }
    )
