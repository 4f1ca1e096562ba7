"""Observables of committees that are invariant under permutations and rotations of units."""

import numpy as np
import xarray as xr

from learndyn.records import require_record


def invariants(record: xr.Dataset) -> xr.Dataset:
    """The error, tr Q and |R|² (the sum of the squared singular values of R) of a record.

    Single entries of Q and R drift along directions without a restoring force. These three do not,
    and they are smooth, so that their means over runs differ from a theory by order 1/N.

    Args:
        record: a record of a committee, from `solve` or `simulate`.

    Returns:
        A record of these three.

    Raises:
        ValueError: for a record without Q and R.

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> record = ld.analysis.invariants(ld.solve(system, [0, 1]))
        >>> [name for name in record.data_vars if "time" in record[name].dims]
        ['error', 'Q_trace', 'R_square']
    """
    require_record("record", record)
    missing = [name for name in ("Q", "R", "error", "outcome", "diverged_at") if name not in record]
    if missing:
        raise ValueError(
            f"record: got no variable {missing[0]!r}; allowed is a record of a committee"
        )
    Q, R = record["Q"], record["R"]
    same = xr.DataArray(np.eye(Q.sizes["student"]), dims=("student", "student'"))
    kept = record[["error", "outcome", "diverged_at"]]
    # skipna=False: after a divergence a sum over NaN must stay NaN, not become 0.
    trace = (Q * same).sum(("student", "student'"), skipna=False)
    square = (R**2).sum(("student", "teacher"), skipna=False)
    trace.attrs, square.attrs = {"long_name": "tr Q"}, {"long_name": "|R|²"}
    return kept.assign(Q_trace=trace, R_square=square)
