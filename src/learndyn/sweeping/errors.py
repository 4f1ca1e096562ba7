"""Errors of stores, in one line each."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

ALLOWED = "a new location, or the store of a sweep"


class StoreError(ValueError):
    """A store cannot be read or written."""


@contextlib.contextmanager
def one_line(location: str, allowed: str = ALLOWED) -> Iterator[None]:
    """Turns an error of a disk or a driver into one line."""
    try:
        yield
    except (OSError, ImportError) as error:
        number = getattr(error, "errno", None)
        why = os.strerror(number) if number else str(error).partition("\n")[0]
        raise StoreError(f"store: got {location!r} ({why}); allowed is {allowed}") from None


@contextlib.contextmanager
def readable(location: str, part: str, remedy: str = "") -> Iterator[None]:
    """Turns any error that a damaged part of a store causes when it is read into one line.

    Args:
        location: the location of the store.
        part: the path of the part in the store.
        remedy: what else is allowed.
    """
    try:
        with one_line(location, "the store of a sweep"):
            yield
    except (StoreError, MemoryError):
        raise
    except Exception as error:
        raise damaged(location, part, f"{type(error).__name__}: {error}", remedy) from None


def damaged(location: str, part: str, why: str, remedy: str = "") -> StoreError:
    """The error for a store that exists but has changed since it was written."""
    why = why.partition("\n")[0]
    return StoreError(
        f"store: {location!r} is damaged in {part} ({why}); allowed is a whole store{remedy}"
    )


@dataclasses.dataclass(frozen=True)
class Guarded:
    """An array along points whose errors name the damaged chunk.

    Attributes:
        location: the location of the store.
        name: the name of the array.
        array: the Zarr array.
        noticed: whether a missing chunk is noticed, and its points computed again.
    """

    location: str
    name: str
    array: Any
    noticed: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def __getitem__(self, index: Any) -> Any:
        try:
            with one_line(self.location, "the store of a sweep"):
                return self.array[index]
        except (StoreError, MemoryError, IndexError):
            raise
        except Exception as error:
            self._name_chunk(index[0] if isinstance(index, tuple) else index)
            raise damaged(self.location, self.name, str(error)) from None

    def _name_chunk(self, index: Any) -> None:
        """Raises for the first chunk of the given rows that cannot be read."""
        size = self.array.chunks[0]
        for number in np.unique(np.arange(self.shape[0])[index] // size):
            part = f"{self.name}/c/{number}"
            redone = f", or one without {part}, whose points the next call computes again"
            with readable(self.location, part, redone if self.noticed else ""):
                self.array[number * size : (number + 1) * size]
