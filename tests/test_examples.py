"""Examples run as they stand, and learn."""

import pathlib
import runpy

import learndyn as ld

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


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
