"""Environments that others have; docs/reliability.md says what is promised in each."""

import os
import pathlib
import subprocess
import sys

import pytest

SMALL = pathlib.Path(__file__).parent / "small.py"
FORKS = """
import multiprocessing, warnings
import learndyn as ld
warnings.simplefilter("ignore")  # JAX's own, at every fork
import small
def child(sent):
    try:
        small.curve()
    except ValueError as error:
        sent.put(str(error))
if __name__ == "__main__":
    small.curve()
    context = multiprocessing.get_context("fork")
    sent = context.SimpleQueue()
    process = context.Process(target=child, args=(sent,))
    process.start()
    print(sent.get())
    process.join(30)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(child_of_spawn := small.curve, [0])[0][2].verdict)
"""


def run(*arguments, **changes):
    """A process of its own; values that are None are taken out of the environment."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SMALL.parent), *sys.path])}
    for name, value in changes.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300
    )


@pytest.fixture(scope="module")
def usual():
    return run(str(SMALL)).stdout


ENVIRONMENTS = {
    "locale": ((), {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"}),
    "home": ((), {"HOME": None, "XDG_CACHE_HOME": None}),
    "display": ((), {"DISPLAY": None, "MPLBACKEND": None}),
    "optimised": (("-O",), {}),
    "warnings": (("-W", "error"), {}),
    "columns": ((), {"COLUMNS": "40"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_same_numbers_in_other_environments(name, usual):
    options, changes = ENVIRONMENTS[name]
    process = run(*options, str(SMALL), **changes)
    assert process.stdout == usual and usual.split()[1] in ("agrees", "undecided"), process.stderr


@pytest.mark.slow
def test_numpy_errors_raised_by_the_caller(usual):
    code = f"import numpy as np; np.seterr(all='raise')\n{SMALL.read_text()}"
    assert run("-c", code).stdout == usual


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.slow
def test_a_fork_after_jax_is_one_line_and_spawn_works(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    lines = run(str(script)).stdout.splitlines()
    assert lines[0].startswith("process: was forked after JAX had been used")
    assert lines[1] in ("agrees", "undecided") and len(lines) == 2
