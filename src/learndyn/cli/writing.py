"""Folders and files of results: whole or not there, whatever ends the work."""

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence

from learndyn.cli.interruption import interruptible


def writable(out: str) -> pathlib.Path:
    """The folder, made if need be, before any work is done."""
    folder = pathlib.Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"?")
    except OSError as error:
        why = error.strerror or "not writable"
        raise ValueError(f"--out: got {out!r} ({why}); allowed is a writable folder") from None
    return folder


@contextlib.contextmanager
def whole_files(folder: pathlib.Path, names: Sequence[str]) -> Iterator[Callable[..., None]]:
    """Writes files, each whole or not there; an interruption says which are missing.

    Args:
        folder: where they go.
        names: the files.

    Yields:
        write(name, writer, whole=whole_file): `whole` makes it so; `save` does by itself.
    """
    from learndyn.records import whole_file

    missing: list[str] = list(names)

    def write(name: str, writer: Callable[[pathlib.Path], object], whole=whole_file) -> None:
        with whole(folder / name) as path:
            writer(path)
        missing.remove(name)

    with interruptible(lambda: f"missing in {folder}: {', '.join(missing)}"):
        yield write
