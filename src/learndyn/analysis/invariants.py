"""Observables of committees that no relabelling or rotation of units changes."""

import numpy as np
import xarray as xr

from learndyn.analysis.given import record_of


def invariants(record: xr.Dataset) -> xr.Dataset:
    """A record's error, tr Q and |R|² (the sum of the squared singular values of R).

    Single entries of Q and R wander along directions in which nothing drives them back; these do
    not, and are smooth, so that their mean over runs differs from a theory by order 1/N.

    Args:
        record: of a committee, by `solve` or `simulate`.

    Returns:
        A record of these three.

    Raises:
        ValueError: for a record without Q and R.
    """
    record_of("record", record)
    missing = [name for name in ("Q", "R", "error", "outcome", "diverged_at") if name not in record]
    if missing:
        raise ValueError(f"record: got no variable {missing[0]!r}; allowed is one of a committee")
    Q, R = record["Q"], record["R"]
    same = xr.DataArray(np.eye(Q.sizes["student"]), dims=("student", "student'"))
    kept = record[["error", "outcome", "diverged_at"]]
    trace = (Q * same).sum(("student", "student'"), skipna=False)
    square = (R**2).sum(("student", "teacher"), skipna=False)
    trace.attrs, square.attrs = {"long_name": "tr Q"}, {"long_name": "|R|²"}
    return kept.assign(Q_trace=trace, R_square=square)
