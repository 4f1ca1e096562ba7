"""Folders and files of results. Files are complete or absent, even after an interruption."""

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence

from learndyn.cli.interruption import interruption_message


def writable(out: str) -> pathlib.Path:
    """Makes the folder if needed, and checks that files can be written there.

    Called before a study runs, so that hours of work are not lost to a wrong path.
    """
    folder = pathlib.Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Really writing is the only reliable test: permissions say nothing about full disks,
        # quotas and read-only mounts.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"?")
    except OSError as error:
        why = error.strerror or "not writable"
        raise ValueError(f"--out: got {out!r} ({why}); allowed is a writable folder") from None
    return folder


@contextlib.contextmanager
def whole_files(folder: pathlib.Path, names: Sequence[str]) -> Iterator[Callable[..., None]]:
    """Writes files that are complete or absent; an interruption prints which are missing.

    Args:
        folder: where the files go.
        names: of all files that will be written.

    Yields:
        `write(name, writer, whole=whole_file)`: calls `writer(path)` in the context `whole`, which
        renames a temporary file at the end. `save` does this itself and needs a null context.
    """
    from learndyn.records import whole_file

    missing: list[str] = list(names)

    def write(name: str, writer: Callable[[pathlib.Path], object], whole=whole_file) -> None:
        with whole(folder / name) as path:
            writer(path)
        missing.remove(name)

    with interruption_message(lambda: f"missing in {folder}: {', '.join(missing)}"):
        yield write
