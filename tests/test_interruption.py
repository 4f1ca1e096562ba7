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
# A parent in the background ignores interruptions, and so would its child. Six hundred thousand
# steps take minutes.
LONG = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import learndyn as ld

data = ld.TeacherStudent(ld.Isotropic(400), ld.Committee(4, "erf"), label_noise=0.1)
system = ld.System(data, ld.Committee(6, "erf"), ld.SGD(0.5))
print("begins", flush=True)
try:
    ld.solve(system, np.linspace(0, 1e6, 100), progress=len(sys.argv) > 1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
def test_solve_ends_whenever_it_is_interrupted():
    """While it is traced, compiled and run."""
    moments = random.Random(0)
    for attempt in range(6):
        shown = ["shown"] if attempt % 2 else []
        work = subprocess.Popen(
            [sys.executable, "-c", LONG, *shown],
            env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert work.stdout is not None
        assert "begins" in work.stdout.readline()
        time.sleep(moments.uniform(0.1, 15))
        work.send_signal(signal.SIGINT)
        said, _ = work.communicate(timeout=30)
        assert said.strip().endswith("interrupted")
