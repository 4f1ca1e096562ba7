"""Keeps compiled programs on disk, so that the next process need not compile them."""

import hashlib
import os
import pathlib
import platform
import sys

import filelock
import jax
from jax.experimental.compilation_cache import compilation_cache

from learndyn.runtime import checks

MOST_BYTES = 2**29  # size of the folder; beyond it, JAX removes what was not used for longest
LEAST_SECONDS = 0.05  # what takes less to compile is not kept
LOCK_SECONDS = 10.0  # how long to wait for another process that reads or writes
CPUS = pathlib.Path("/proc/cpuinfo")


def cache(folder: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Keeps compiled programs in a folder, for this process and those to come.

    The first `solve` or `simulate` of a system spends seconds on compiling. After this call, JAX
    looks for the compiled program on disk first. Processes can share a folder at the same time. It
    stays below 512 MiB. Do not share it with people whom you do not trust: JAX runs what it finds
    there.

    Args:
        folder: the folder; None stands for `learndyn` in your cache folder (on Linux
            `~/.cache/learndyn`). Each kind of processor has a folder of its own in it.

    Returns:
        The folder in use.

    Raises:
        ValueError: if the folder cannot be written.

    Example:
        >>> import learndyn as ld
        >>> folder = ld.cache("programs")  # doctest: +SKIP
    """
    base = user_folder() if folder is None else pathlib.Path(checks.path("folder", folder))
    path = _expanded(base).absolute() / _processor()
    try:
        path.mkdir(parents=True, exist_ok=True)
        _discard_unfinished(path)
    except (OSError, filelock.Timeout) as error:
        why = getattr(error, "strerror", None) or "it is locked"
        raise ValueError(
            f"folder: got {os.fspath(path)!r} ({why}); allowed is a folder that can be written"
        ) from None
    settings = {
        "jax_compilation_cache_dir": str(path),
        "jax_compilation_cache_max_size": MOST_BYTES,
        "jax_persistent_cache_min_compile_time_secs": LEAST_SECONDS,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for processes that this one starts
    compilation_cache.reset_cache()  # JAX may have found, before, that there was no cache
    return path


def _expanded(folder: pathlib.Path) -> pathlib.Path:
    try:
        return folder.expanduser()
    except RuntimeError:
        raise ValueError(
            f"folder: got {os.fspath(folder)!r}, and no such user; allowed is one without ~"
        ) from None


def user_folder() -> pathlib.Path:
    """The folder `learndyn` in the user's cache folder; it need not exist.

    Raises:
        ValueError: if there is none, as for users of containers that have no name there.
    """
    name, below = {
        "win32": ("LOCALAPPDATA", "AppData/Local"),
        "darwin": ("", "Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    if given := os.environ.get(name, ""):
        return pathlib.Path(given) / "learndyn"
    try:
        return pathlib.Path.home() / below / "learndyn"
    except RuntimeError:
        raise ValueError(
            f"HOME: got none, nor has this user one; allowed is a folder there"
            f"{f' or in {name}' if name else ''}"
        ) from None


def _processor() -> str:
    """A name for this kind of processor: JAX does not check that a program fits it."""
    lines = CPUS.read_text().splitlines() if CPUS.exists() else []
    features = [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2]
    about = "\n".join([platform.system(), platform.machine(), platform.processor(), *features])
    return f"{platform.machine()}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"


def _discard_unfinished(folder: pathlib.Path) -> None:
    """Removes programs whose writing was interrupted; JAX writes `-atime` last."""
    with filelock.FileLock(folder / ".lockfile", timeout=LOCK_SECONDS):  # JAX's own lock
        for program in folder.glob("*-cache"):
            if not program.with_name(f"{program.name.removesuffix('cache')}atime").exists():
                program.unlink(missing_ok=True)
