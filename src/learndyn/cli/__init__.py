"""The command line, one file a command: `learndyn list | run | replicate | sweep | …`."""

import contextlib
import os
import signal
import sys
from typing import NoReturn

from learndyn.cli.interruption import heed


def main() -> None:
    """The entry point: bad input, or a file that fails, is one line and exit code 2."""
    if hasattr(signal, "SIGPIPE"):  # a reader that has seen enough (`| head`) ends us quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    heed()
    try:
        # Not above: an interruption while it is imported is one line as well.
        from learndyn.cli.app import app

        # Alone it shows what there is, which is no error.
        code = app(["--help"] if len(sys.argv) < 2 else None, standalone_mode=False) or 0
        sys.stdout.flush()
    except Exception as error:
        _fail(_one_line(error))
    sys.exit(code)


def _one_line(error: Exception) -> str:
    # Typer keeps the classes of its usage errors private; all of them format a message.
    said = getattr(error, "format_message", None)
    if said:
        return said()
    if isinstance(error, OSError):
        where = "output" if error.filename is None else f"{os.fspath(error.filename)!r}"
        return f"{where}: {error.strerror or error}"
    if isinstance(error, ValueError):
        return str(error)
    raise error


def _fail(message: str) -> NoReturn:
    print(f"learndyn: {message}", file=sys.stderr)
    with contextlib.suppress(OSError):  # what could not be written is not tried again
        sys.stdout.close()
    sys.exit(2)
