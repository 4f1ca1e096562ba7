"""Long work that Ctrl-C ends at once.

Compiled work keeps its thread from seeing an interruption until it is done, and one that comes
while JAX calls back into Python is swallowed there. So the work has a thread of its own, and the
main one, where Python raises `KeyboardInterrupt`, does nothing but wait.
"""

import contextlib
import contextvars
import signal
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
}
LOOK = 0.1  # seconds after which the main thread looks for interruptions, at the latest


def interruptible(work: Callable[[], T]) -> T:
    """What a function returns or raises; an interruption is raised while it still works.

    Compiled work that is cut off goes on by itself until its program ends, and what it gives is
    thrown away. Where Ctrl-C is someone else's affair (another thread, another handler), the
    function is just called.

    Args:
        work: the function.

    Returns:
        What it returns.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        return work()
    outcome: dict[str, Any] = {}
    settings, context = _settings(), contextvars.copy_context()

    def run() -> None:
        try:
            with settings():
                outcome["value"] = context.run(work)
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK)
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
