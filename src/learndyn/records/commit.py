"""The git commit of the source that computed a record."""

import hashlib
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


def tree(folder: str | pathlib.Path) -> str:
    """The hash that git gives to a folder with the files that are there, computed without git.

    Compiled Python does not count. All files count as not executable.

    Args:
        folder: the folder.

    Returns:
        The hash: that of `git rev-parse COMMIT:FOLDER` if the files are those of the commit.
    """
    kinds = {True: b"40000", False: b"100644"}
    entries = [path for path in pathlib.Path(folder).iterdir() if path.name != "__pycache__"]
    # Git sorts a folder as if its name ended with a slash.
    entries.sort(key=lambda path: path.name.encode() + b"/" * path.is_dir())
    rows = [
        b"%s %s\0%s" % (kinds[path.is_dir()], path.name.encode(), bytes.fromhex(_hash(path)))
        for path in entries
    ]
    return _object(b"tree", b"".join(rows))


def _hash(path: pathlib.Path) -> str:
    return tree(path) if path.is_dir() else _object(b"blob", path.read_bytes())


def _object(kind: bytes, content: bytes) -> str:
    return hashlib.sha1(b"%s %d\0%s" % (kind, len(content), content)).hexdigest()


def tree_of(commit: str, folder: str | pathlib.Path) -> str:
    """The hash of a folder of a checkout in one of its commits, or "" if it is not known."""
    return _git(folder, "rev-parse", "--verify", "--quiet", f"{commit}:./")


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
