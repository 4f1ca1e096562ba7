"""The tab key in a shell: commands, options and the names of studies."""

import os
import subprocess
import sys

import pytest

from learndyn.studies import registry

# An installed command is called by its name.
CALLED = "import sys; sys.argv[0] = 'learndyn'; from learndyn.cli import main; main()"
STUDIES = [name for name in registry.names() if name.startswith("curvature2020linear/f")]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("repl", ["replicate"]), ("show curvature2020linear/f", STUDIES)],
)
def test_bash_completes_commands_and_studies(typed, offered):
    words = f"learndyn {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    environment = {**os.environ, **asked, "_LEARNDYN_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", CALLED], capture_output=True, text=True, env=environment, timeout=300
    )
    assert offered and done.stdout.split() == offered, done.stderr
