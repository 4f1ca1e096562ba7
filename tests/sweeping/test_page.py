"""docs/sweeps.md: what it shows runs as it stands, on this computer and through a batch system."""

import importlib.util
import os
import pathlib
import re
import stat
import subprocess
import sys

import numpy as np
import pytest

import learndyn as ld

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
SCRIPT, SLURM, GPU = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SUBMIT = '#!/bin/sh\nsh "$1" >"$JOBS/log" 2>&1 &\necho "Submitted batch job $!"\n'
CANCEL = '#!/bin/sh\nkill "$@"\n'


def run(text, folder, **more):
    (folder / "script.py").write_text(text)
    words = [sys.executable, "script.py"]
    done = subprocess.run(words, cwd=folder, env={**os.environ, **more}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]


@pytest.mark.slow
def test_the_script_runs_and_again(tmp_path):
    run(SCRIPT, tmp_path)
    first = ld.open_sweep(tmp_path / "runs.zarr")
    assert dict(first["error"].sizes) == {"eta": 8, "width": 3, "key": 5, "time": 41}
    assert np.all(first["point_status"] == "finished")
    assert first["error"].isel(time=0).notnull().all()  # some diverge later on
    assert (tmp_path / "map.png").stat().st_size > 5000
    run(SCRIPT, tmp_path)
    assert np.all(ld.open_sweep(tmp_path / "runs.zarr")["point_attempt"] == 1)


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("dask_jobqueue"), reason="no dask-jobqueue")
def test_slurm_by_commands_that_start_jobs_here(tmp_path):
    """SLURMCluster's own jobs, which `sbatch` and `scancel` of the test start and end here."""
    for name, text in (("sbatch", SUBMIT), ("scancel", CANCEL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    start, main = SCRIPT.split('if __name__ == "__main__":\n')
    axes = '    axes = {"eta": [0.1, 0.2], "width": [2], "key": range(3)}\n'
    fewer = SLURM.replace("jobs=64", "jobs=1").replace("/shared/", "")
    body = axes + "".join(f"    {line}\n" for line in fewer.splitlines())
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "JOBS": str(tmp_path)}
    run(f'{start}if __name__ == "__main__":\n{body}', tmp_path, **path)
    data = ld.open_sweep(tmp_path / "runs.zarr")
    assert np.all(data["point_status"] == "finished") and "axes = " in main
    assert "client=client" in GPU  # as `test_cluster.py` has it
