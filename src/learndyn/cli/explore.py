"""`learndyn explore`."""

import asyncio
import contextlib
import os
import signal
import webbrowser
from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from learndyn.cli.interruption import end
from learndyn.cli.options import use_cache

LARGEST_PORT = 65535
ENDINGS = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, `kill`, a terminal that is closed


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
        if hasattr(signal, "SIGPIPE"):  # what ends the other commands would end the server
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if browser:
            webbrowser.open(address)

    folders = {"results": results, "sweeps": sweeps}
    try:
        asyncio.run(_until_ended(serve(number, started, **folders, prepare=use_cache)))
    except asyncio.CancelledError:
        end()
    except OSError as error:
        raise ValueError(
            f"--port: got {number} ({os.strerror(error.errno or 0)}); allowed is one that is free"
        ) from None


async def _until_ended(serving: Coroutine[Any, Any, None]) -> None:
    """Serves until a signal comes, and then removes the files that visitors have sent."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(serving)
    for number in (getattr(signal, name) for name in ENDINGS if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as it is under nohup
            with contextlib.suppress(NotImplementedError):  # on Windows
                loop.add_signal_handler(number, task.cancel)
    await task
