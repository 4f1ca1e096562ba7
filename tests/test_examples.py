"""Examples run as they stand, and learn."""

import pathlib
import runpy

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def test_networks_of_ones_own_learn_by_node_perturbation(capsys):
    found = runpy.run_path(str(EXAMPLES / "node_perturbation.py"))["main"]()
    assert len(found) == 2 and len(capsys.readouterr().out.splitlines()) == 2
    # Guessing gets a tenth right.
    assert all(accuracy > 0.5 for accuracy in found.values())
