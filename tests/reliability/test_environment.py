"""Environments that others have; docs/reliability.md says what is promised in each."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import learndyn as ld

STUDY = "bocchi2026escape/fig5"
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
def test_sweeps_without_assertions_work_or_are_one_line():
    """Zarr 3.1 takes something out of what it reads by an assertion, which -O leaves out."""
    said = run("-O", "-c", "import learndyn as ld; ld.sweep; print('works')")
    line = "ImportError: zarr reads nothing under `python -O`; sweeps need Python without -O"
    assert said.stdout == "works\n" or said.stderr.splitlines()[-1] == line


def drawn(folder, *options, **changes):
    """The values of the claims of a study that the command line runs, draws and prints."""
    process = run(*options, "-m", "learndyn", "run", STUDY, "--out", str(folder), **changes)
    assert process.returncode == 0, process.stderr
    assert "holds" in process.stdout and not process.stderr
    assert {each.name for each in folder.iterdir()} >= {"figure.png", "figure.svg", "data.nc"}
    found = json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    return [(each["name"], each["measured"]) for each in found]


@pytest.fixture(scope="module")
def usually_drawn(tmp_path_factory):
    return drawn(tmp_path_factory.mktemp("usual") / "here")


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_command_draws_and_prints_in_other_environments(name, usually_drawn, tmp_path):
    options, changes = ENVIRONMENTS[name]
    assert usually_drawn and drawn(tmp_path / "here", *options, **changes) == usually_drawn


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


SETTINGS = {
    "x64": "jax.config.update('jax_enable_x64', True)",
    "another default device": "jax.config.update('jax_default_device', jax.devices()[1])",
    "debug_nans": "jax.config.update('jax_debug_nans', True)",
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_same_numbers_under_the_callers_settings_of_jax(setting, usual):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    code = f"import jax\n{setting}\n{SMALL.read_text()}"
    process = run("-c", code, XLA_FLAGS=flags)
    assert process.stdout == usual, process.stderr


BAD = [float("nan"), float("inf"), -float("inf")]


@pytest.mark.parametrize("bad", BAD)
def test_numbers_in_data_that_are_not_finite_are_one_line(bad):
    x, y = np.ones((4, 3)), np.ones((4, 1))
    network = ld.MLP([3, 1], "linear")
    model = ld.Model(network, network.sample(np.random.default_rng(0), (3,)))
    wrong_x, wrong_y = x.copy(), y.copy()
    wrong_x[2, 1] = wrong_y[2, 0] = bad
    calls = {
        "x": lambda: ld.Dataset(wrong_x, y),
        "y": lambda: ld.Dataset(x, wrong_y),
        "test": lambda: ld.Dataset(x, y, test=(wrong_x, y)),
        "values": lambda: ld.Spectrum([1.0, bad], [2, 2]),
        "times": lambda: ld.solve(ld.System(ld.Dataset(x, y), network, ld.SGD(0.1)), [0, bad]),
        "ntk": lambda: ld.ntk(model, wrong_x),
        "hessian": lambda: ld.hessian_top(model, x, wrong_y),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=r"\A[^\n]*(nan|inf|finite)[^\n]*\Z"):
            print(name, call())
