"""`learndyn report`."""

import pathlib
from typing import Annotated

import typer


def report(
    folder: Annotated[
        str, typer.Argument(help="folder of results, or store of a sweep", metavar="[DIR]")
    ] = "results",
    out: Annotated[str, typer.Option(help="the HTML file")] = "report.html",
) -> None:
    """Writes one page about a folder of results: figures, claims, errata, provenance."""
    path = pathlib.Path(folder)
    if not path.is_dir():
        raise ValueError(f"folder: got {folder!r}; allowed is a folder of results")
    print(write_report(path, pathlib.Path(out)))


def write_report(folder: pathlib.Path, out: pathlib.Path) -> str:
    """Writes the page of a folder; returns a line that says where and how large it is."""
    from learndyn.records import whole_file
    from learndyn.report import page

    text = page(folder)
    with whole_file(out) as part:
        part.write_text(text, encoding="utf-8")
    size = len(text.encode())
    shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    return f"{out}: {shown}, opens in any browser"
