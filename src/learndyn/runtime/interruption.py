"""Public calls that Ctrl-C ends at once.

A thread that runs compiled code does not see an interruption before that code has ended, and an
interruption that arrives while JAX calls back into Python is swallowed there. A public call
therefore does its work in a worker thread, and the main thread, in which Python raises
`KeyboardInterrupt`, does nothing but wait.
"""

import atexit
import contextlib
import contextvars
import functools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
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
POLL_SECONDS = 0.1  # how often the main thread gives Python a chance to raise KeyboardInterrupt
GRACE_SECONDS = 2.0  # how long the interpreter waits at its end for work that was interrupted
INTERRUPTED = 130  # the exit status that shells report for a process ended by Ctrl-C


class _Call(NamedTuple):
    """A public call under way.

    Attributes:
        caller: the file, line and globals of the code that made the call.
        interrupted: set when Ctrl-C has ended the call.
        cleanups: what the main thread then calls, such as closing a progress bar.
    """

    caller: tuple[str, int, dict[str, Any]]
    interrupted: threading.Event
    cleanups: list[Callable[[], Any]]


_call: contextvars.ContextVar[_Call] = contextvars.ContextVar("call")


def interruptible(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a public function so that Ctrl-C ends a call of it at once.

    Compiled work that is interrupted continues in the background until its program ends, and its
    result is thrown away; if the interpreter ends first, the exit status is 130. In a thread other
    than the main one, and where Ctrl-C has a handler of its own, the function is called directly.
    So is one that is called by another interruptible function.

    Args:
        function: the function.

    Returns:
        The same function, with a thread of its own.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _call.get(None) is not None:
            return function(*args, **kwargs)
        # Noted before a thread is started, for `warn`.
        frame = sys._getframe(1)
        caller = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
        this = _Call(caller, threading.Event(), [])
        context = contextvars.copy_context()
        context.run(_call.set, this)
        work = lambda: function(*args, **kwargs)
        default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not default or threading.current_thread() is not threading.main_thread():
            return context.run(work)
        return _wait_for(lambda: context.run(work), this)

    return call


def _wait_for(work: Callable[[], T], call: _Call) -> T:
    """Runs `work` in a thread, and raises KeyboardInterrupt here while it is still running."""
    outcome: dict[str, Any] = {}
    # An event rather than `join`: a thread whose `join` is interrupted counts as ended.
    done = threading.Event()
    # JAX keeps its settings per thread, so the worker has to enter those of the caller.
    settings = {name: getattr(jax.config, name) for name in _SETTINGS}

    def run() -> None:
        try:
            with contextlib.ExitStack() as stack:
                for name, value in settings.items():
                    stack.enter_context(_SETTINGS[name](value))
                outcome["value"] = work()
        # Of any kind, SystemExit included: the main thread raises it again.
        except BaseException as error:
            outcome["error"] = error
        finally:
            done.set()

    try:
        threading.Thread(target=run, daemon=True).start()
        while not done.wait(POLL_SECONDS):
            pass
    except KeyboardInterrupt:
        call.interrupted.set()
        exit_despite(done.wait)
        for cleanup in call.cleanups:
            cleanup()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def was_interrupted() -> bool:
    """Whether Ctrl-C has ended the public call that this is part of, so that it should stop."""
    call = _call.get(None)
    return call is not None and call.interrupted.is_set()


def on_interruption(cleanup: Callable[[], Any]) -> None:
    """Has the main thread call `cleanup` if Ctrl-C ends the public call that this is part of."""
    call = _call.get(None)
    if call is not None:
        call.cleanups.append(cleanup)


def warn(message: str) -> None:
    """Warns at the line that made the public call.

    That line is not on the stack of the worker thread, where `stacklevel` could reach it.

    Args:
        message: the warning.
    """
    call = _call.get(None)
    if call is None:
        return warnings.warn(message, stacklevel=3)
    file, line, names = call.caller
    module, registry = names.get("__name__"), names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, file, line, module, registry)


def exit_despite(wait: Callable[[float], bool]) -> None:
    """Lets the process end although interrupted work is still running.

    Compiled code that is still running when the interpreter shuts down would crash it. The exit
    status is that of an interruption, or of the uncaught error.

    Args:
        wait: (seconds) → whether the work has ended by then.
    """

    def end() -> None:
        atexit.unregister(end)
        if not wait(GRACE_SECONDS):
            atexit._run_exitfuncs()  # functions registered earlier, which os._exit would skip
            sys.stdout.flush()
            sys.stderr.flush()
            uncaught = getattr(sys, "last_type", KeyboardInterrupt)
            os._exit(INTERRUPTED if uncaught is KeyboardInterrupt else 1)

    atexit.register(end)
