"""The schema of a sweep's records: fixed by the first finished point, asked of all others."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from learndyn.sweeping.points import OWN, is_own

KINDS = {"f", "i", "u", "b", "c", "U"}
PREFIX = f"{OWN}_"  # of what a sweep says of points, and of labels that each point has its own
LATE = "late"  # a group in the store, of points that went over their time limit
TEXT = "str"


class Mismatch(ValueError):
    """A record that does not fit, and how."""


@dataclasses.dataclass(frozen=True)
class Field:
    """One variable of the store.

    Attributes:
        dims: of one record.
        dtype: of the store; texts may be of any length.
        coordinate: whether it labels.
        shared: whether all points have the same, kept once.
        attrs: long name, units.
    """

    dims: tuple[str, ...]
    dtype: str
    coordinate: bool
    shared: bool
    attrs: Mapping[str, Any]

    @property
    def fill(self) -> Any:
        """What stands where there is nothing."""
        if self.dtype == TEXT:
            return ""
        return np.nan if np.dtype(self.dtype).kind in "fc" else np.zeros((), self.dtype).item()


@dataclasses.dataclass(frozen=True)
class Schema:
    """Names, dimensions and types of a record.

    Attributes:
        sizes: dimension → length; of padded ones that of the first point.
        pad: dimensions in which records may differ in length.
        fields: name → variable.
        attrs: of the first record.
    """

    sizes: Mapping[str, int]
    pad: tuple[str, ...]
    fields: Mapping[str, Field]
    attrs: Mapping[str, Any]

    @staticmethod
    def of(record: xr.Dataset, pad: Sequence[str], axes: Sequence[str]) -> "Schema":
        """The schema of the first record.

        Raises:
            ValueError: for axes or padded dimensions that do not go with it, and for one that
                the store cannot keep.
        """
        for name in axes:
            if name in record.dims or name in record.variables:
                raise ValueError(f"axes: got {name!r}, which the record has; allowed is a new name")
        for name in pad:
            if name not in record.dims:
                known = ", ".join(map(str, record.dims)) or "none"
                raise ValueError(f"pad: got {name!r}; the record's dimensions are {known}")
        mine = {str(k): v for k, v in record.variables.items()}
        _check_names([*mine, *map(str, record.dims)])
        fields = {_kept(k, pad): _field(k, v, k in record.coords, pad) for k, v in mine.items()}
        if all(field.shared for field in fields.values()):
            raise ValueError("function: its record has no variables; allowed is one with some")
        sizes = {str(dim): size for dim, size in record.sizes.items()}
        return Schema(sizes, tuple(pad), fields, _plain(record.attrs))

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(text: Mapping[str, Any]) -> "Schema":
        """The schema that `to_json` wrote."""
        fields = {n: Field(**{**f, "dims": tuple(f["dims"])}) for n, f in text["fields"].items()}
        return Schema(text["sizes"], tuple(text["pad"]), fields, text["attrs"])

    def arrays(self, record: xr.Dataset, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What of a record is kept for its point.

        Args:
            record: of the point.
            shared: what all points have in common.

        Returns:
            Name → array.

        Raises:
            Mismatch: where names, dimensions, types or what is shared differ from the first.
        """
        found = {_kept(str(k), self.pad): v for k, v in record.variables.items()}
        for name in {**self.fields, **found}:
            if name not in found or name not in self.fields:
                which = "lacks" if name not in found else "has also"
                raise Mismatch(f"the record {which} {name!r}, other than that of the first point")
        return {
            name: array
            for name, field in self.fields.items()
            if (array := self._array(name, field, found[name], shared)) is not None
        }

    def _array(self, name: str, field: Field, found: xr.Variable, shared) -> np.ndarray | None:
        wanted = tuple(self.sizes[dim] for dim in field.dims)
        free = [dim in self.pad for dim in field.dims]
        same = len(wanted) == found.ndim and all(
            a == b or any_ for a, b, any_ in zip(wanted, found.shape, free, strict=True)
        )
        if tuple(map(str, found.dims)) != field.dims or not same:
            raise Mismatch(
                f"{name} has dimensions {_said(found.dims, found.shape)}; "
                f"that of the first point has {_said(field.dims, wanted)}"
            )
        array = _stored(name, found, field.dims, self.pad)
        if not _fits(_dtype(array), field.dtype):
            raise Mismatch(f"{name} is {_dtype(array)}; that of the first point is {field.dtype}")
        if not field.shared:
            return array
        if not np.array_equal(array, np.asarray(shared[name]).astype(array.dtype)):
            raise Mismatch(
                f"{name} differs from that of the first point; allowed is one for all points, "
                f"or pad=({name!r},)"
            )
        return None

    def point_bytes(self) -> int:
        """Bytes of one record, roughly."""
        each = (math.prod(self.sizes[d] for d in f.dims) for f in self.fields.values())
        return 8 * sum(each)


def _check_names(names: Sequence[str]) -> None:
    """Refuses what would stand in the store where something else does."""
    for name in names:
        if is_own(name) or name == LATE or "/" in name:
            raise ValueError(
                f"function: its record has {name!r}, which the store cannot keep; allowed are "
                f"names other than {OWN}, {PREFIX}… and {LATE}, without a slash"
            )


def differing(attrs: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    """Names of attributes that are not those of the first record."""
    mine = _plain(attrs)
    return sorted(n for n in {**mine, **first} if mine.get(n) != first.get(n))


def _said(dims: Sequence[Any], shape: Sequence[int]) -> str:
    return ", ".join(f"{dim} {size}" for dim, size in zip(dims, shape, strict=True)) or "none"


def _kept(name: str, pad: Sequence[str]) -> str:
    """Labels of a padded dimension are each point's own."""
    return PREFIX + name if name in pad else name


def _field(name: str, variable: xr.Variable, coordinate: bool, pad: Sequence[str]) -> Field:
    dims = tuple(map(str, variable.dims))
    try:
        array = _stored(name, variable, dims, pad)
    except Mismatch as error:
        raise ValueError(f"function: {error}") from None
    shared = dims == (name,) and name not in pad
    return Field(dims, _dtype(array), coordinate, shared, _plain(variable.attrs))


def _stored(name: str, variable: xr.Variable, dims, pad) -> np.ndarray:
    """The values in a type that the store has; padded numbers have a NaN."""
    array = np.asarray(variable.values)
    if array.dtype.kind in "OT" and all(isinstance(text, str) for text in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind not in KINDS:
        raise Mismatch(f"{name} is of type {array.dtype}; allowed are numbers and texts")
    return array.astype(float) if set(dims) & set(pad) and array.dtype.kind in "iub" else array


def _dtype(array: np.ndarray) -> str:
    return TEXT if array.dtype.kind == "U" else str(array.dtype)


def _fits(dtype: str, wanted: str) -> bool:
    return dtype == wanted or (TEXT not in (dtype, wanted) and np.can_cast(dtype, wanted))


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as JSON and NetCDF have them: texts and finite numbers, others as text."""
    plain = lambda v: v.item() if isinstance(v, np.generic) else v
    return {str(name): _number_or_text(plain(value)) for name, value in attrs.items()}


def _number_or_text(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if number else str(value)
