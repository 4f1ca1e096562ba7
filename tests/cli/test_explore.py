"""`learndyn explore` as a process: how it ends, and what does not end it."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

SECONDS = 60.0  # a server that goes on is found by this
# A parent in the background ignores interruptions, and so would its child.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from learndyn.cli import main
sys.argv = ["learndyn", "explore", "--no-browser"]
main()
"""


@contextlib.contextmanager
def explorer(**environment):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command, environment = [sys.executable, "-c", SCRIPT], {**os.environ, **environment}
    with subprocess.Popen(command, **pipes, env=environment) as process:
        try:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_files_that_were_sent_are_removed_when_the_server_ends(tmp_path, name):
    with explorer(TMPDIR=str(tmp_path)) as process:
        (folder,) = tmp_path.glob("learndyn-*")
        (folder / "my.csv").write_text("loss\n1\n")
        process.send_signal(getattr(signal, name))
        assert process.wait(SECONDS) == 130
        assert process.stderr.read() == "learndyn: interrupted\n"
    assert not folder.exists()


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="Linux says it there")
def test_connections_that_break_do_not_end_the_server():
    """Other commands end quietly when a pipe breaks, as in `learndyn list | head`."""
    with explorer() as process:
        end = time.monotonic() + SECONDS
        while not _ignored(process.pid) >> (signal.SIGPIPE - 1) & 1:
            assert time.monotonic() < end
            time.sleep(0.05)


def _ignored(pid):
    """The signals that a process ignores, as bits."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
