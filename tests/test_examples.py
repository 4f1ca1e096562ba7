"""Examples run as they stand, and learn."""

import pathlib
import re
import runpy

import numpy as np
import pytest

import learndyn as ld
from learndyn.theory import THEORIES

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
PAGE = EXAMPLES.parent / "docs" / "examples.md"


def run(name, folder):
    """What `main` of an example returned after its figure, which has been drawn."""
    figure, *found = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    figure.savefig(folder / "figure.png", dpi=70)
    assert (folder / "figure.png").stat().st_size < 60_000
    return found


@pytest.mark.slow
def test_theory_against_runs(tmp_path):
    (found,) = run("theory_against_runs", tmp_path)
    assert found.verdict == "agrees" and "band predicted by the theory" in found.reason


def test_a_learning_rate_scan(tmp_path):
    (records,) = run("learning_rate_scan", tmp_path)
    ended = {rate: record.outcome.item() for rate, record in records.items()}
    assert ended.pop(3.0) == "diverged" and set(ended.values()) == {"finished"}


@pytest.mark.slow
def test_escape_against_size(tmp_path):
    times, fit = run("escape_against_size", tmp_path)
    assert np.all(np.diff(times) > 0) and fit.slope > 0
    # Between the first sizes and between the last the same growth a decade, within the draws'.
    growth = np.diff(times) / [1, 1, 2, 2]
    np.testing.assert_allclose(growth[0], growth[-1], rtol=0.2)


def test_digits_with_adam(tmp_path):
    (record,) = run("digits_with_adam", tmp_path)
    assert np.all(record["test_accuracy"][:, -1] > 0.85)


def test_natural_gradient_through_optax(tmp_path):
    (losses,) = run("natural_gradient_optax", tmp_path)
    assert losses["natural gradient"][-1] < 0.1 * losses["gradient descent"][-1]


@pytest.mark.slow
def test_a_network_of_ones_own(tmp_path):
    (records,) = run("own_network", tmp_path)
    for record in records.values():
        assert record["error"][0, -1] < 0.1 * record["error"][0, 0]
        assert record["sharpness"][0, -1] > record["sharpness"][0, 0]


@pytest.mark.slow
def test_spikes_are_found_above_the_critical_rate_alone(tmp_path):
    (found,) = run("spikes", tmp_path)
    assert found[1.6].spikes and found[1.6].batch_match.rate == 1
    assert found[0.5].steps_above == 0 and found[0.5].batch_match.events == 0


def test_a_theory_of_ones_own(tmp_path):
    before = list(THEORIES)
    try:
        (found,) = run("own_theory", tmp_path)
    finally:
        THEORIES[:] = before
    assert found.verdict == "agrees"


@pytest.mark.slow
def test_a_record_read_by_xarray(tmp_path, capsys):
    (record,) = run("record_with_xarray", tmp_path)
    assert record.sizes["run"] == 24 and "generalisation error against" in capsys.readouterr().out


def test_the_page_shows_every_example():
    named = set(re.findall(r"examples/(\w+)\.py", PAGE.read_text("utf-8")))
    assert named == {path.stem for path in EXAMPLES.glob("*.py")}
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE.read_text("utf-8")):
        assert (PAGE.parent / picture).stat().st_size < 60_000


def test_networks_of_ones_own_learn_by_node_perturbation(capsys):
    found = runpy.run_path(str(EXAMPLES / "node_perturbation.py"))["main"]()
    assert len(found) == 2 and len(capsys.readouterr().out.splitlines()) == 2
    # Guessing gets a tenth right.
    assert all(accuracy > 0.5 for accuracy in found.values())


def test_a_recorded_loop_of_equinox_and_optax(capsys, tmp_path):
    path = tmp_path / "run.nc"
    record = runpy.run_path(str(EXAMPLES / "recorder_equinox.py"))["main"](str(path))
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert record["loss"].values[0, -1] < 0.1 * record["loss"].values[0, 0]
    # The two inputs of ten: directions at random have √(2/10).
    assert record["alignment"].values[0, -1] > 0.9 > record["alignment"].values[0, 0]
    assert ld.load(path).equals(record)
