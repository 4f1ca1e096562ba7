"""Results as tables: HTML in notebooks, `rich` text in terminals."""

import dataclasses
import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 72  # characters: longer captions are broken
T = TypeVar("T", bound=type)


@dataclasses.dataclass(frozen=True)
class Shown:
    """What is shown of a result.

    Attributes:
        caption: what it is.
        rows: cells of the rows; the first column has their names.
        heads: headings of the columns; () for none.
    """

    caption: str
    rows: Sequence[Sequence[Any]]
    heads: Sequence[str] = ()

    def html(self) -> str:
        """The table as HTML, with all texts escaped."""
        cells = lambda kind, texts: "".join(f"<{kind}>{_escaped(t)}</{kind}>" for t in texts)
        head = f"<tr>{cells('th', self.heads)}</tr>" if self.heads else ""
        rows = (f"<tr>{cells('th', row[:1])}{cells('td', row[1:])}</tr>" for row in self.rows)
        return f"<table><caption>{_escaped(self.caption)}</caption>{head}{''.join(rows)}</table>"

    def text(self) -> "Table":
        """The table for a terminal."""
        from rich.markup import escape
        from rich.table import Table

        heads = self.heads or [""] * max((len(row) for row in self.rows), default=1)
        table = Table(*map(escape, heads), title=escape(self.caption), title_justify="left")
        table.show_header = bool(self.heads)
        table.min_width = min(len(self.caption), WIDE)
        for row in self.rows:
            table.add_row(*(escape(_cell(value)) for value in row))
        return table


def shown_as_table(kind: T) -> T:
    """Shows the objects of a class in notebooks, and by `rich.print`, as what `_shown` returns.

    A decorator and no base class, since named tuples have none.
    """
    kind._repr_html_ = lambda self: self._shown().html()
    kind.__rich__ = lambda self: self._shown().text()
    return kind


def _cell(value: Any) -> str:
    """Four digits of a number; "–" for what is not known."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _escaped(value: Any) -> str:
    return html.escape(_cell(value))
