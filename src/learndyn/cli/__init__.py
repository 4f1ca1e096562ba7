"""The command line, one file per command: `learndyn list | run | replicate | sweep | …`."""

import contextlib
import io
import os
import signal
import sys
from typing import NoReturn

from learndyn.cli.interruption import end_on_ctrl_c


def main() -> None:
    """The entry point. Bad input and file errors print one line and exit with code 2."""
    # If the reader of a pipe closes it (`| head`), end quietly, without a traceback. Windows has
    # no SIGPIPE.
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    end_on_ctrl_c()
    for stream in (sys.stdout, sys.stderr):
        # Without UTF-8, as in pipes of Windows, a Greek letter would be an error; now it is "?".
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # With `>&-`, the next file to be opened would get descriptor 1, and prints would end up in it.
    if sys.stdout is None:
        _fail("output: got a closed stream; allowed is one that can be written, such as /dev/null")
    try:
        # Imported here, after `end_on_ctrl_c`, so that an interruption of this slow import prints
        # one line as well.
        from learndyn.cli.app import app

        # Without arguments, show the commands; that is not an error.
        code = app(["--help"] if len(sys.argv) < 2 else None, standalone_mode=False) or 0
        sys.stdout.flush()
    except Exception as error:
        _fail(_one_line(error))
    sys.exit(code)


def _one_line(error: Exception) -> str:
    # Typer keeps the classes of its usage errors private; all of them format a message.
    format_message = getattr(error, "format_message", None)
    if format_message:
        return format_message()
    if isinstance(error, OSError):
        where = "output" if error.filename is None else f"{os.fspath(error.filename)!r}"
        return f"{where}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        why = str(error) or "there is not enough"
        return f"memory: {why}; allowed is work that fits this computer"
    if isinstance(error, ValueError):
        return str(error)
    raise error  # anything else is a bug, and deserves its traceback


def _fail(message: str) -> NoReturn:
    print(f"learndyn: {message}", file=sys.stderr)
    # Close stdout now: if writing to it has failed, Python would try to flush it again on exit.
    with contextlib.suppress(OSError, AttributeError):
        sys.stdout.close()
    sys.exit(2)
