"""`learndyn results`."""

import pathlib
from typing import Annotated

import typer


def write_results(
    folder: Annotated[str, typer.Argument(help="folder of kept results")] = "docs/results",
) -> None:
    """Writes the README.md of a folder of kept results from the files in it."""
    from learndyn.records import whole_file
    from learndyn.studies import summary

    path = pathlib.Path(folder)
    if not path.is_dir():
        raise ValueError(f"folder: got {folder!r}; allowed is a folder of kept results")
    text = summary.written(path)
    with whole_file(path / "README.md") as part:
        part.write_text(text, encoding="utf-8")
    print(f"{path / 'README.md'}: {len(summary.kept(path))} results")
