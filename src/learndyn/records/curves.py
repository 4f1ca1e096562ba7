"""Curves of a training that others have logged: records, CSV files and TensorBoard's events."""

import codecs
import csv
import itertools
import os
import pathlib
import re
from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from learndyn.records.events import scalars
from learndyn.records.files import load
from learndyn.runtime.memory import check_fits

STEP = ("step", "Step", "global_step", "iteration", "iter", "epoch")  # names of columns of steps
TABLES = (".csv", ".tsv", ".txt")
SEPARATORS = ",;\t"  # of the cells of a table; the one that its first line has most of
EVENTS = "tfevents"  # in the names of TensorBoard's files
KINDS = (
    "a record (.nc) of `ld.save` or `ld.Recorder`, a .csv file with a line of names, "
    "or an event file of TensorBoard"
)
CUT_OFF = "The file ends within an entry, which is left out: it is cut off, or still being written."


class Curve(NamedTuple):
    """Values at increasing steps."""

    steps: np.ndarray
    values: np.ndarray

    def at(self, steps: np.ndarray) -> np.ndarray:
        """The last known value at each of some steps; NaN before the first."""
        place = np.searchsorted(self.steps, steps, side="right") - 1
        return np.where(place >= 0, self.values[np.maximum(place, 0)], np.nan)


class Logged(NamedTuple):
    """The curves of a file.

    Attributes:
        curves: name → curve.
        remark: what is left out of the file, in a sentence; or empty.
    """

    curves: Mapping[str, Curve]
    remark: str = ""


def read_curves(path: str | os.PathLike[str]) -> Logged:
    """The curves in a record, in the columns of a CSV file, or in a TensorBoard event file.

    Steps are sorted; of several entries of one step, the last one holds, as where a training was
    resumed. Empty cells of a CSV file are left out, and so are columns that are not numbers. The
    column of steps is called step, global_step, iteration, iter or epoch; without one, rows count.
    Cells are separated by commas, tabs or semicolons; with semicolons a comma in a number is its
    decimal point. The text is in UTF-8 or, as Excel's "Unicode text", in UTF-16.

    Args:
        path: the file; how to read it follows from its name.

    Returns:
        Name → steps and values, and a remark.

    Raises:
        ValueError: for a file without curves, one that cannot be read, or of another kind.
    """
    path = pathlib.Path(path)
    remark = ""
    try:
        check_fits(path.name, path.stat().st_size)
        if EVENTS in path.name:
            found, whole = scalars(path.read_bytes())
            remark = "" if whole else CUT_OFF
        elif path.suffix.lower() == ".nc":
            found, remark = _record(path)
        elif path.suffix.lower() in TABLES:
            found = _table(path)
        else:
            raise ValueError(f"its name ends in {path.suffix!r}")
        curves = {name: _sorted(*each) for name, each in found.items()}
        if not any(len(curve.steps) for curve in curves.values()):
            raise ValueError("no numbers with a name are in it")
    except UnicodeError:
        raise ValueError(f"file: got {path.name!r} (it is no text); allowed is {KINDS}") from None
    except (ValueError, OSError, csv.Error) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        text = str(why).partition("\n")[0]
        raise ValueError(f"file: got {path.name!r} ({text}); allowed is {KINDS}") from None
    return Logged(curves, remark)


def _sorted(steps, values) -> Curve:
    """By increasing step; of several entries of a step, the last."""
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    known = np.isfinite(steps)
    steps, values = steps[known][::-1], values[known][::-1]
    steps, last = np.unique(steps, return_index=True)
    return Curve(steps, values[last])


def _record(path: pathlib.Path) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], str]:
    try:
        record = load(path)
    except ValueError as error:  # the reason stands in brackets
        raise ValueError(str(error).partition("(")[2].partition(")")[0] or "damaged") from None
    curves = {str(n): v for n, v in record.data_vars.items() if "time" in v.dims}
    first = {n: v.isel(run=0) if "run" in v.dims else v for n, v in curves.items()}
    steps = (record["step"] if "step" in record.coords else record["time"]).values
    found = {
        n: (steps, v.values) for n, v in first.items() if v.ndim == 1 and v.dtype.kind in "fiu"
    }
    runs = record.sizes.get("run", 1)
    return found, f"These are the curves of the first of {runs} runs." * (runs > 1)


def _table(path: pathlib.Path) -> dict[str, tuple[array, array]]:
    """The columns of numbers of a table, each with the steps of its entries."""
    with path.open(encoding=_encoding(path), newline="") as file:
        first = file.readline()
        separator = max(SEPARATORS, key=re.sub('"[^"]*"', "", first).count)
        rows = csv.reader(itertools.chain([first], file), delimiter=separator)
        names = [name.strip() for name in next(rows, [])]
        if names and all(_number(name) is not None for name in names):
            raise ValueError("its first line has numbers instead of names")
        number = _number if separator != ";" else lambda cell: _number(cell.replace(",", "."))
        step = next((names.index(name) for name in STEP if name in names), None)
        columns = {i: (array("d"), array("d")) for i in range(len(names)) if i != step}
        for count, row in enumerate(rows):
            at = number(row[step]) if step is not None and step < len(row) else count
            for i in tuple(columns):
                cell = row[i].strip() if i < len(row) else ""
                value = number(cell)
                if cell and value is None:
                    del columns[i]  # a column of texts
                elif value is not None and at is not None and (step is None or step < len(row)):
                    columns[i][0].append(at)
                    columns[i][1].append(value)
    return {names[i]: column for i, column in columns.items() if names[i]}


def _encoding(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return (
            "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
