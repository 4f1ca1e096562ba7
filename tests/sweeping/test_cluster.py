"""Workers that are processes: over TCP, ended in the midst, hanging, out of memory."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr
from distributed import Client, WorkerPlugin

import learndyn as ld
from learndyn.sweeping import local, progress_of


class KilledOnce(WorkerPlugin):
    """The first worker that has written data and no status yet is killed there."""

    def __init__(self, token):
        self.token = str(token)

    def setup(self, worker):
        import os
        import signal

        from learndyn.sweeping import store

        def fault():
            try:
                os.unlink(self.token)
            except FileNotFoundError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

        store.between_data_and_status = fault


def test_a_worker_killed_between_data_and_status_over_tcp(tmp_path):
    token = tmp_path / "token"
    token.touch()

    def square(a, key):
        return xr.Dataset({"y": float(a) ** 2, "k": key})

    with local(2) as client:
        assert all(address.startswith("tcp://") for address in client.scheduler_info()["workers"])
        client.register_plugin(KilledOnce(token))
        options = {"client": client, "progress": False, "chunk": 2}
        data = ld.sweep(square, {"a": range(7)}, store=tmp_path / "s.zarr", **options)
        pools = client.run(os.getenv, "NPROC")
    assert not token.exists() and set(pools.values()) == {"1"}
    assert np.array_equal(data["y"], np.arange(7.0) ** 2)
    assert np.all(data["point_status"] == "finished")


@pytest.mark.slow
def test_points_that_hang_or_kill_fail_alone(tmp_path):
    def bad(a):
        import os
        import signal
        import time

        if a == 2:
            time.sleep(1000)
        if a == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if a == 7:
            raise MemoryError("no room")
        if a == 9:
            raise SystemExit(3)
        return xr.Dataset({"y": float(a)})

    with local(2, retries=1) as client:
        options = {"client": client, "progress": False, "seconds": 10.0, "retries": 1, "chunk": 4}
        data = ld.sweep(bad, {"a": range(12)}, store=tmp_path / "s.zarr", **options)
    _, failures = progress_of(tmp_path / "s.zarr")
    said = {failure.point: failure.message for failure in failures}
    assert set(said) == {"a=2", "a=5", "a=7", "a=9"}, said
    assert "took longer than the 10 s" in said["a=2"] and "worker died" in said["a=5"]
    assert said["a=7"] == "MemoryError: no room" and said["a=9"] == "SystemExit: 3"
    good = [a for a in range(12) if a not in (2, 5, 7, 9)]
    assert np.array_equal(data["y"].sel(a=good), good)


@pytest.mark.slow
def test_a_location_that_workers_do_not_reach_is_one_line():
    def one(a):
        return xr.Dataset({"y": float(a)})

    with local(1) as client, pytest.raises(ValueError, match="that all workers reach"):
        ld.sweep(one, {"a": range(3)}, store="memory://s.zarr", client=client, progress=False)


@pytest.mark.slow
def test_a_first_point_that_hangs_or_kills(tmp_path):
    def bad(a):
        import os
        import signal
        import time

        if a == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if a == 1:
            time.sleep(1000)
        return xr.Dataset({"y": float(a)})

    with local(1, retries=0) as client:
        options = {"client": client, "progress": False, "seconds": 10.0, "retries": 0}
        data = ld.sweep(bad, {"a": range(4)}, store=tmp_path / "s.zarr", **options)
    assert list(data["point_status"].values) == ["failed", "failed", "finished", "finished"]


@pytest.mark.slow
def test_a_worker_over_its_memory_limit_fails_its_point_only(tmp_path):
    from distributed import LocalCluster

    def hungry(a):
        import time

        import numpy as np

        held = [np.ones(2**24) for _ in range(40 if a == 3 else 0)]  # 5 GB in steps
        if a == 3:
            time.sleep(60)
        return xr.Dataset({"y": float(a + 0 * len(held))})

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="1.5GB", dashboard_address=":0"
        ) as own,
        Client(own) as client,
    ):
        options = {"client": client, "progress": False, "chunk": 2}
        data = ld.sweep(hungry, {"a": range(6)}, store=tmp_path / "s.zarr", **options)
    assert [str(s) == "failed" for s in data["point_status"].values] == [a == 3 for a in range(6)]
    assert "memory" in str(data["point_message"].values[3])


@pytest.mark.slow
def test_a_scheduler_and_workers_as_processes_of_their_own(tmp_path):
    file = tmp_path / "scheduler.json"
    started = []
    start = lambda *words: started.append(
        subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--scheduler-file", str(file)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
        )
    )  # fmt: skip
    try:
        start("scheduler", "--port", "0", "--no-dashboard")
        start("worker", "--nthreads", "1", "--nworkers", "2", "--no-dashboard")
        for _ in range(600):
            if file.exists():
                break
            time.sleep(0.1)
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(2, timeout=120)
            address = client.scheduler.address

        def square(a):
            return xr.Dataset({"y": float(a) ** 2})

        data = ld.sweep(
            square, {"a": range(5)}, store=tmp_path / "s.zarr", client=address, progress=False
        )
        assert np.array_equal(data["y"], np.arange(5.0) ** 2)
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(30)


@pytest.mark.slow
def test_resources_go_to_workers_that_have_them(tmp_path):
    import dask
    from distributed import Nanny, Scheduler, SpecCluster

    def where(a):
        from distributed import get_worker

        return xr.Dataset({"has": float(get_worker().state.total_resources.get("GPU", 0))})

    said = {"plain": {}, "graphics": {"resources": {"GPU": 1}}}
    workers = {name: {"cls": Nanny, "options": {"nthreads": 1, **it}} for name, it in said.items()}
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0"}}
    with SpecCluster(workers, scheduler) as own, Client(own) as client:
        client.wait_for_workers(2, timeout=120)
        options = {"client": client, "progress": False, "chunk": 1}
        with dask.annotate(resources={"GPU": 1}):
            data = ld.sweep(where, {"a": range(6)}, store=tmp_path / "s.zarr", **options)
    assert np.all(data["has"] == 1)


@pytest.mark.slow
def test_a_script_without_its_guard_is_told_in_one_line_and_leaves_nothing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import xarray as xr, learndyn as ld\n"
        "ld.sweep(lambda a: xr.Dataset({'y': a}), {'a': [1]}, store='s.zarr', progress=False)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0 and not done.stdout
    assert done.stderr.count("Traceback") == 1 and "site-packages" not in done.stderr
    assert done.stderr.endswith("allowed is a call under `if __name__ == '__main__':`\n")
    assert os.listdir(tmp_path) == ["script.py"]
