"""Arrays of numbers from MATLAB files of version 5.

They are not read by scipy, because a damaged file can end its process: types that a file names are
indices into a table there. Every number here is checked before it is used.
"""

import math
import pathlib
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from learndyn.problems.readers.files import check_promise
from learndyn.problems.readers.idx import MOST_AXES

_HEADER, _VERSION = 128, 0x0100
_ORDERS = {b"IM": "<", b"MI": ">"}  # how the file's computer wrote two letters as one number
# The types of stored numbers, and those of arrays, whose numbers may be stored in a smaller type.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_STORED |= {12: "i8", 13: "u8"}
_ARRAYS = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")  # from class 6 on
_FIRST_CLASS, _COMPLEX = 6, 0x0800
_MATRIX, _PACKED = 14, 15
_LONGEST = 4096  # bytes of a name, or of the lengths of all axes

_Read = Callable[[int], bytes]


class _Found(NamedTuple):
    """What an array says of itself before its numbers: flags, lengths, name."""

    flags: int
    shape: tuple[int, ...]
    name: str


def variables(path: pathlib.Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays of numbers, as far as the file has them.

    Args:
        path: of the file.
        names: of the variables.

    Returns:
        The arrays by name.

    Raises:
        ValueError: for a file of another format, or one that is cut short.
    """
    arrays: dict[str, np.ndarray] = {}
    try:
        with path.open("rb") as file:
            order = _order(file.read(_HEADER))
            while tag := file.read(8):
                kind, size = struct.unpack(f"{order}II", tag)
                content = file.read(min(size, path.stat().st_size))
                if kind not in (_MATRIX, _PACKED) or len(content) != size:
                    raise _Broken
                read = _pieces(content, packed=kind == _PACKED)
                if kind == _PACKED and struct.unpack(f"{order}II", read(8))[0] != _MATRIX:
                    raise _Broken
                found = _found(order, read)
                if found.name in names:
                    arrays[found.name] = _numbers(path, order, read, found)
    except (_Broken, struct.error, zlib.error, UnicodeDecodeError):
        raise ValueError(f"{path.name}: is cut short or no MATLAB file of version 5") from None
    return arrays


class _Broken(Exception):
    """Something in a file is not as the format wants it."""


def _order(header: bytes) -> str:
    order = _ORDERS.get(header[-2:], "") if len(header) == _HEADER else ""
    if not order or struct.unpack(f"{order}H", header[-4:-2])[0] != _VERSION:
        raise _Broken
    return order


def _pieces(content: bytes, packed: bool) -> _Read:
    """A function that returns the next bytes of an element; unpacks no more than asked for."""
    unpacking, left = zlib.decompressobj(), content

    def read(count: int) -> bytes:
        nonlocal left
        if packed and count:  # 0 would mean all
            piece = unpacking.decompress(left, count)
            left = unpacking.unconsumed_tail
        else:
            piece, left = left[:count], left[count:]
        return piece

    return read


def _found(order: str, read: _Read) -> _Found:
    flags, _ = struct.unpack(f"{order}II", _part(order, read, "u4"))
    shape = tuple(n for (n,) in struct.iter_unpack(f"{order}i", _part(order, read, "i4")))
    name = _part(order, read, "i1").decode("ascii")
    if not 2 <= len(shape) <= MOST_AXES or min(shape) < 0:
        raise _Broken
    return _Found(flags, shape, name)


def _part(order: str, read: _Read, dtype: str) -> bytes:
    """A short part of an array, which must be of the given type."""
    kind, length, content = _opened(order, read)
    if _STORED.get(kind) != dtype or length > _LONGEST:
        raise _Broken
    return content(length)


def _opened(order: str, read: _Read) -> tuple[int, int, _Read]:
    """The type of a part, its number of bytes, and a function that reads these."""
    (word,) = struct.unpack(f"{order}I", read(4))
    if small := word >> 16:  # up to four bytes, within the tag
        inside = read(4)
        if small > len(inside):
            raise _Broken
        return word & 0xFFFF, small, lambda count: inside[:count]
    (length,) = struct.unpack(f"{order}I", read(4))
    return word, length, lambda count: _whole(read(count + -count % 8)[:count], count)


def _whole(content: bytes, count: int) -> bytes:
    if len(content) != count:
        raise _Broken
    return content


def _numbers(path: pathlib.Path, order: str, read: _Read, found: _Found) -> np.ndarray:
    place = (found.flags & 0xFF) - _FIRST_CLASS
    if not 0 <= place < len(_ARRAYS) or found.flags & _COMPLEX:
        raise _Broken
    kind, length, content = _opened(order, read)
    stored = np.dtype(_STORED.get(kind, "V1"))
    check_promise(path, found.shape, stored.itemsize)
    if stored.kind == "V" or length != stored.itemsize * math.prod(found.shape):
        raise _Broken
    numbers = np.frombuffer(content(length), f"{order}{stored.str[1:]}")
    read(1)  # beyond the end, where a packed array has its checksum
    return numbers.reshape(found.shape, order="F").astype(_ARRAYS[place])
