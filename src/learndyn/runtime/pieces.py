"""Cuts steps into pieces, short enough to update the progress bar and to notice Ctrl-C between."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PIECE_SECONDS = 0.25  # intended duration of a piece
SHORTEST = 64  # smallest number of steps in a piece


class Piece(NamedTuple):
    """Steps to take in one call.

    Attributes:
        first: the step to begin at.
        targets: the steps to read at, of which the last ends the piece; padded to a fixed length.
        number: how many targets there are before the padding.
        asked: the index of the first target among all requested steps.
        kept: how many targets were requested: all, or none if the next requested step lies beyond
            this piece.
    """

    first: np.int64
    targets: np.ndarray
    number: np.int64
    asked: int
    kept: int

    @property
    def steps(self) -> int:
        """The number of steps in the piece."""
        return int(self.targets[-1] - self.first)


def pieces(steps: np.ndarray, most: int) -> Iterator[Piece]:
    """Cuts the way to the requested steps into pieces that take about PIECE_SECONDS each.

    Args:
        steps: the requested step numbers, non-decreasing.
        most: the largest number of them in a piece.

    Yields:
        The pieces. The time until the caller asks for the next piece is taken as the time that
        this one took.
    """
    first, asked, size = 0, 0, SHORTEST
    while asked < len(steps):
        near = steps[asked : asked + most]
        near = near[near <= first + size]
        targets = near if len(near) else np.asarray([first + size])
        piece = _piece(first, targets, most, asked, len(near))
        clock = time.perf_counter()
        yield piece
        first, asked = int(targets[-1]), asked + len(near)
        if piece.steps >= SHORTEST:  # the time of a shorter piece says little about the speed
            fits = piece.steps * PIECE_SECONDS / (time.perf_counter() - clock + 1e-9)
            # Never shorter than the first piece: every call has an overhead.
            size = max(SHORTEST, int(min(8 * size, fits)))


def nothing(most: int) -> Piece:
    """A piece without steps, to compile an engine without running it."""
    return _piece(0, np.zeros(1, np.int64), most, 0, 0)._replace(number=np.int64(0))


def _piece(first: int, targets: np.ndarray, most: int, asked: int, kept: int) -> Piece:
    # NumPy integers, which are traced; Python integers would be compiled in.
    padded = np.full(most, targets[-1], np.int64)
    padded[: len(targets)] = targets
    return Piece(np.int64(first), padded, np.int64(len(targets)), asked, kept)
