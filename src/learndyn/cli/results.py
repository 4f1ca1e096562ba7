"""`learndyn results`."""

import pathlib
from typing import Annotated

import typer

from learndyn.cli import options


def write_results(
    folder: Annotated[str, typer.Argument(help="folder of kept results")] = "docs/results",
    force: Annotated[bool, typer.Option("--force", help="replace any README.md there")] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="run quick presets of studies whose text has changed")
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="first copy the results of a run, from its folder")
    ] = None,
    redraw: Annotated[
        list[str] | None, typer.Option(help="draw the figure of this study anew, from its data")
    ] = None,
) -> None:
    """Writes README.md in a folder of kept results, from the files there."""
    from learndyn.records import whole_file
    from learndyn.studies import confirmation, keeping, summary

    path = pathlib.Path(folder)
    if not path.is_dir():
        raise ValueError(f"folder: got {folder!r}; allowed is a folder of kept results")
    readme = path / "README.md"
    if not (force or summary.is_own(readme)):
        allowed = "one that `learndyn results` wrote, or any with --force"
        raise ValueError(f"{readme}: got a file written by others; allowed is {allowed}")
    for run in keep or ():
        print(f"kept in {keeping.keep(pathlib.Path(run), path)}")
    for study in redraw or ():
        print(f"drawn anew in {keeping.redraw(path, study)}")
    if confirm:
        options.use_cache()
    for name in summary.kept(path) if confirm else ():
        print(f"{name}: {confirmation.confirm(path / name, name)}", flush=True)
    text = summary.written(path)  # after the confirmations, which it mentions
    with whole_file(readme) as part:
        part.write_text(text, encoding="utf-8")
    print(f"{readme}: {len(summary.kept(path))} results")
