"""The git commit of the source that computed a record."""

import inspect
import pathlib
import subprocess
from typing import Any


def commit(folder: str | pathlib.Path, *, of: str = ":/") -> str:
    """The commit of the checkout that contains a folder, or "" if there is none.

    Args:
        folder: a folder of the checkout.
        of: files in which changes count, relative to the folder; by default the whole checkout.

    Returns:
        Its hash, followed by "-dirty" if tracked files differ from it.
    """
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", of)
    return f"{head}-dirty" if changes else head


def _git(folder: str | pathlib.Path, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(folder), *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def commit_of(function: Any) -> str:
    """The commit of the checkout that contains the source of a function, or ""."""
    try:
        own = function if inspect.isroutine(function) else type(function)
        return commit(pathlib.Path(inspect.getfile(own)).parent)
    except (OSError, TypeError):
        return ""
