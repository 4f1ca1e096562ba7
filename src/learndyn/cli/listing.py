"""`learndyn list`."""

import itertools
import json
import sys
from typing import Annotated

import typer

SEARCH = Annotated[str, typer.Argument(help="only studies whose name or title has this word")]
PAPER = Annotated[str, typer.Option(help="only studies of this paper")]
JSON = Annotated[bool, typer.Option("--json", help="print name, paper and title as JSON")]


def list_studies(search: SEARCH = "", paper: PAPER = "", as_json: JSON = False) -> None:
    """Lists the studies: grouped by paper on a terminal, one line per study in a pipe."""
    from learndyn.runtime.checks import one_of
    from learndyn.studies import registry

    papers = list(dict.fromkeys(name.split("/")[0] for name in registry.names()))
    if paper:
        papers = [one_of("--paper", paper, tuple(papers))]
    studies = [
        {"name": name, "paper": name.split("/")[0], "title": registry.title(name)}
        for name in registry.names()
        if name.split("/")[0] in papers
    ]
    word = search.casefold()
    rows = [row for row in studies if word in f"{row['name']} {row['title']}".casefold()]
    if not rows:
        raise ValueError(f"list: got {search!r}; allowed is a word of a study's name or title")
    if as_json:
        print(json.dumps(rows, indent=1))
    elif sys.stdout.isatty():
        for name, group in itertools.groupby(rows, key=lambda row: row["paper"]):
            figures = {row["name"].split("/")[1]: row["title"] for row in group}
            width = max(map(len, figures))
            print(f"\n{name}")
            print("\n".join(f"  {figure:{width}}  {title}" for figure, title in figures.items()))
    else:
        print("\n".join(f"{row['name']}  {row['title']}" for row in rows))
