"""Real images from their standard files, and scikit-learn's digits.

Files are read from the folder that the environment variable `LEARNDYN_DATA` names, or from an
argument, or from where `learndyn data get` puts them (`download.py`). The other data sets have
their own modules: MNIST `idx.py`, USPS `usps.py`, CelebA `celeba.py`, house numbers `svhn.py`,
spoken digits `fsdd.py`, news `ag_news.py`, the robot arm SARCOS `sarcos.py`.
"""

import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learndyn.runtime.cache import user_folder
from learndyn.runtime.checks import one_of
from learndyn.runtime.memory import check_fits

VARIABLE = "LEARNDYN_DATA"
MOST_PACKED = 1032  # numbers of a byte or more per byte of a packed file, at most
_CIFAR_CLASSES = 10
_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the planes R, G, B, row by row
_CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html (binary version)"
_CIFAR_SOURCE = f"{_CIFAR_PAGE}, or by `learndyn data get cifar10`"


class Images(NamedTuple):
    """Labelled images.

    Attributes:
        pixels: (images, channels, rows, columns), as stored.
        labels: (images,).
        name: a description of the data, for records and figures.
        training: number of leading images that are the training set; None if the files do not tell.
    """

    pixels: np.ndarray
    labels: np.ndarray
    name: str
    training: int | None = None


class Features(NamedTuple):
    """Labelled examples other than images, as vectors.

    Attributes:
        x: (examples, features).
        labels: (examples,).
        name: a description of the data and its features, for records and figures.
        training: number of leading examples that are the training set; None if the files do not
            tell.
    """

    x: np.ndarray
    labels: np.ndarray
    name: str
    training: int | None = None


def cifar10(folder: str | os.PathLike | None = None) -> Images:
    """CIFAR-10 in its binary version: all training batches in the folder, then the test batch.

    Args:
        folder: the folder that holds `cifar-10-batches-bin`, or that folder itself; None
            uses the environment variable LEARNDYN_DATA.

    Returns:
        The images.

    Raises:
        ValueError: if the folder or its files are missing or have another format.
    """
    root = folder_of("cifar-10-batches-bin", folder)
    # The test batch comes last, as `Images.training` counts leading images.
    files = [*sorted(root.glob("data_batch_*.bin")), *root.glob("test_batch.bin")]
    files = [file for file in files if file.is_file()]
    if not files:
        raise missing("data_batch_1.bin", root, _CIFAR_SOURCE)
    check_fits(root.name, sum(file.stat().st_size for file in files))
    raw = [np.fromfile(file, dtype=np.uint8) for file in files]
    for file, content in zip(files, raw, strict=True):
        if len(content) % _CIFAR_RECORD or not len(content):
            raise ValueError(
                f"{file.name}: got {len(content)} bytes; allowed are records of {_CIFAR_RECORD}"
            )
        if (largest := content[::_CIFAR_RECORD].max()) >= _CIFAR_CLASSES:
            raise ValueError(
                f"{file.name}: has the label {largest}; allowed are 0 to {_CIFAR_CLASSES - 1}"
            )
    records = np.concatenate(raw).reshape(-1, _CIFAR_RECORD)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32)
    trained = sum(len(c) for f, c in zip(files, raw, strict=True) if f.name != "test_batch.bin")
    name = f"CIFAR-10, {len(records)} images"
    return Images(pixels, records[:, 0], name, trained // _CIFAR_RECORD)


def digits() -> Images:
    """The 1797 handwritten digits of 8 × 8 pixels that come with scikit-learn.

    Raises:
        ValueError: if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ValueError("digits: needs scikit-learn; allowed is learndyn[data]") from None
    bunch: Any = load_digits()
    return Images(bunch.images[:, None], bunch.target, "scikit-learn digits, 1797 images")


class Inputs(NamedTuple):
    """Images as vectors.

    Attributes:
        x: (images, N), only pixels that vary.
        name: a description of the data, for records and figures.
    """

    x: np.ndarray
    name: str


_READERS = {"cifar10": cifar10, "digits": digits}


def first_channel(data: str, images: int = 0) -> Inputs:
    """The first channel of the first images, without pixels that never change.

    Args:
        data: "cifar10", from the folder of data files, or "digits".
        images: largest number of images; 0 for all.

    Returns:
        The inputs.

    Raises:
        ValueError: for other data, or where its files are missing.
    """
    source = _READERS[one_of("data", data, tuple(_READERS))]()
    pixels = source.pixels[: images or None, 0].reshape(-1, source.pixels[0, 0].size)
    x = pixels[:, np.ptp(pixels, axis=0) > 0].astype(np.float64)
    kept = f"{x.shape[1]} of {pixels.shape[1]} pixels that vary"
    whole = f"{x.shape[1]} pixels" + " of the first channel" * (source.pixels.shape[1] > 1)
    which = whole if x.shape[1] == pixels.shape[1] else kept
    return Inputs(x, f"{source.name.split(',')[0]}, {len(x)} images, {which}")


def data_folder(folder: str | os.PathLike | None = None) -> pathlib.Path:
    """The folder of data files: the argument, LEARNDYN_DATA, or where downloads are kept.

    Raises:
        ValueError: if none of these is a folder.
    """
    path = os.environ.get(VARIABLE, "") if folder is None else os.fspath(folder)
    if folder is None and not path and own_folder().is_dir():
        return own_folder()
    if not path or not pathlib.Path(path).is_dir():
        raise ValueError(
            f"data folder: got {path!r}; allowed is an existing folder, "
            f"set by --data-dir or {VARIABLE}, or `learndyn data get NAME`"
        )
    return pathlib.Path(path)


def own_folder() -> pathlib.Path:
    """Where downloads are kept if no folder is named: `learndyn/data` in your cache folder."""
    return user_folder() / "data"


def folder_of(name: str, folder: str | os.PathLike | None = None) -> pathlib.Path:
    """The subfolder `name` of the folder of data files, or that folder itself without one."""
    root = data_folder(folder)
    return root / name if (root / name).is_dir() else root


def check_promise(path: pathlib.Path, shape: Sequence[int], itemsize: int = 1) -> None:
    """Raises for an array that its file cannot hold, or that fills more than half of the memory.

    Args:
        path: of the file, which may be packed.
        shape: of the array, as the file says before it is read.
        itemsize: bytes per number, at least.
    """
    size = itemsize * math.prod(shape)
    if size > MOST_PACKED * path.stat().st_size:
        raise ValueError(f"{path.name}: has shape {tuple(shape)}; allowed is what the file holds")
    check_fits(path.name, size)


def missing(file: str, folder: pathlib.Path, source: str) -> ValueError:
    """The error for a missing file."""
    return ValueError(
        f"{file}: not in the folder {str(folder)!r}; it can be downloaded from {source}"
    )
