"""`learndyn explore`."""

import asyncio
import os
import webbrowser
from typing import Annotated

import typer

from learndyn.cli.options import use_cache

LARGEST_PORT = 65535


def explore(
    port: Annotated[
        str, typer.Option(help="port on this computer; 0: any", metavar="INTEGER")
    ] = "0",
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    results: Annotated[str, typer.Option(help="folder of kept results")] = "docs/results",
    sweeps: Annotated[str, typer.Option(help="folder with stores of sweeps")] = ".",
) -> None:
    """Opens pages on which sliders move theories, and networks train on top; Ctrl-C ends it."""
    number = int(port) if port.isdecimal() else -1
    if not 0 <= number <= LARGEST_PORT:
        raise ValueError(f"--port: got {port!r}; allowed is an integer from 0 to {LARGEST_PORT}")
    try:
        import tornado  # noqa: F401 - to say what is missing
    except ImportError:
        raise ValueError("explore: tornado is missing; install learndyn[app]") from None
    from learndyn.explorer.server import serve

    def started(address: str) -> None:
        print(f"{address}\nOnly who has this address can use it. Ctrl-C ends it.", flush=True)
        if browser:
            webbrowser.open(address)

    folders = {"results": results, "sweeps": sweeps}
    try:
        asyncio.run(serve(number, started, **folders, prepare=use_cache))
    except OSError as error:
        raise ValueError(
            f"--port: got {number} ({os.strerror(error.errno or 0)}); allowed is one that is free"
        ) from None
