"""Scalars in TensorBoard's event files: records of events, each a message of protocol buffers.

A record is its length (8 bytes), a checksum of the length, the message, and a checksum of the
message. Only the first checksum is read: it finds files that are cut off or are something else.
The fields of the messages are those of TensorFlow's event.proto, summary.proto and tensor.proto.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

# What the fields of a damaged message raise: cut off, of another type, no text.
DAMAGE = (IndexError, struct.error, AttributeError, TypeError, ValueError)
HEAD, TAIL = 12, 4  # bytes around a message
POLYNOMIAL = 0x82F63B78  # of CRC-32C, reversed
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # wire types
EVENT_STEP, EVENT_SUMMARY = 2, 5
SUMMARY_VALUE, VALUE_TAG, VALUE_SIMPLE, VALUE_TENSOR = 1, 1, 2, 8
TENSOR_DTYPE, TENSOR_CONTENT = 1, 4
DTYPES = {1: "<f4", 2: "<f8"}  # DT_FLOAT, DT_DOUBLE
LISTS = {1: 5, 2: 6}  # the fields of their values, where they are not in the content


def scalars(content: bytes) -> tuple[dict[str, tuple[list[int], list[float]]], bool]:
    """The scalars in an event file.

    Args:
        content: the file.

    Returns:
        Tag → (steps, values), in the order of the file; and whether its last record is whole. A
        file that is being written may end within a record.

    Raises:
        ValueError: for a file that is damaged, or no event file.
    """
    curves: dict[str, tuple[list[int], list[float]]] = {}
    whole, begin = True, 0
    while begin < len(content):
        size = _size(content, begin)
        end = None if size is None else begin + HEAD + size
        if end is None or end + TAIL > len(content):
            whole = False
            break
        try:
            for tag, step, value in _event(content[begin + HEAD : end]):
                steps, values = curves.setdefault(tag, ([], []))
                steps.append(step)
                values.append(value)
        except DAMAGE:
            raise ValueError("its events are damaged") from None
        begin = end + TAIL
    return curves, whole


def _size(content: bytes, begin: int) -> int | None:
    """The length of the message of a record; None if the file ends before it is known."""
    if begin + HEAD > len(content):
        return None
    size, checksum = struct.unpack_from("<QI", content, begin)
    if _masked(_crc(content[begin : begin + 8])) != checksum:
        raise ValueError("it is damaged, or no event file")
    return size


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def _crc(data: bytes) -> int:
    """CRC-32C, which the standard library does not have."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _event(message: bytes) -> Iterator[tuple[str, int, float]]:
    """(tag, step, value) of the scalars of an event."""
    step, summaries = 0, []
    for number, value in _fields(message):
        if number == EVENT_STEP:
            step = value - (1 << 64 if value >> 63 else 0)
        elif number == EVENT_SUMMARY:
            summaries.append(value)
    for summary in summaries:
        for number, entry in _fields(summary):
            if number == SUMMARY_VALUE:
                tag, value = _scalar(entry)
                if value is not None:
                    yield tag, step, value


def _scalar(message: bytes) -> tuple[str, float | None]:
    """The tag of a value of a summary, and the value if it is a scalar."""
    tag, value = "", None
    for number, content in _fields(message):
        if number == VALUE_TAG:
            tag = content.decode()
        elif number == VALUE_SIMPLE:
            value = struct.unpack("<f", content)[0]
        elif number == VALUE_TENSOR:
            value = _number(content)
    return tag, value


def _number(message: bytes) -> float | None:
    """The number in a tensor of one entry."""
    fields = dict(_fields(message))
    kind = fields.get(TENSOR_DTYPE, 0)
    if kind not in DTYPES:
        return None
    content = fields.get(TENSOR_CONTENT) or fields.get(LISTS[kind], b"")
    size = np.dtype(DTYPES[kind]).itemsize
    return float(np.frombuffer(content, DTYPES[kind])[0]) if len(content) == size else None


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(number, content) of the fields of a message: an int, or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
        elif wire in (FIXED64, LENGTH, FIXED32):
            size, at = _varint(message, at) if wire == LENGTH else ({FIXED64: 8}.get(wire, 4), at)
            value, at = message[at : at + size], at + size
        else:
            raise IndexError(wire)
        if at > len(message):
            raise IndexError(at)
        yield number, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, and where it ends."""
    value = shift = 0
    while shift < 64:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
    raise IndexError(at)
