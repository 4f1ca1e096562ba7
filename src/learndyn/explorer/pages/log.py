"""My log: a user's own loss history, its spikes, and what they are."""

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from learndyn.explorer.controls import Control, Slider, Text, Values
from learndyn.explorer.pages.base import AbstractPage
from learndyn.explorer.pages.spikes import spans, story
from learndyn.explorer.views import Axis, Chart, Series, Table, View

if TYPE_CHECKING:
    import numpy as np

STEP = ("step", "Step", "iteration", "global_step")
LOSS = ("loss", "error", "train_loss", "Value", "value")
RATE, CRITICAL = ("rate", "learning_rate", "lr"), ("critical_rate", "critical_learning_rate")
KINDS = ".nc of `ld.save` or `ld.Recorder`, or .csv with a line of names"
MOST_POINTS = 20_000  # of a curve on its way to the browser


class Log(AbstractPage):
    """Loss with spikes shaded, learning rate against the critical one."""

    name = "log"
    title = "My log"
    about = (
        "Choose a file of your own training: a record (.nc), or a CSV file with a column of losses "
        "and, if you have them, of rates and critical rates. It stays on this computer."
    )
    controls: ClassVar[dict[str, Control]] = {
        "file": Text("file", "file"),
        "variable": Text("loss", "offered"),
        "rise": Slider("smallest rise of a spike", 1.01, 10, 1.1, log=True),
    }

    def show(self, values: Values, folders: Mapping[str, str]) -> View:
        import learndyn as ld

        if not values["file"]:
            return View(status="no file chosen yet")
        columns = _read(pathlib.Path(folders["sent"]), values["file"])
        names = [name for name in columns if name not in STEP]
        variable = (
            values["variable"] if values["variable"] in names else _first(LOSS, names) or names[0]
        )
        steps, loss = _steps(columns, variable)
        rates = {
            name: columns[column][: len(loss)] for name, known in
            (("rate", RATE), ("critical_rate", CRITICAL)) if (column := _first(known, names))
        }  # fmt: skip
        both = {name: curve for name, curve in rates.items() if len(rates) == 2}
        rise, rate, critical = values["rise"], both.get("rate"), both.get("critical_rate")
        found = ld.analysis.find_catapults(loss, rise=rise, rate=rate, critical_rate=critical)
        shaded = spans(found, steps)
        thin = slice(None, None, -(-len(steps) // MOST_POINTS))
        view = View(notes=story(found), offers={"variable": names})
        view.status = f"{len(loss)} entries, columns {', '.join(columns)}"
        positive = bool((loss > 0).all())
        view.charts.append(
            Chart(variable, Axis("step"), Axis(variable, positive), steps[thin],
                  [Series(variable, loss[thin])], spans=shaded)
        )  # fmt: skip
        if rates:
            labels = {"rate": "η", "critical_rate": "η_crit"}
            curves = [
                Series(labels[name], curve[thin], "other", i)
                for i, (name, curve) in enumerate(rates.items())
            ]
            view.charts.append(
                Chart("Rates", Axis("step"), Axis("rate"), steps[thin], curves, spans=shaded)
            )
        rows = [
            (
                f"{steps[s.onset]:g}",
                f"{steps[s.peak]:g}",
                f"{steps[min(s.end, len(steps) - 1)]:g}",
                f"{s.rise:.3g}",
            )
            for s in found.spikes
        ]
        if rows:
            view.tables.append(Table("Spikes", ("onset", "peak", "end", "rise"), rows))
        return view


def _first(wanted: tuple[str, ...], names: Any) -> str | None:
    return next((name for name in wanted if name in names), None)


def _steps(columns: Mapping[str, "np.ndarray"], variable: str) -> tuple["np.ndarray", "np.ndarray"]:
    """Steps and losses of the entries that have a loss."""
    import numpy as np

    loss = columns[variable]
    column = _first(STEP, columns)
    steps = np.arange(len(loss), dtype=float) if column is None else columns[column]
    return steps, loss


def _read(folder: pathlib.Path, name: str) -> dict[str, "np.ndarray"]:
    """Column → numbers, of a file that was sent."""
    path = folder / name
    if path.parent != folder or not path.is_file():
        raise ValueError(f"file: got {name!r}; allowed is a file that was chosen here")
    readers = {".nc": _record, ".csv": _csv, ".tsv": _csv, ".txt": _csv}
    if path.suffix not in readers:
        raise ValueError(f"file: got one that ends in {path.suffix!r}; allowed is {KINDS}")
    return readers[path.suffix](path)


def _record(path: pathlib.Path) -> dict[str, "np.ndarray"]:
    import learndyn as ld

    try:
        record = ld.load(path)
    except (ValueError, OSError) as error:
        why = str(error).partition("\n")[0].replace(f"{path}", "the file")
        raise ValueError(f"file: {why}") from None
    curves = {str(n): v for n, v in record.data_vars.items() if "time" in v.dims}
    first = {n: v.isel(run=0) if "run" in v.dims else v for n, v in curves.items()}
    columns = {n: v.values.astype(float) for n, v in first.items() if v.ndim == 1}
    if not columns:
        raise ValueError("file: got a record without a curve; allowed is one with a loss")
    return {"step": record["step"].values.astype(float), **columns}


def _csv(path: pathlib.Path) -> dict[str, "np.ndarray"]:
    import csv

    import numpy as np

    try:
        text = path.read_text("utf-8-sig")
        rows = list(
            csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
        )
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"file: got one that is not text; allowed is {KINDS}") from None
    columns = {}
    for name in rows[0] if rows else ():
        try:
            columns[name] = np.array([float(row[name]) for row in rows])
        except (TypeError, ValueError):
            continue  # a column of texts, or a line that ends too early
    if not columns.keys() - set(STEP):
        raise ValueError(f"file: got no column of numbers with a name; allowed is {KINDS}")
    return columns
