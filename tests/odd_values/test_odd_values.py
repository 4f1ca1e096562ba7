"""Odd values at every public argument: a result, a warning or one line, and nothing else."""

import importlib.util
import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def found(*arguments: str, program: str = "battery.py") -> list[str]:
    """Complaints of the battery, which runs as a program: here types are checked beforehand."""
    source = str(HERE.parents[1] / "src")
    ran = subprocess.run(
        [sys.executable, str(HERE / program), *arguments],
        env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.strip().splitlines()[-1])


def calls():
    spec = importlib.util.spec_from_file_location("calls", HERE / "calls.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["calls"] = module  # data classes look themselves up
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_a_call_with_all_of_its_arguments():
    table = calls()
    missing = sorted(set(table.public()) - set(table.CALLS))
    assert not missing, f"{missing[0]} is public: give it a call in tests/odd_values/calls.py"
    gone = sorted(set(table.CALLS) - set(table.public()))
    assert not gone, f"{gone[0]} is not public: take its call off"
    for name, value in table.public().items():
        parameters = inspect.signature(value).parameters.values()
        asked = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
        given = set(table.CALLS[name]().arguments)
        assert asked == given, f"{name}: {sorted(asked ^ given)} in tests/odd_values/calls.py"


def test_odd_values_are_refused_in_one_line():
    complaints = found("small")
    assert not complaints, "\n".join(complaints)


def test_integers_of_numpy_are_those_of_python():
    complaints = found(program="integers.py")
    assert not complaints, "\n".join(complaints)


@pytest.mark.slow
def test_many_odd_values_are_refused_in_one_line():
    complaints = found("large")
    assert not complaints, "\n".join(complaints)
