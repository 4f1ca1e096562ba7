"""Images in the IDX format: MNIST and Fashion-MNIST, gzipped or not."""

import gzip
import math
import os
import pathlib
import zlib

import numpy as np

from learndyn.problems.readers.files import Images, folder_of, missing

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/, or by `learndyn data get mnist`"
_FASHION = (
    "https://github.com/zalandoresearch/fashion-mnist, or by `learndyn data get fashion-mnist`"
)


def mnist(folder: str | os.PathLike | None = None) -> Images:
    """MNIST: the 60,000 training images, then the 10,000 of the test set.

    Args:
        folder: the folder that holds `mnist`, or that folder itself; None uses the
            environment variable LEARNDYN_DATA.

    Returns:
        The images.

    Raises:
        ValueError: if the folder or its files are missing or have another format.
    """
    return _both_parts("MNIST", folder_of("mnist", folder), _MNIST)


def fashion_mnist(folder: str | os.PathLike | None = None) -> Images:
    """Fashion-MNIST, with files like those of MNIST, in the folder `fashion-mnist`.

    Args:
        folder: as for `mnist`.

    Returns:
        The images.

    Raises:
        ValueError: if the folder or its files are missing or have another format.
    """
    return _both_parts("Fashion-MNIST", folder_of("fashion-mnist", folder), _FASHION)


def _both_parts(name: str, folder: pathlib.Path, source: str) -> Images:
    parts = [_part(folder, part, source) for part in ("train", "t10k")]
    pixels, labels = (np.concatenate(both) for both in zip(*parts, strict=True))
    return Images(pixels[:, None], labels, f"{name}, {len(labels)} images", len(parts[0][1]))


def _part(folder: pathlib.Path, part: str, source: str) -> tuple[np.ndarray, np.ndarray]:
    arrays = []
    for kind, axes in (("images-idx3", 3), ("labels-idx1", 1)):
        path = _file(folder, f"{part}-{kind}-ubyte", source)
        array = read_idx(path)
        if array.ndim != axes:
            raise ValueError(f"{path.name}: got {array.ndim} axes; allowed are {axes}")
        arrays.append(array)
    images, labels = arrays
    if len(images) != len(labels):
        came = f"{len(images)} images and {len(labels)} labels"
        raise ValueError(f"{part} in {str(folder)!r}: got {came}; allowed are equal numbers")
    return images, labels


def _file(folder: pathlib.Path, name: str, source: str) -> pathlib.Path:
    """The file, unpacked or gzipped."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise missing(f"{name}.gz", folder, source)


def read_idx(path: str | os.PathLike) -> np.ndarray:
    """The array of an IDX file.

    The format is: two zero bytes, the type, the number of axes, their lengths as big-endian 32-bit
    integers, then the numbers with the last axis running fastest.

    Args:
        path: of the file; gzipped if the name ends in .gz.

    Returns:
        The array.

    Raises:
        ValueError: for a file of another format, or one that is cut short.
    """
    path = pathlib.Path(path)
    raw = _bytes(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES:
        raise ValueError(f"{path.name}: begins with {raw[:4]!r}; allowed is an IDX file")
    dtype, first = np.dtype(_TYPES[raw[2]]), 4 + 4 * raw[3]
    if len(raw) < first:
        raise ValueError(f"{path.name}: got {len(raw)} bytes; allowed is a header of {first}")
    shape = tuple(int(n) for n in np.frombuffer(raw[4:first], ">u4"))
    wanted = first + dtype.itemsize * math.prod(shape)
    if len(raw) != wanted:
        expected = f"allowed are {wanted} for the shape {shape}"
        raise ValueError(f"{path.name}: got {len(raw)} bytes; {expected}")
    numbers = np.frombuffer(raw, dtype, offset=first).reshape(shape)
    return numbers.astype(dtype.newbyteorder("="))  # JAX refuses big-endian arrays


def _bytes(path: pathlib.Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path.name}: got a broken gzip file; allowed is an intact one") from None
