"""kill -9 of workers, of the client and of both: nothing is lost, nothing is there twice."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import learndyn as ld

SCRIPT = pathlib.Path(__file__).with_name("killed.py")
PATIENCE = 300


class Client:
    """The process of `killed.py`, begun anew after each of its deaths."""

    def __init__(self, folder):
        self.folder, self.store = folder, str(folder / "s.zarr")
        self.process = None

    def ensure(self):
        if self.process is None or self.process.poll() is not None:
            for old in self.folder.glob("worker-*"):
                old.unlink()
            words = [sys.executable, str(SCRIPT), self.store, str(self.folder)]
            with (self.folder / "said").open("a") as said:
                self.process = subprocess.Popen(words, stderr=said)

    def wait(self, found):
        """What `found` gives, as soon as it gives something; None where the client has ended."""
        for _ in range(PATIENCE * 20):
            value = found()
            if value:
                return value
            if self.process.poll() is not None:
                return None
            time.sleep(0.05)
        raise AssertionError("nothing happened")

    def workers(self):
        found = [int(path.name.split("-")[1]) for path in self.folder.glob("worker-*")]
        return [number for number in found if alive(number)]

    def statuses(self):
        try:
            data = ld.open_sweep(self.store)
        except ValueError:  # not made yet
            return []
        return [str(status) for status in data["point_status"].values]

    def busy(self):
        """Process numbers of workers whose points are begun and not finished, by the store."""
        try:
            data = ld.open_sweep(self.store)
        except ValueError:  # not made yet
            return set()
        names = data["point_worker"].values[data["point_status"].values == "running"]
        return {int(str(name).rsplit(":")[-1]) for name in names}

    def kill(self, whom, worker):
        if whom in ("client", "both"):
            self.process.kill()
            self.process.wait()
        if whom in ("worker", "both"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def alive(number):
    try:
        return "Z" not in pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")")[1].split()[0]
    except OSError:
        return False


def between(client, whom, chance):
    """A kill while a chunk's data are written and its statuses are not."""
    inside, armed = client.folder / "inside", client.folder / "armed"
    inside.unlink(missing_ok=True)
    armed.touch()
    client.ensure()
    if client.wait(inside.exists) is None:
        armed.unlink(missing_ok=True)
        return False
    worker = int(inside.read_text())
    assert alive(worker) and any(status != "finished" for status in client.statuses())
    client.kill(whom, worker)
    if whom == "client":  # the stopped worker ends with its parent, or is ended here
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    return True


def anywhere(client, whom, chance):
    """A kill at a random moment of the work; one that interrupts nothing does not count."""
    client.ensure()
    if client.wait(lambda: client.busy() & set(client.workers())) is None:
        return False
    time.sleep(chance.uniform(0, 1))
    workers = client.workers()
    if not workers:
        return False
    worker = chance.choice(workers)
    hit = {"worker": [worker], "client": [client.process.pid]}
    for number in hit.get(whom, [worker, client.process.pid]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGSTOP)  # the moment; what follows only looks
    busy = client.busy()
    client.kill(whom, worker)
    return bool(busy) if whom == "client" else worker in busy


@pytest.mark.slow
def test_twenty_kills_lose_nothing(tmp_path):
    chance, counted = random.Random(0), {"between": 0, "anywhere": 0}
    places = {"between": 10, "anywhere": 10}
    rounds = 0
    stores = []
    while counted != places:
        rounds += 1
        folder = tmp_path / f"round{rounds}"
        folder.mkdir()
        client = Client(folder)
        try:
            for whom, how in itertools.product(("worker", "client", "both"), places):
                if counted[how] < places[how]:
                    act = between if how == "between" else anywhere
                    done = act(client, whom, chance)
                    counted[how] += done
                    print(
                        f"store {rounds}: {how}, {whom}, {'counts' if done else 'does not count'}"
                    )
            client.ensure()
            assert client.process.wait(PATIENCE) == 0
        finally:
            client.process.kill()
            client.process.wait()
        stores.append(client.store)
        assert rounds < 10
    print(json.dumps({**counted, "stores": rounds}))
    unbroken = Client(tmp_path)
    unbroken.ensure()
    assert unbroken.process.wait(PATIENCE) == 0
    whole = ld.open_sweep(unbroken.store).load()
    for store in stores:
        data = ld.open_sweep(store).load()
        assert np.all(data["point_status"] == "finished")
        assert data["y"].identical(whole["y"].assign_coords(data["y"].coords)), store
        assert np.array_equal(data["who"], whole["who"])
        assert not list(pathlib.Path(store).rglob("*.partial"))
