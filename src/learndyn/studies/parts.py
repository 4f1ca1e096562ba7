"""Parts of a study, computed anywhere, and joined to be judged once.

A study lists in `PARTS` the parameters along which it can be divided, with the dimension of its
data that each of them spans. Such a parameter is a tuple of values (panels, tasks, networks), or
`seeds`, the number of seeds: a part of them begins at the parameter `first_seed`.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from learndyn.studies.registry import Study, with_settings

SEEDS = "seeds"
Chosen = Mapping[str, tuple[Any, ...]]  # parameter → its values in a part; seeds are counted from 0


def dimensions(study: Study) -> dict[str, str]:
    """Parameter → dimension of the data, for the parameters that divide a study."""
    return dict(getattr(study, "PARTS", {}))


def choose(study: Study, params: Any, texts: Mapping[str, str]) -> Chosen:
    """Reads which part of a study is wanted.

    Args:
        study: the study.
        params: the parameters of the whole.
        texts: parameter → values separated by commas; for seeds, numbers from 0 on.

    Returns:
        Parameter → values of the part.

    Raises:
        ValueError: for a parameter that does not divide the study, or a value not among its own.
    """
    chosen: dict[str, tuple[Any, ...]] = {}
    for name, text in texts.items():
        whole = values(study, params, name)
        like = params if name != SEEDS else _Seeds(tuple(whole))
        try:
            wanted = getattr(with_settings(like, {name: text}), name)
        except ValueError as error:
            raise ValueError(str(error).replace("--set", "--part", 1)) from None
        wrong = [value for value in wanted if value not in whole]
        if wrong or len(set(wanted)) < len(wanted) or (name == SEEDS and not _run(wanted)):
            listed = ", ".join(map(str, whole))
            kind = "neighbours among" if name == SEEDS else "different values among"
            raise ValueError(f"--part {name}: got {text!r}; allowed are {kind} {listed}")
        chosen[name] = wanted
    return chosen


def values(study: Study, params: Any, name: str) -> list[Any]:
    """All values of a parameter that divides a study; seeds are counted from 0.

    Raises:
        ValueError: for another parameter.
    """
    if name not in dimensions(study):
        known = ", ".join(dimensions(study)) or "none: this study cannot be divided"
        raise ValueError(f"--part {name}: got a parameter that divides nothing; allowed: {known}")
    return list(_values(params, name))


@dataclasses.dataclass(frozen=True)
class _Seeds:
    """Stands for the parameters while the seeds of a part are read."""

    seeds: tuple[int, ...]


def _values(params: Any, name: str) -> tuple[Any, ...]:
    value = getattr(params, name)
    return tuple(range(value)) if name == SEEDS else tuple(value)


def _run(values: Sequence[int]) -> bool:
    return list(values) == list(range(values[0], values[0] + len(values)))


def params_of(params: Any, chosen: Chosen) -> Any:
    """The parameters of a part."""
    changed: dict[str, Any] = {name: values for name, values in chosen.items() if name != SEEDS}
    if SEEDS in chosen:
        changed |= {SEEDS: len(chosen[SEEDS]), "first_seed": chosen[SEEDS][0]}
    return dataclasses.replace(params, **changed)


def restricted(params: Any, name: str, there: set[Any]) -> Any:
    """The parameters with only those values of one of them that parts have, in their order.

    Raises:
        ValueError: for seeds other than the first ones, which no parameters describe.
    """
    values = tuple(value for value in _values(params, name) if value in there)
    if name != SEEDS:
        return dataclasses.replace(params, **{name: values})
    if values != tuple(range(len(values))):
        raise ValueError(f"parts: got seeds {values}; allowed are the first ones, without gaps")
    return dataclasses.replace(params, **{SEEDS: len(values)})


def labelled(data: xr.Dataset, study: Study, chosen: Chosen) -> xr.Dataset:
    """The data of a part, with its values as coordinates, by which `join` arranges the parts.

    The attribute `labelled` lists coordinates that `compute` did not make.
    """
    names = {dim: name for name, dim in dimensions(study).items() if name in chosen}
    added = [dim for dim in names if dim in data.dims and dim not in data.coords]
    data = data.assign_coords({dim: list(chosen[names[dim]]) for dim in added})
    return data.assign_attrs(labelled=json.dumps(added))


def join(study: Study, params: Any, parts: Sequence[tuple[Chosen, xr.Dataset]]) -> xr.Dataset:
    """The data of the whole from those of its parts.

    Args:
        study: the study.
        params: the parameters of the whole.
        parts: what each part has chosen, and its data.

    Returns:
        The data as `compute` returns them, ordered as in the parameters.

    Raises:
        ValueError: if parts overlap, or leave out a combination, or disagree in what they share.
    """
    require_complete([chosen for chosen, _ in parts])
    dims = {dimensions(study)[name]: _order(params, name, parts) for name in parts[0][0]}
    datasets = _padded([data.drop_attrs(deep=False) for _, data in parts], set(dims))
    whole = functools.reduce(_merged, datasets)
    whole = whole.sel({dim: order for dim, order in dims.items() if dim in whole.coords})
    whole = whole.map(lambda each: _as_before(each, datasets[0]), keep_attrs=True)
    attrs = _shared_attrs([data.attrs for _, data in parts])
    return whole.drop_vars(json.loads(parts[0][1].attrs["labelled"])).assign_attrs(attrs)


def require_complete(parts: Sequence[Chosen]) -> None:
    """Raises a ValueError unless the parts cover every combination of their values once."""
    names = list(parts[0])
    if any(list(part) != names for part in parts):
        raise ValueError("parts: got parts along different parameters; allowed are the same")
    cells = [cell for part in parts for cell in itertools.product(*part.values())]
    every = itertools.product(*({v for part in parts for v in part[name]} for name in names))
    show = lambda cell: ", ".join(f"{n}={v}" for n, v in zip(names, cell, strict=True))
    for cell in every:
        if cells.count(cell) != 1:
            times = "twice" if cells.count(cell) else "in no part"
            raise ValueError(f"parts: got {show(cell)} {times}; allowed is once")


def _order(params: Any, name: str, parts: Sequence[tuple[Chosen, Any]]) -> list[Any]:
    there = {value for chosen, _ in parts for value in chosen[name]}
    return [value for value in _values(params, name) if value in there]


def _merged(left: xr.Dataset, right: xr.Dataset) -> xr.Dataset:
    try:
        return xr.merge([left, right], join="outer", compat="no_conflicts")
    except (xr.MergeError, ValueError) as error:
        why = str(error).partition("\n")[0]
        allowed = "parts of one study"
        raise ValueError(f"parts: got data that disagree ({why}); allowed are {allowed}") from None


def _padded(datasets: Sequence[xr.Dataset], joined: set[str]) -> list[xr.Dataset]:
    """The data with dimensions without coordinates, such as steps, padded to the longest."""
    sizes: dict[Any, int] = {}
    for data in datasets:
        for dim in set(data.dims) - joined - set(data.coords):
            sizes[dim] = max(sizes.get(dim, 0), data.sizes[dim])
    missing = lambda data: {d: (0, n - data.sizes[d]) for d, n in sizes.items() if d in data.dims}
    return [data.pad({d: n for d, n in missing(data).items() if n[1]}) for data in datasets]


def _as_before(values: xr.DataArray, like: xr.Dataset) -> xr.DataArray:
    """The values in the type and order of the first part: merging changes integers and texts."""
    kind = like[values.name].dtype
    if values.dtype != kind and not bool(values.isnull().any()):
        values = values.astype(str if kind.kind == "U" else kind)
    # Sums depend on the order in memory in the last digit.
    return values.copy(data=np.ascontiguousarray(values.values))


def _shared_attrs(attrs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The attributes of all parts; those of one part only are left out.

    Raises:
        ValueError: for an attribute of the study that differs.
    """
    own = [{k: v for k, v in each.items() if k not in ("params", "labelled")} for each in attrs]
    for name, value in own[0].items():
        for other in own[1:]:
            if name not in other or not np.array_equal(other[name], value):
                got = f"{name} {value!r} and {other.get(name, 'none')!r}"
                raise ValueError(f"parts: got {got}; allowed are parts of one study")
    return own[0]
