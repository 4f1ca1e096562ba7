"""Ctrl-C: in every public call, beside threads of the caller, and in the kernel of a notebook."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
INTERRUPTIONS = 60
HUNG = 300  # seconds


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_every_public_call_ends_whenever_it_is_interrupted(seed):
    """Python itself ignores what arrives in a callback of its garbage collector: few of them."""
    given = [sys.executable, str(HERE / "interrupted.py"), str(INTERRUPTIONS), str(seed)]
    done = subprocess.run(given, capture_output=True, text=True, env=ENVIRONMENT, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["wrong"] == {} and said["late"] == []
    ended, ignored = sum(said["ended"].values()), sum(said["ignored"].values())
    assert ended + ignored == INTERRUPTIONS and ended >= 0.9 * INTERRUPTIONS, said


# Ctrl-C while the first name that is used imports JAX and the rest.
IMPORTS = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import learndyn as ld
threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    ld.solve
    time.sleep(600)
except KeyboardInterrupt:
    print(ld.solve.__name__, ld.ntk.__name__, ld.start.__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_an_import_is_not_cut_short(seconds):
    given = [sys.executable, "-c", IMPORTS, str(seconds)]
    done = subprocess.run(given, capture_output=True, text=True, env=ENVIRONMENT, timeout=HUNG)
    assert done.stdout.split() == ["solve", "ntk", "start"], done.stderr


# Two threads compute, which Ctrl-C does not reach; the main thread computes or waits for them.
THREADS = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import learndyn as ld
import small

def work():
    ld.simulate(small.SYSTEM, np.linspace(0, 1e6, 100), runs=4, method="direct")

small.curve()
stop = threading.Event()
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
print("begins", flush=True)
try:
    stop.wait() if sys.argv[1] == "waits" else work()
except KeyboardInterrupt:
    print(small.curve()[2].verdict, flush=True)  # beside them, computing goes on
"""


@pytest.mark.slow
@pytest.mark.parametrize("main", ["waits", "computes"])
def test_ctrl_c_beside_threads_that_compute(main):
    process = subprocess.Popen(
        [sys.executable, "-c", THREADS, main], env=ENVIRONMENT,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and "begins" in process.stdout.readline()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=HUNG)
    finally:
        process.kill()
    assert said.split() in (["agrees"], ["undecided"])
    assert process.returncode in (0, 130), process.returncode


LONG = "ld.{}(small.SYSTEM, np.linspace(0, 1e6, 100), {})"
CELLS = {
    "solve": LONG.format("solve", "rtol=1e-12, atol=1e-14, progress=False"),
    "simulate": LONG.format("simulate", "runs=4, method='direct', progress=False"),
    "simulate with a bar": LONG.format("simulate", "runs=4, method='direct', progress=True"),
    "probe": "[ld.hessian_top(model, x, x[:, 0], k=1) for _ in range(10**6)]",
}
PREPARED = """
import numpy as np, learndyn as ld, small
network = ld.MLP([20, 40, 1], "tanh")
model = ld.Model(network, network.sample(np.random.default_rng(0), (20,)))
x = np.random.default_rng(1).normal(size=(30, 20))
"""


@pytest.fixture(scope="module")
def notebook():
    """The client of a notebook's kernel, and what interrupts that as the stop button does."""
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=ENVIRONMENT)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=HUNG)
    assert client.execute_interactive(PREPARED, timeout=HUNG)["content"]["status"] == "ok"
    yield client, manager.interrupt_kernel
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("seconds", [0.5, 4.0])
def test_a_cell_of_a_notebook_is_interrupted_and_its_kernel_lives(notebook, cell, seconds):
    client, interrupt = notebook
    asked = client.execute(cell)
    time.sleep(seconds)
    interrupt()
    reply = client.get_shell_msg(timeout=HUNG)
    assert reply["parent_header"]["msg_id"] == asked
    assert reply["content"]["ename"] == "KeyboardInterrupt", reply["content"]
    seen = []
    ask = "print(small.curve()[2].verdict)"
    hook = lambda message: seen.append(message["content"].get("text", ""))
    reply = client.execute_interactive(ask, timeout=HUNG, output_hook=hook)
    assert reply["content"]["status"] == "ok" and "".join(seen).strip() in ("agrees", "undecided")
