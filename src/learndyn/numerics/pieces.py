"""Steps cut into pieces short enough to look at the progress bar and at Ctrl-C between them."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PIECE_SECONDS = 0.25  # about
SHORTEST = 64  # steps in a piece


class Piece(NamedTuple):
    """Steps to take at once.

    Attributes:
        first: the step to begin at.
        targets: the steps to read at, the last of them the end; padded to one length.
        number: how many targets are meant.
        asked: the index, among the steps that were asked for, of the first target.
        kept: how many targets were asked for: all, or none where it only ends a long way.
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
    """Cuts the way to asked steps into pieces that take about PIECE_SECONDS each.

    Args:
        steps: non-decreasing step numbers that are asked for.
        most: the largest number of them in a piece.

    Yields:
        The pieces; the time until the next one is asked for is the time that one took.
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
        if piece.steps >= SHORTEST:  # a shorter piece says little about the speed
            fits = piece.steps * PIECE_SECONDS / (time.perf_counter() - clock + 1e-9)
            # Not fewer than at first: a call has a cost of its own.
            size = max(SHORTEST, int(min(8 * size, fits)))


def nothing(most: int) -> Piece:
    """A piece without steps: what takes it is compiled."""
    return _piece(0, np.zeros(1, np.int64), most, 0, 0)._replace(number=np.int64(0))


def _piece(first: int, targets: np.ndarray, most: int, asked: int, kept: int) -> Piece:
    # As NumPy's numbers: Python's would be compiled in.
    padded = np.full(most, targets[-1], np.int64)
    padded[: len(targets)] = targets
    return Piece(np.int64(first), padded, np.int64(len(targets)), asked, kept)
