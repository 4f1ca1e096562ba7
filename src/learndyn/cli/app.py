"""The application. Commands import what they need when called, so that `--help` is fast."""

from typing import Annotated

import typer

from learndyn.cli.cite import cite
from learndyn.cli.data import data
from learndyn.cli.explore import explore
from learndyn.cli.join import join
from learndyn.cli.listing import list_studies
from learndyn.cli.new import new
from learndyn.cli.replicate import replicate
from learndyn.cli.report import report
from learndyn.cli.results import write_results
from learndyn.cli.run import run
from learndyn.cli.show import show
from learndyn.cli.sweep import sweep

app = typer.Typer(pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from learndyn import __version__

        print(f"learndyn {__version__}")
        raise typer.Exit()
    return wanted


VERSION = typer.Option(
    "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
)


@app.callback()
def learndyn(version: Annotated[bool, VERSION] = False) -> None:
    """Predicts how neural networks learn, and checks the prediction."""


app.command("list")(list_studies)
app.command()(show)
app.command()(run)
app.command()(join)
app.command()(replicate)
app.command()(sweep)
app.command("results")(write_results)
app.command()(explore)
app.command()(report)
app.command()(new)
app.command()(cite)
app.add_typer(data, name="data")
