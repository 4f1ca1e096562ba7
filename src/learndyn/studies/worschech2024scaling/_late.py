"""The late stage of a small erf committee, by levels: what Figs. 6 (right) and 20 show."""

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.studies.worschech2024scaling._plateau import eigenvalues
from learndyn.theory.committee.late_stage import deviations, erf_hessian, erf_symmetric
from learndyn.theory.committee.late_stage import erf as erf_late

M, ETA, SIGMA_J, BETA = 2, 0.25, 0.01, 1.0


def late_stage(L: int, N: int, times: np.ndarray, alpha_0: float, key: int) -> xr.Dataset:
    """The flow's error and the laws of the late stage that start from its state at α₀.

    Args:
        L: number of eigenvalues.
        N: input dimension.
        times: α, increasing; `alpha_0` is among them.
        alpha_0: where the laws begin.
        key: seed of teacher and student.

    Returns:
        Over time: error; eq121, the first-order error of the flow's own r, s, q, c; leading, the
        error to leading order in J − B; distance |J − B|/|B|; and from α₀ on, NaN before,
        eq122, linear (the same for the T drawn) and hessian. Beside them slow_rate, the smallest
        decay rate per α of `linear`.
    """
    system = committee_system("erf", ld.PowerLaw(N, L, BETA), K=M, M=M, eta=ETA, sigma_J=SIGMA_J)
    lam = ld.PowerLaw(N, L, BETA).values
    states = level_states(system, times, key)
    rows = xr.Dataset(
        {name: ("time", values) for name, values in _along(system, states, lam).items()},
        {"time": ("time", times, {"long_name": "α", "unit": "steps / N"})},
    )
    first = int(np.argmin(np.abs(times - alpha_0)))
    laws = _laws(states[first], lam, times[first:] - times[first])
    for name, curve in laws.items():
        rows[name] = ("time", np.concatenate([np.full(first, np.nan), curve]))
    T = np.einsum("k,kij->ij", lam, states[0].T)
    return rows.assign(slow_rate=ETA * erf_late.late_modes(states[0].T, T, lam)[0].min())


def level_states(system: ld.System, times: np.ndarray, key: int) -> list[ld.Overlaps]:
    """The flow's states at the times, students in the order of their teachers."""
    # The error falls to 10⁻⁷.
    found = ld.solve(system, times, key=key, order="flow", states=True, rtol=1e-10, atol=1e-14)
    if str(found["outcome"].values) != "finished":
        raise RuntimeError("the flow was not integrated to the tolerance asked for")
    arrays = zip(*(found[f"state_{name}"].values for name in "QRT"), strict=True)
    lam = eigenvalues(system)
    return [deviations.in_teachers_order(ld.Overlaps(*each), lam) for each in arrays]


def _along(system: ld.System, states: list[ld.Overlaps], lam: np.ndarray) -> dict[str, np.ndarray]:
    """What is read off the state at every time."""
    observe = ld.theory_of(system).observe
    zero, first_order = np.zeros(1), []
    for state in states:
        r, s, q, c = deviations.mean_deviations(state)
        sums = lam @ r, lam @ s, lam @ q, lam @ c
        first_order.append(float(erf_symmetric.linear_error(*sums, M)))
    return {
        "error": np.array([float(observe(state)["error"]) for state in states]),
        "eq121": np.array(first_order),
        "leading": np.array([erf_hessian.end_curve(zero, s, lam, ETA)[0] for s in states]),
        "distance": np.array([deviations.distance(s, lam) for s in states]),
    }


def _laws(state: ld.Overlaps, lam: np.ndarray, alphas: np.ndarray) -> dict[str, np.ndarray]:
    """The laws of the late stage from one state."""
    T, e = np.einsum("k,kij->ij", lam, state.T), deviations.deviation(state)
    parts = deviations.mean_deviations(state)
    groups = erf_symmetric.late_groups(alphas, *parts, lam, M, ETA)
    return {
        "eq122": groups.slow + groups.fast,
        "linear": erf_late.late_curve(alphas, e, T, lam, ETA),
        "hessian": erf_hessian.end_curve(alphas, state, lam, ETA),
    }
