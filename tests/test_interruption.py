"""Ctrl-C in the middle of long work ends it with a KeyboardInterrupt."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

SOURCE = str(pathlib.Path(__file__).parents[1] / "src")
HUNG = 120  # seconds
# A parent in the background ignores interruptions, and so would its child. Each work takes minutes.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import learndyn as ld

def system(units):
    data = ld.TeacherStudent(ld.Isotropic(400), ld.Committee(4, "erf"), label_noise=0.1)
    return ld.System(data, ld.Committee(units, "erf"), ld.SGD(0.5))

shown = len(sys.argv) > 1
print("begins", flush=True)
try:
    WORK
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
WORKS = {
    "solve": "ld.solve(system(6), np.linspace(0, 1e6, 100), progress=shown)",
    "simulate": "ld.simulate(system(6), np.linspace(0, 1e5, 100), runs=4, progress=shown)",
    "start": "[ld.start(system(units)) for units in range(5, 5000)]",
}


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_work_ends_whenever_it_is_interrupted(work):
    """While it is traced, compiled and run; the interpreter then ends without a crash."""
    moments = random.Random(0)
    for attempt in range(6):
        shown = ["shown"] if attempt % 2 else []
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT.replace("WORK", work), *shown],
            env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert "begins" in process.stdout.readline()
        time.sleep(moments.uniform(0.1, 8))
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=HUNG)
        assert said.strip().endswith("interrupted")
        assert process.returncode in (0, 130, -signal.SIGINT)
