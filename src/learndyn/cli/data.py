"""`learndyn data`."""

import os
import pathlib
import sys
from typing import Annotated

import typer

from learndyn.cli.options import DATA_DIR

data = typer.Typer(help="Downloads public data files, and lists those that can be downloaded.")
NAME = Annotated[str, typer.Argument(help="mnist, fashion-mnist, cifar10 or svhn")]


@data.command()
def get(name: NAME, data_dir: DATA_DIR = "") -> None:
    """Downloads a data set, checks it, and keeps it for later."""
    import importlib.util

    from learndyn.problems.readers.download import fetch

    bar = sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
    print(f"{name} is in {fetch(name, data_dir or None, progress=bar)}")


@data.command("list")
def list_data(data_dir: DATA_DIR = "") -> None:
    """Lists the data sets that `get` knows, and whether their files are there."""
    from learndyn.problems.readers.download import SOURCES, present
    from learndyn.problems.readers.files import VARIABLE, own_folder

    root = pathlib.Path(data_dir or os.environ.get(VARIABLE) or own_folder())
    for name in SOURCES:
        print(f"{name}  {'in ' + str(root) if present(name, root) else 'not downloaded'}")
