"""A client with two workers, as a process that `test_kills.py` kills.

`python killed.py STORE FOLDER`: workers write their process numbers into FOLDER; one that finds
the file `armed` there stops between data and status, says so in `inside`, and waits to be killed.
"""

import sys

import numpy as np
import xarray as xr
from distributed import WorkerPlugin

POINTS = 48


class Armed(WorkerPlugin):
    """Stops between data and status where it is asked to."""

    def __init__(self, folder):
        self.folder = folder

    def setup(self, worker):
        import os
        import pathlib
        import time

        from learndyn.sweeping import store

        folder = pathlib.Path(self.folder)
        (folder / f"worker-{os.getpid()}").touch()

        def fault():
            try:
                (folder / "armed").unlink()
            except FileNotFoundError:
                return
            part = folder / "inside.part"
            part.write_text(str(os.getpid()))
            part.rename(folder / "inside")
            time.sleep(600)

        store.between_data_and_status = fault


def slow(a, key):
    """A few numbers, after a while."""
    import time

    time.sleep(1.0)  # longer than it takes to see and kill, also on a busy computer
    drawn = np.random.default_rng(key).normal(size=5)
    return xr.Dataset({"y": ("x", drawn * a), "who": f"point {a}"})


def main(store, folder):
    """Sweeps."""
    import learndyn as ld
    from learndyn.sweeping import local

    with local(2, retries=100) as client:
        client.register_plugin(Armed(folder))
        options = {"client": client, "progress": False, "chunk": 2}
        ld.sweep(slow, {"a": range(POINTS)}, store=store, **options)


if __name__ == "__main__":
    main(*sys.argv[1:])
