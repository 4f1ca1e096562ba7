"""Work in a thread of its own: what it returns and raises, and the settings it runs under."""

import os
import pathlib
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import pytest

from learndyn.runtime.interruption import interruptible


def test_it_returns_and_raises_what_the_work_does():
    assert interruptible(lambda: 3)() == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)()


def test_settings_of_the_caller_hold():
    for on in (True, False):
        with jax.enable_x64(on):
            assert interruptible(lambda: jnp.zeros(()).dtype)() == (
                jnp.float64 if on else jnp.float32
            )
    with jax.default_matmul_precision("highest"):
        assert interruptible(lambda: jax.config.jax_default_matmul_precision)() == "highest"


def test_in_another_thread_it_is_just_called():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(interruptible(threading.current_thread)() is thread)
    )
    thread.start()
    thread.join()
    assert found == [True]


HUNG = 300  # seconds; the imports alone take many on a busy machine
CUT_OFF = """
import atexit, os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from learndyn.runtime.interruption import interruptible, was_interrupted

def work():
    os.kill(os.getpid(), signal.SIGINT)
    begin = time.monotonic()
    while time.monotonic() < begin + SECONDS and not (HEED and was_interrupted()):
        time.sleep(0.01)

atexit.register(lambda: print("others end too", flush=True))
try:
    interruptible(work)()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(("heed", "status"), [(True, 0), (False, 130)])
def test_work_that_is_cut_off_may_end_and_does_not_keep_the_interpreter(heed, status):
    script = CUT_OFF.replace("SECONDS", str(2 * HUNG)).replace("HEED", str(heed))
    source = str(pathlib.Path(__file__).parents[2] / "src")
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=HUNG,
        env={**os.environ, "PYTHONPATH": source}, check=False,
    )  # fmt: skip
    assert found.stdout.split("\n")[:2] == ["interrupted", "others end too"]
    assert found.returncode == status


# In a process of its own: the type checks of the tests would stand between the caller and the call.
WARNS = """
import threading, warnings
from learndyn.runtime.interruption import interruptible, warn

@interruptible
def work():
    nested()

@interruptible
def nested():
    warn("careful")

def call():
    work()

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    call()
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
line = call.__code__.co_firstlineno + 1
assert [(str(each.message), each.lineno) for each in seen] == [("careful", line)] * 2, seen
"""


def test_a_warning_names_the_line_of_the_public_call_in_every_thread():
    source = str(pathlib.Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", WARNS], env=environment, timeout=HUNG, check=True)
