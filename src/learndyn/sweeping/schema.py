"""The schema of a sweep's records: fixed by the first finished point, required of all others."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from learndyn.runtime.memory import free_memory
from learndyn.sweeping.points import LARGEST, OWN, is_file_name, is_own

KINDS = {"f", "i", "u", "b", "c", "U"}
PREFIX = f"{OWN}_"  # of what a sweep records about points, and of labels that differ by point
LATE = "late"  # group of the store that lists points beyond their time limit
TEXT = "str"


class Mismatch(ValueError):
    """A record that does not fit the schema; the message says how."""


@dataclasses.dataclass(frozen=True)
class Field:
    """One variable of the store.

    Attributes:
        dims: its dimensions in one record.
        dtype: its type in the store; strings may have any length.
        coordinate: whether it is a coordinate.
        shared: whether all points have the same values, which are then stored once.
        attrs: long name, units.
    """

    dims: tuple[str, ...]
    dtype: str
    coordinate: bool
    shared: bool
    attrs: Mapping[str, Any]

    @property
    def fill(self) -> Any:
        """The fill value of missing entries."""
        return fill(self.dtype)


def fill(dtype: str) -> Any:
    """The value of missing entries of a type in the store."""
    if dtype == TEXT:
        return ""
    return np.nan if np.dtype(dtype).kind in "fc" else np.zeros((), dtype).item()


@dataclasses.dataclass(frozen=True)
class Schema:
    """Names, dimensions and types of a record.

    Attributes:
        sizes: dimension → length; for padded dimensions that of the first point.
        pad: dimensions in which records may differ in length.
        fields: name → variable.
        attrs: attributes of the first record.
    """

    sizes: Mapping[str, int]
    pad: tuple[str, ...]
    fields: Mapping[str, Field]
    attrs: Mapping[str, Any]

    @staticmethod
    def of(record: xr.Dataset, pad: Sequence[str], axes: Sequence[str]) -> "Schema":
        """The schema of the first record.

        Raises:
            ValueError: for axes or padded dimensions that do not fit it, and for a record that
                the store cannot hold.
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
            raise ValueError("function: its record has no variables; allowed is at least one")
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
        """The arrays to store for a point.

        Args:
            record: the record of the point.
            shared: the arrays that all points share.

        Returns:
            Name → array.

        Raises:
            Mismatch: if names, dimensions, types or shared arrays differ from the first record.
        """
        variables = {_kept(str(k), self.pad): v for k, v in record.variables.items()}
        for name in {**self.fields, **variables}:
            if name not in variables or name not in self.fields:
                which = "lacks" if name not in variables else "has also"
                raise Mismatch(f"the record {which} {name!r}, unlike that of the first point")
        return {
            name: array
            for name, field in self.fields.items()
            if (array := self._array(name, field, variables[name], shared)) is not None
        }

    def _array(self, name: str, field: Field, variable: xr.Variable, shared) -> np.ndarray | None:
        """The array to store; None if it is shared, and was stored with the first point."""
        wanted = tuple(self.sizes[dim] for dim in field.dims)
        free = [dim in self.pad for dim in field.dims]
        same = len(wanted) == variable.ndim and all(
            a == b or any_ for a, b, any_ in zip(wanted, variable.shape, free, strict=True)
        )
        if tuple(map(str, variable.dims)) != field.dims or not same:
            raise Mismatch(
                f"{name} has dimensions {_described(variable.dims, variable.shape)}; "
                f"that of the first point has {_described(field.dims, wanted)}"
            )
        array = _stored(name, variable, field.dims, self.pad)
        dtype = _dtype(array)
        # NumPy would cast any number to text; only casts that lose nothing are allowed.
        castable = TEXT not in (dtype, field.dtype) and np.can_cast(dtype, field.dtype)
        if dtype != field.dtype and not castable:
            raise Mismatch(f"{name} is {dtype}; that of the first point is {field.dtype}")
        if not field.shared:
            return array
        if not np.array_equal(array, np.asarray(shared[name]).astype(array.dtype)):
            raise Mismatch(
                f"{name} differs from that of the first point; allowed is one for all points, "
                f"or pad=({name!r},)"
            )
        return None

    def point_bytes(self) -> int:
        """Approximate size of one record, in bytes."""
        each = (math.prod(self.sizes[d] for d in f.dims) for f in self.fields.values())
        return 8 * sum(each)


def check_lengths(array: Any, field: Field, schema: Schema) -> None:
    """Raises for an array of a store whose lengths the sweep cannot have given it.

    Only points and padded dimensions grow. Whoever lists the chunks of an array, or reads one that
    all points share, needs memory for what these lengths say.
    """
    wanted = [None if dim in schema.pad else schema.sizes[dim] for dim in field.dims]
    wanted = wanted if field.shared else [None, *wanted]
    lengths = list(zip(array.shape, array.chunks, wanted, strict=True))
    for size, chunk, allowed in lengths:
        if allowed not in (None, size) or size > LARGEST * chunk:
            raise ValueError(f"its shape is {array.shape}, unlike that of the records")
    if field.shared and 8 * math.prod(array.shape) > free_memory(None):
        raise ValueError(f"its shape is {array.shape}, which is more than the memory holds")


def _check_names(names: Sequence[str]) -> None:
    """Raises for names that the store uses itself."""
    for name in names:
        if is_own(name) or name == LATE or not is_file_name(name):
            raise ValueError(
                f"function: its record has {name!r}, which the store cannot keep; allowed are "
                f"names of files other than {OWN}, {PREFIX}… and {LATE}"
            )


def differing(attrs: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    """Names of attributes that differ from those of the first record."""
    mine = _plain(attrs)
    return sorted(n for n in {**mine, **first} if mine.get(n) != first.get(n))


def _described(dims: Sequence[Any], shape: Sequence[int]) -> str:
    return ", ".join(f"{dim} {size}" for dim, size in zip(dims, shape, strict=True)) or "none"


def _kept(name: str, pad: Sequence[str]) -> str:
    """The name in the store; labels of a padded dimension differ by point, and are prefixed."""
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
    """The values in a type of the store; padded integers become floats, which have a NaN."""
    array = np.asarray(variable.values)
    if array.dtype.kind in "OT" and all(isinstance(text, str) for text in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind not in KINDS:
        raise Mismatch(f"{name} is of type {array.dtype}; allowed are numbers and texts")
    if array.dtype.kind == "U":
        try:
            "".join(array.ravel()).encode()
        except UnicodeEncodeError:  # half a character, as of a file name that was read wrongly
            raise Mismatch(
                f"{name} has a text that UTF-8 cannot hold; allowed is one that it can"
            ) from None
    return array.astype(float) if set(dims) & set(pad) and array.dtype.kind in "iub" else array


def _dtype(array: np.ndarray) -> str:
    return TEXT if array.dtype.kind == "U" else str(array.dtype)


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes for JSON and NetCDF: strings and finite numbers; others as strings."""
    plain = lambda v: v.item() if isinstance(v, np.generic) else v
    return {str(name): _number_or_text(plain(value)) for name, value in attrs.items()}


def _number_or_text(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if number else str(value)
