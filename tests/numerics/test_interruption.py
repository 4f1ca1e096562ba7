"""Work in a thread of its own: what it returns and raises, and the settings it runs under."""

import threading

import jax
import jax.numpy as jnp
import pytest

from learndyn.numerics.interruption import interruptible


def test_it_returns_and_raises_what_the_work_does():
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)


def test_settings_of_the_caller_hold():
    for on in (True, False):
        with jax.enable_x64(on):
            assert interruptible(lambda: jnp.zeros(()).dtype) == (
                jnp.float64 if on else jnp.float32
            )
    with jax.default_matmul_precision("highest"):
        assert interruptible(lambda: jax.config.jax_default_matmul_precision) == "highest"


def test_in_another_thread_it_is_just_called():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(interruptible(threading.current_thread) is thread)
    )
    thread.start()
    thread.join()
    assert found == [True]
