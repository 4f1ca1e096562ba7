"""What is imported before it is used, as one fresh process sees it."""

import subprocess
import sys

# Each takes a quarter of a second or more to import, and serves only some calls.
HEAVY = [
    "scipy.stats",
    "scipy.optimize",
    "matplotlib",
    "pandas.plotting._matplotlib",
    "dask",
    "distributed",
    "sklearn",
    "torch",
    "h5py",
]
NAMES = ["System", "TeacherStudent", "Committee", "SGD", "start", "solve", "simulate", "compare"]
CODE = f"""
import sys
import learndyn as ld
assert "jax" not in sys.modules, "import learndyn imports jax"
for name in {NAMES}:
    getattr(ld, name)
print(*(name for name in {HEAVY} if name in sys.modules))
ld.plot
print("matplotlib" in sys.modules)
"""


def test_engines_import_no_statistics_no_figures_and_no_cluster():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert not found.stderr, found.stderr
    heavy, plotting = found.stdout.splitlines()
    assert heavy == ""
    assert plotting == "True"  # the names above are those that a module really has
