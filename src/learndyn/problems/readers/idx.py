"""Images in the IDX format: MNIST and Fashion-MNIST, gzipped or not."""

import gzip
import io
import math
import os
import pathlib
import zlib

import numpy as np

from learndyn.problems.readers.files import MOST_PACKED, Images, check_promise, folder_of, missing

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_AXES = 32  # of an array in any version of NumPy
PIECE = 2**20  # bytes read at once
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
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            return _array(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path.name}: got a broken gzip file; allowed is an intact one") from None


def _array(path: pathlib.Path, file: io.BufferedIOBase) -> np.ndarray:
    start = file.read(4)
    known = len(start) == 4 and start[:2] == b"\0\0" and start[2] in _TYPES
    if not known or start[3] > MOST_AXES:
        raise ValueError(f"{path.name}: begins with {start!r}; allowed is an IDX file")
    dtype, lengths = np.dtype(_TYPES[start[2]]), file.read(4 * start[3])
    first = 4 + 4 * start[3]
    if 4 + len(lengths) < first:
        came = f"got {4 + len(lengths)} bytes"
        raise ValueError(f"{path.name}: {came}; allowed is a header of {first}")
    shape = tuple(int(n) for n in np.frombuffer(lengths, ">u4"))
    size = dtype.itemsize * math.prod(shape)
    if size <= MOST_PACKED * path.stat().st_size:  # larger ones are found to be cut short
        check_promise(path, shape, dtype.itemsize)
    raw = bytearray()
    # In pieces: memory for what the header promises is never reserved at once.
    while piece := file.read(min(PIECE, size + 1 - len(raw))):
        raw += piece
    if len(raw) != size:
        more = "more than " if len(raw) > size else ""
        came = f"got {more}{first + min(len(raw), size)} bytes"
        raise ValueError(f"{path.name}: {came}; allowed are {first + size} for the shape {shape}")
    numbers = np.frombuffer(raw, dtype).reshape(shape)
    return numbers.astype(dtype.newbyteorder("="))  # JAX refuses big-endian arrays
