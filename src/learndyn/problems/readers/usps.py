"""The handwritten digits of the U.S. Postal Service, from HDF5 or text files."""

import contextlib
import gzip
import os
import pathlib
import zlib
from typing import Any

import h5py
import numpy as np

from learndyn.problems.readers.files import Images, check_promise, folder_of, missing
from learndyn.records import is_elsewhere
from learndyn.runtime.memory import check_fits

SIDE, DIGITS = 16, range(10)
PIECE = 2**20  # bytes unpacked at once
PER_CHARACTER = 8  # bytes of memory: two characters are a number, which is copied while it is read
_SOURCE = "https://hastie.su.domains/ElemStatLearn/data.html (zip.train.gz, zip.test.gz)"
_PARTS = ("train", "test")


def usps(folder: str | os.PathLike | None = None) -> Images:
    """USPS: the 7291 training images of 16 × 16 pixels, then the 2007 of the test set.

    There are two formats: `usps.h5` with train/data, train/target, test/data and test/target,
    pixels from 0 to 1; or `zip.train.gz` and `zip.test.gz`, a line per image, the digit and 256
    pixels from −1 to 1, which are brought to 0 … 1 here.

    Args:
        folder: the folder that holds `usps`, or that folder itself; None uses the
            environment variable LEARNDYN_DATA.

    Returns:
        The images, pixels from 0 (paper) to 1 (ink).

    Raises:
        ValueError: if the folder or its files are missing or have another format.
    """
    root = folder_of("usps", folder)
    packed = root / "usps.h5"
    parts = [_from_hdf5(packed, p) if packed.is_file() else _from_text(root, p) for p in _PARTS]
    pixels, labels = (np.concatenate(both) for both in zip(*parts, strict=True))
    images = pixels.reshape(-1, 1, SIDE, SIDE)
    return Images(images, labels, f"USPS, {len(labels)} images", len(parts[0][1]))


def _from_hdf5(path: pathlib.Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        with h5py.File(path) as file:
            arrays: list[Any] = [file[f"{part}/{name}"] for name in ("data", "target")]
            for each in arrays:
                if is_elsewhere(each) or each.file != file:
                    raise OSError("in another file")
                if each.dtype.kind not in "iuf" or not each.shape:
                    raise OSError("no array of numbers")
                check_promise(path, each.shape, each.dtype.itemsize)
            data, target = map(np.asarray, arrays)
    except (OSError, KeyError, AttributeError, TypeError, RuntimeError):
        expected = f"no HDF5 file with {part}/data and {part}/target"
        raise ValueError(f"{path.name}: is {expected}; allowed is such a file") from None
    return _checked(f"{part} in {path.name}", data, target)


def _from_text(root: pathlib.Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    path = root / f"zip.{part}.gz"
    if not path.is_file():
        raise missing(f"usps.h5 or {path.name}", root, _SOURCE)
    _check_unpacked(path)
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
            if not lines:  # NumPy would only warn
                raise ValueError("no rows")
            rows = np.loadtxt(lines, dtype=np.float32, ndmin=2, comments=None)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError):
        raise ValueError(f"{path.name}: is no gzip file with rows of numbers") from None
    return _checked(path.name, (rows[:, 1:] + 1) / 2, rows[:, 0])


def _check_unpacked(path: pathlib.Path) -> None:
    """Raises if the numbers would fill the memory; a short file may unpack to any length."""
    size = 0
    with contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error), gzip.open(path) as file:
        while piece := len(file.read(PIECE)):
            size += piece
            check_fits(path.name, PER_CHARACTER * size)


def _checked(name: str, pixels: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wanted = (len(labels), SIDE * SIDE)
    if pixels.shape != wanted or labels.ndim != 1:
        came = f"pixels of shape {pixels.shape} and labels of shape {labels.shape}"
        raise ValueError(f"{name}: has {came}; allowed are {SIDE * SIDE} pixels for each label")
    if not np.isfinite(pixels).all() or not np.isin(labels, DIGITS).all():
        raise ValueError(f"{name}: has other numbers; allowed are finite pixels and digits")
    return pixels, labels.astype(np.int64)
