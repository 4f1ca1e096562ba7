"""Several records in one dataset, and back."""

from collections.abc import Hashable

import xarray as xr

_SEPARATOR = "__"


def join(**records: xr.Dataset) -> xr.Dataset:
    """Merges several records into one dataset, with variables named `<record>__<variable>`.

    Dimensions and coordinates keep their names if the records agree on them. Others, such as `time`
    or the step numbers of systems of two sizes, are prefixed as well.
    """
    return xr.merge(
        [_prefixed(name, record, records) for name, record in records.items()],
        combine_attrs="no_conflicts",
        compat="no_conflicts",
        join="exact",
    )


def part(joined: xr.Dataset, name: str) -> xr.Dataset:
    """The record that was passed to `join` under a name.

    Args:
        joined: what `join` returned.
        name: the record's name.

    Returns:
        The record, with its own names and attributes.
    """
    prefix = name + _SEPARATOR
    own = [v for v in joined.variables if str(v).startswith(prefix)]
    kept = joined[[v for v in own if v in joined.data_vars]]
    prefixed = [v for v in {*kept.variables, *kept.dims} if str(v).startswith(prefix)]
    record = kept.rename({v: str(v).removeprefix(prefix) for v in prefixed})
    mine = {k: v for k, v in joined.attrs.items() if str(k).startswith(prefix)}
    record.attrs = {str(k).removeprefix(prefix): v for k, v in mine.items()}
    return record


def _prefixed(name: str, record: xr.Dataset, records: dict[str, xr.Dataset]) -> xr.Dataset:
    shared = {d for d in record.dims if all(_agree(d, record, r) for r in records.values())}
    one = lambda c: all(c not in r or record[c].equals(r[c]) for r in records.values())
    keep = shared | {c for c in record.coords if set(record[c].dims) <= shared and one(c)}
    own = {*record.variables, *record.dims} - keep
    renamed = record.rename({v: f"{name}{_SEPARATOR}{v}" for v in own})
    renamed.attrs = {f"{name}{_SEPARATOR}{k}": v for k, v in record.attrs.items()}
    return renamed


def _agree(dim: Hashable, a: xr.Dataset, b: xr.Dataset) -> bool:
    if dim not in b.dims:
        return True
    if a.sizes[dim] != b.sizes[dim]:
        return False
    return dim not in a.coords or bool((a[dim].values == b[dim].values).all())
