"""Rows of named values, of which a row may lack some."""

import bisect
from array import array
from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr

Variables = dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]


class Column:
    """The values of one name, in the rows that have it.

    Args:
        name: the name, from which dimensions of arrays get their names.
        shape: the shape of each value.
    """

    def __init__(self, name: str, shape: tuple[int, ...]):
        self.shape, self.dims = shape, tuple(f"{name}_{i}" for i in range(len(shape)))
        self._rows, self._numbers = (
            array("q"),
            array("d"),
        )  # arrays, to which appending takes amortised O(1)

    def add(self, rows: Iterable[int], values: np.ndarray) -> None:
        """Appends the values of later rows."""
        self._rows.extend(rows)
        self._numbers.frombytes(values.tobytes())

    def cut(self, rows: int) -> None:
        """Keeps only the first `rows` rows."""
        kept = bisect.bisect_left(self._rows, rows)
        del self._rows[kept:]
        del self._numbers[kept * int(np.prod(self.shape)) :]

    def values(self, rows: int) -> np.ndarray:
        """The values in all rows, NaN in rows without one."""
        values = np.full((rows, *self.shape), np.nan)
        values[np.array(self._rows, int)] = np.array(self._numbers).reshape(-1, *self.shape)
        return values


class Table:
    """Values at steps; each step may have different names."""

    def __init__(self):
        self.steps, self._columns = array("q"), dict[str, Column]()

    def __len__(self) -> int:
        return len(self.steps)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def add(self, step: int, values: Mapping[str, np.ndarray]) -> None:
        """Adds a row.

        Args:
            step: its step, larger than those before.
            values: name → value, in float64.

        Raises:
            ValueError: for a value whose shape has changed, or the name of a dimension.
        """
        columns = dict(self._columns)
        for name, value in values.items():
            columns[name] = _column(columns, name, value.shape)
        self._columns = columns
        for name, value in values.items():
            columns[name].add((len(self.steps),), value)
        self.steps.append(step)

    def cut(self, step: int) -> None:
        """Drops the rows from a step onwards."""
        del self.steps[bisect.bisect_left(self.steps, step) :]
        for column in self._columns.values():
            column.cut(len(self.steps))

    def variables(self) -> Variables:
        """The variables of a record with one run."""
        return {
            name: (
                ("run", "time", *column.dims),
                column.values(len(self))[None],
                {"long_name": name, "units": ""},
            )
            for name, column in self._columns.items()
        }

    @staticmethod
    def of(record: xr.Dataset) -> "Table":
        """The table from which a record was made."""
        table = Table()
        table.steps.extend(record["step"].values.tolist())
        for name, variable in record.data_vars.items():
            if "time" in variable.dims:
                curve = variable.values[0]
                there = np.flatnonzero(~np.isnan(curve).reshape(len(curve), -1).all(axis=1))
                column = table._columns[str(name)] = Column(str(name), curve.shape[1:])
                column.add(there.tolist(), curve[there])
        return table


def _column(columns: Mapping[str, Column], name: str, shape: tuple[int, ...]) -> Column:
    """The column of a name, a new one if needed; raises for a wrong shape or name."""
    if name in columns:
        if columns[name].shape != shape:
            before = columns[name].shape
            raise ValueError(f"{name}: got shape {shape}; allowed is {before}, as before")
        return columns[name]
    column = Column(name, shape)
    dims = {dim for other in columns.values() for dim in other.dims}
    if name in dims or any(dim in columns for dim in column.dims):
        raise ValueError(
            f"{name}: got the name of a dimension; allowed are names that no dimension has"
        )
    return column
