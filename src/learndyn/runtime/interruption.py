"""Public calls that Ctrl-C, or an event, ends at once.

A thread that runs compiled code does not see an interruption before that code has ended, and an
interruption that arrives while JAX calls back into Python is swallowed there. A public call
therefore does its work in a worker thread, and the main thread, in which Python raises
`KeyboardInterrupt`, does nothing but wait. The same holds for a call that an event may cancel.
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

from learndyn.runtime.checks import instance

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
CANCEL_SECONDS = 0.3  # how long a cancelled call waits for its work to end by itself
CANCELLED = "cancelled: the event given as `cancel` was set"
INTERRUPTED = 130  # the exit status that shells report for a process ended by Ctrl-C


class Cancelled(Exception):
    """A call of `solve` or `simulate` was ended by the event that it was given as `cancel`.

    Example:
        >>> import threading
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "erf"))
        >>> system = ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))
        >>> event = threading.Event()
        >>> event.set()
        >>> try:
        ...     ld.solve(system, [0, 1], cancel=event)
        ... except ld.Cancelled:
        ...     print("cancelled")
        cancelled
    """


class _Call(NamedTuple):
    """A public call under way.

    Attributes:
        caller: the file, line and globals of the code that made the call.
        interrupted: set when Ctrl-C, or the event, has ended the call.
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

    If the function is called with `cancel=event`, it ends in the same way once the event is set, in
    any thread, with `Cancelled`. The function itself ignores that argument.

    Args:
        function: the function.

    Returns:
        The same function, with a thread of its own.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        cancel: Any = kwargs.get("cancel")
        if cancel is not None:
            instance("cancel", cancel, threading.Event, "a threading.Event or None")
            if cancel.is_set():
                raise Cancelled(CANCELLED)
        elif _call.get(None) is not None:
            return function(*args, **kwargs)
        # Noted before a thread is started, for `warn`.
        frame = sys._getframe(1)
        caller = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
        this = _Call(caller, threading.Event(), [])
        context = contextvars.copy_context()
        context.run(_call.set, this)
        work = lambda: function(*args, **kwargs)
        default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        in_main = default and threading.current_thread() is threading.main_thread()
        if cancel is None and not in_main:
            beside = _in_daemon if threading.current_thread().daemon else lambda work: work()
            return beside(lambda: context.run(work))
        return _wait_for(lambda: context.run(work), this, cancel)

    return call


def _wait_for(work: Callable[[], T], call: _Call, cancel: threading.Event | None) -> T:
    """Runs `work` in a thread; KeyboardInterrupt and Cancelled are raised here while it runs."""
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
            if was_interrupted() or (cancel is not None and cancel.is_set()):
                raise Cancelled(CANCELLED)
    except (KeyboardInterrupt, Cancelled) as ending:
        call.interrupted.set()
        if isinstance(ending, KeyboardInterrupt) or not done.wait(CANCEL_SECONDS):
            exit_despite(done.wait)
        for cleanup in call.cleanups:
            cleanup()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def _in_daemon(work: Callable[[], T]) -> T:
    """Runs `work` in this daemon thread, which the interpreter does not wait for at its end."""
    end = exit_despite(lambda seconds: False, status=0)
    try:
        return work()
    finally:
        atexit.unregister(end)


def was_interrupted() -> bool:
    """Whether the public call that this is part of was ended, so that its work should stop."""
    call = _call.get(None)
    return call is not None and call.interrupted.is_set()


def stop_if_interrupted() -> None:
    """Ends work whose result nobody waits for any more; called between pieces of it."""
    if was_interrupted():
        raise Cancelled("cancelled: the call was ended")


def on_interruption(cleanup: Callable[[], Any]) -> None:
    """Has the waiting thread call `cleanup` if the public call that this is part of is ended."""
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


def exit_despite(wait: Callable[[float], bool], status: int = INTERRUPTED) -> Callable[[], None]:
    """Lets the process end although work that nobody waits for is still running.

    Compiled code that is still running when the interpreter shuts down would crash it. The exit
    status is `status`, or that of the uncaught error.

    Args:
        wait: (seconds) → whether the work has ended by then.
        status: the exit status of a process without an uncaught error.

    Returns:
        What `atexit` was given, to be taken from it once the work has ended.
    """

    def end() -> None:
        atexit.unregister(end)
        if not wait(GRACE_SECONDS):
            atexit._run_exitfuncs()  # functions registered earlier, which os._exit would skip
            sys.stdout.flush()
            sys.stderr.flush()
            uncaught = getattr(sys, "last_type", None)
            ended = INTERRUPTED if uncaught is KeyboardInterrupt else 1
            os._exit(status if uncaught is None else ended)

    atexit.register(end)
    return end
