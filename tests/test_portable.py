"""The main calls where names that only POSIX has are missing, as on Windows and macOS."""

import subprocess
import sys

CHILD = """
import importlib.abc
import os
import signal
import sys

# Libraries that have code of their own for each system.
import filelock
from distributed import Client

sysconf = os.sysconf
MODULES = {"fcntl", "grp", "pwd", "resource", "termios"}
for name in MODULES:
    sys.modules.pop(name, None)


class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())
for module, names in {
    os: "sched_getaffinity sched_setaffinity process_cpu_count sysconf fork geteuid getpgid setsid "
    "killpg statvfs",
    signal: "SIGKILL SIGPIPE SIGALRM SIGHUP SIGUSR1 pthread_kill pthread_sigmask setitimer",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.sweeping import progress_of

problem = ld.TeacherStudent(ld.Isotropic(20), ld.Committee(1, "quadratic"))
system = ld.System(problem, ld.Committee(1, "quadratic"), ld.SGD(0.1))
start, times = ld.start(system, key=0), [0.0, 0.5, 1.0]
ld.solve(system, times, start=start)
record = ld.simulate(system, times, start=start, runs=3)
ld.save(record, "record.nc")
assert ld.load("record.nc")["error"].equals(record["error"])
kernel = ld.probes.ntk(ld.Model(system.network, start.weights), np.eye(2, 20))
assert np.isfinite(kernel).all()
os.sysconf = sysconf  # Dask asks psutil, which has other ways elsewhere
with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    point = lambda a: xr.Dataset({"y": 2.0 * a})
    data = ld.sweep(point, {"a": range(3)}, store="s.zarr", client=client, progress=False)
assert list(data["y"].values) == [0, 2, 4] and progress_of("s.zarr")[0]["finished"] == 3
assert not {"fcntl", "resource", "pwd"} & set(sys.modules)
assert sorted(os.listdir()) == ["record.nc", "s.zarr"], os.listdir()
print("all done")
"""


def test_the_main_calls_need_no_names_of_posix(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.endswith("all done\n"), done.stderr[-2000:]
