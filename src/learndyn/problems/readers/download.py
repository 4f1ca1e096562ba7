"""Downloads public data files by name, only when asked; checked, and kept for later."""

import hashlib
import os
import pathlib
import tarfile
from typing import Any, NamedTuple

from learndyn.problems.readers.files import VARIABLE, own_folder
from learndyn.records import whole_file
from learndyn.runtime.checks import one_of


class Remote(NamedTuple):
    """A file on the web.

    Attributes:
        url: where it is.
        hash: its checksum as `algorithm:value`, as the publishers or PyTorch's readers state it.
        file: its place in the folder of data files; of an archive, the folder of its members.
        members: for an archive, the members that are kept.
    """

    url: str
    hash: str
    file: str
    members: tuple[str, ...] = ()


def _idx(base: str, folder: str, hashes: dict[str, str]) -> tuple[Remote, ...]:
    names = {name: f"{name}-ubyte.gz" for name in hashes}
    return tuple(
        Remote(base + names[name], f"md5:{value}", f"{folder}/{names[name]}")
        for name, value in hashes.items()
    )


_CIFAR = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
SOURCES = {
    "mnist": _idx(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "mnist",
        {
            "train-images-idx3": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion-mnist": _idx(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "fashion-mnist",
        {
            "train-images-idx3": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": (
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            "cifar-10-batches-bin",
            tuple(f"cifar-10-batches-bin/{name}" for name in _CIFAR),
        ),
    ),
    "svhn": tuple(
        Remote(
            f"http://ufldl.stanford.edu/housenumbers/{name}_32x32.mat",
            f"md5:{value}",
            f"svhn/{name}_32x32.mat",
        )
        for name, value in {
            "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test": "eb5a983be6a315427106f1b164d9cef3",
        }.items()
    ),
}


def fetch(name: str, folder: str | os.PathLike | None = None, *, progress: bool = False):
    """Downloads a public data set, unless its files are there already, and checks what is there.

    Args:
        name: "mnist", "fashion-mnist", "cifar10" or "svhn".
        folder: the folder of data files; None stands for the one that LEARNDYN_DATA names, or
            for `learndyn/data` in your cache folder, where the readers look last.
        progress: whether to show a progress bar (needs tqdm).

    Returns:
        The folder of data files.

    Raises:
        ValueError: for another name, if pooch is not installed, or if a file cannot be downloaded,
            written, or has another checksum, also one that was there. What arrived whole is kept.
    """
    remotes = SOURCES[one_of("name", name, tuple(SOURCES))]
    root = pathlib.Path(folder or os.environ.get(VARIABLE) or own_folder())
    for remote in remotes:
        if not all(path.is_file() for path in _files(remote, root)):
            _download(remote, root, progress)
        elif not remote.members:  # those of an archive have no checksums
            _check(root / remote.file, remote.hash)
    return root


def present(name: str, root: pathlib.Path) -> bool:
    """Whether all files of a data set are in the folder of data files."""
    return all(path.is_file() for remote in SOURCES[name] for path in _files(remote, root))


def _files(remote: Remote, root: pathlib.Path) -> list[pathlib.Path]:
    base = root / remote.file
    return [base / pathlib.PurePosixPath(m).name for m in remote.members] or [base]


def _check(path: pathlib.Path, known: str) -> None:
    """Raises for a file with another checksum; it is not replaced, as it may be the user's own."""
    algorithm, value = known.split(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != value:
        raise ValueError(
            f"{os.fspath(path)!r}: is damaged, or another file than the published one; allowed is "
            "to remove it and call again"
        )


def _download(remote: Remote, root: pathlib.Path, progress: bool) -> None:
    try:
        import pooch
    except ImportError:
        raise ValueError("data: needs pooch; allowed is learndyn[data]") from None
    target = root / remote.file
    path = target.with_suffix(".tar.gz") if remote.members else target
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        downloader: Any = pooch.HTTPDownloader(progressbar=progress, timeout=30)
        pooch.get_logger().setLevel("WARNING")  # a progress bar says the same
        pooch.retrieve(remote.url, remote.hash, path.name, path.parent, downloader=downloader)
        if remote.members:
            _unpack(path, remote.members, target)
    except (OSError, ValueError, EOFError, tarfile.TarError) as error:
        # urllib3 wraps what the system said in a list of attempts.
        cause = getattr(next(iter(error.args), None), "reason", None) or error
        why = " ".join(str(cause).split())[:200]
        # Those of the network have no number.
        if isinstance(error, OSError) and (error.errno or isinstance(error, PermissionError)):
            raise ValueError(
                f"{os.fspath(path.parent)!r}: cannot be written ({why}); allowed is a folder that "
                f"can, by --data-dir or {VARIABLE}"
            ) from None
        raise ValueError(
            f"{remote.url}: could not be downloaded ({why}); allowed is an address that this "
            f"computer reaches, or put the file into {os.fspath(path.parent)!r} yourself"
        ) from None


def _unpack(archive: pathlib.Path, members: tuple[str, ...], folder: pathlib.Path) -> None:
    """Writes the named members, each whole or not at all, and removes the archive."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as packed:
        for name in members:
            content = packed.extractfile(name)
            if content is None:
                raise ValueError(f"{name}: got no file; allowed is an archive that has it")
            with whole_file(folder / pathlib.PurePosixPath(name).name) as part:
                part.write_bytes(content.read())
    archive.unlink()
