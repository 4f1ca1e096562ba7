"""Long work that Ctrl-C ends at once.

Compiled work keeps its thread from seeing an interruption until it is done, and one that comes
while JAX calls back into Python is swallowed there. So the work has a thread of its own, and the
main one, where Python raises `KeyboardInterrupt`, does nothing but wait.
"""

import atexit
import contextlib
import contextvars
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")
_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "jax_default_device": jax.default_device,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_enable_x64": jax.enable_x64,
    "jax_disable_jit": jax.disable_jit,
    "jax_debug_nans": jax.debug_nans,
    "jax_debug_infs": jax.debug_infs,
    "jax_log_compiles": jax.log_compiles,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_numpy_rank_promotion": jax.numpy_rank_promotion,
    "jax_default_prng_impl": jax.default_prng_impl,
}
LOOK = 0.1  # seconds after which the main thread looks for interruptions, at the latest
GRACE = 2.0  # seconds that work which was cut off has to end in, when the interpreter ends
INTERRUPTED = 130  # what shells call a process that Ctrl-C has ended
_gone: contextvars.ContextVar[threading.Event] = contextvars.ContextVar("gone")


def interruptible(work: Callable[[], T]) -> T:
    """What a function returns or raises; an interruption is raised while it still works.

    Compiled work that is cut off goes on by itself until its program ends, and what it gives is
    thrown away; if the interpreter ends before it, its status is 130. Where Ctrl-C is someone
    else's affair (another thread, another handler), the function is just called.

    Args:
        work: the function.

    Returns:
        What it returns.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        return work()
    outcome: dict[str, Any] = {}
    # Not `join`: a thread whose `join` is interrupted counts as ended.
    done, gone = threading.Event(), threading.Event()
    settings, context = _settings(), contextvars.copy_context()
    context.run(_gone.set, gone)

    def run() -> None:
        try:
            with settings():
                outcome["value"] = context.run(work)
        except BaseException as error:
            outcome["error"] = error
        finally:
            done.set()

    try:
        threading.Thread(target=run, daemon=True).start()
        while not done.wait(LOOK):
            pass
    except KeyboardInterrupt:
        gone.set()
        left_behind(done.wait)
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def _settings() -> Callable[[], contextlib.ExitStack]:
    """JAX's settings in this thread, to enter in another."""
    values = {name: getattr(jax.config, name) for name in _SETTINGS}

    def entered() -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        for name, value in values.items():
            stack.enter_context(_SETTINGS[name](value))
        return stack

    return entered


def interrupted() -> bool:
    """Whether the interruptible work that this is a part of has been cut off, and should end."""
    gone = _gone.get(None)
    return gone is not None and gone.is_set()


def left_behind(wait: Callable[[float], bool]) -> None:
    """Has the process end where the interpreter ends before work that was cut off.

    Compiled work does not survive the interpreter, which would crash. The status is that of an
    interruption, or of the error that was not caught.

    Args:
        wait: (seconds) → whether the work has ended by then.
    """

    def end() -> None:
        atexit.unregister(end)
        if not wait(GRACE):
            atexit._run_exitfuncs()  # those of others, which came before
            sys.stdout.flush()
            sys.stderr.flush()
            uncaught = getattr(sys, "last_type", KeyboardInterrupt)
            os._exit(INTERRUPTED if uncaught is KeyboardInterrupt else 1)

    atexit.register(end)
