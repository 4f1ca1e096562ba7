"""What a page shows: charts, tables, pictures and texts, in the form that the browser draws."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

DIGITS = 10  # of a number on its way to the browser


@dataclasses.dataclass
class Axis:
    """An axis of a chart, and whether it is logarithmic at first."""

    label: str
    log: bool = False


@dataclasses.dataclass
class Series:
    """A curve.

    Attributes:
        name: what it is.
        y: its values at the chart's x; NaN where there is none.
        style: "theory", "run" or "other".
        colour: index of its colour; None for that of its style.
        dash: 0 if it is drawn whole, 1 dashed, 2 dotted.
    """

    name: str
    y: Any
    style: str = "theory"
    colour: int | None = None
    dash: int = 0


@dataclasses.dataclass
class Mark:
    """A line at a value of an axis, "x" or "y", with its label."""

    axis: str
    at: float
    label: str


@dataclasses.dataclass
class Span:
    """A shaded part of the x axis."""

    begin: float
    end: float
    label: str


@dataclasses.dataclass
class Band:
    """What is filled between two curves, by their names, and its name in the legend."""

    above: str
    below: str
    name: str


@dataclasses.dataclass
class Chart:
    """Curves over common x.

    Attributes:
        title: what the chart shows.
        x: the horizontal axis.
        y: the vertical one.
        at: the values of x.
        series: the curves.
        marks: lines where landmarks fall.
        spans: shaded stretches.
        band: what is filled between two of the curves.
        streams: the variable of a record whose runs are drawn on top while they train.
    """

    title: str
    x: Axis
    y: Axis
    at: Any
    series: list[Series]
    marks: list[Mark] = dataclasses.field(default_factory=list)
    spans: list[Span] = dataclasses.field(default_factory=list)
    band: Band | None = None
    streams: str = ""


@dataclasses.dataclass
class Table:
    """Rows of texts; a row may lead to other values of the controls."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    leads: Sequence[Mapping[str, Any]] = ()


@dataclasses.dataclass
class Heat:
    """A map of values over two axes; each cell leads to other values of the controls.

    `chosen` is the cell whose record is shown.
    """

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Any
    status: Sequence[Sequence[str]]
    leads: Sequence[Sequence[Mapping[str, Any]]]
    chosen: str = ""


@dataclasses.dataclass
class Picture:
    """An image of the server, with the text that stands for it."""

    source: str
    text: str


@dataclasses.dataclass
class View:
    """What a page shows for some values of its controls.

    Attributes:
        status: in a line: which theory covers the system and why, or what was read.
        charts: the charts.
        tables: the tables.
        heats: the maps.
        pictures: the images.
        notes: paragraphs.
        code: the program that computes the same.
        hints: control → what to write below it, such as a critical rate.
        offers: control → the texts it may have.
        trains: what the button to start a run says; empty if nothing can be run.
        saves: whether there is a record or a figure to save.
        links: texts that lead to other values of the controls.
    """

    status: str = ""
    charts: list[Chart] = dataclasses.field(default_factory=list)
    tables: list[Table] = dataclasses.field(default_factory=list)
    heats: list[Heat] = dataclasses.field(default_factory=list)
    pictures: list[Picture] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    code: str = ""
    hints: dict[str, str] = dataclasses.field(default_factory=dict)
    offers: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    trains: str = ""
    saves: bool = False
    links: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


def plain(value: Any) -> Any:
    """A view as plain lists, dicts, texts and numbers; None for what is not finite."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value
