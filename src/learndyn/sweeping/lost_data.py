"""Finds points that are marked as finished but whose data are missing."""

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence

from zarr.core.sync import collect_aiterator

from learndyn.sweeping.errors import damaged
from learndyn.sweeping.schema import Field
from learndyn.sweeping.store import COMPLETE, FINISHED, Status, Store


def lost_rows(store: Store, statuses: Sequence[Status]) -> list[int]:
    """The rows of points that are marked as finished and whose data are incomplete.

    Args:
        store: the store of a sweep.
        statuses: the statuses of its points, read before the data, which are written first.

    Returns:
        The rows; none for stores of earlier versions, which do not contain blank chunks.

    Raises:
        StoreError: if an array that all points share is missing.
    """
    schema = store.schema
    if schema is None or COMPLETE not in store.attrs:
        return []
    finished: dict[int, list[int]] = {}
    for row, status in enumerate(statuses):
        if status.status == FINISHED:
            finished.setdefault(row // store.chunk, []).append(row)
    lost = set()
    for name, field in schema.fields.items():
        there = set(collect_aiterator(store.group.store.list_prefix(f"{store.prefix}{name}/")))
        if field.shared:
            for key in _keys(store, name, field, {}, ()):
                if key not in there:
                    raise damaged(store.location, key, "it is missing, and all points share it")
            continue
        for number, rows in finished.items():
            longest = {d: max(statuses[row].lengths.get(d, 0) for row in rows) for d in schema.pad}
            # One by one, up to the first: a damaged store may promise any number of them.
            if not all(key in there for key in _keys(store, name, field, longest, (number,))):
                lost |= {number}
    return [row for number in sorted(lost) for row in finished[number]]


def _keys(
    store: Store, name: str, field: Field, longest: Mapping[str, int], lead: tuple[int, ...]
) -> Iterator[str]:
    """The keys under which Zarr stores the data of one chunk of points."""
    array = store.array(name)
    sizes = zip(field.dims, array.shape[len(lead) :], array.chunks[len(lead) :], strict=True)
    numbers = [range(-(-longest.get(dim, size) // chunk)) for dim, size, chunk in sizes]
    for place in itertools.product(*numbers):
        yield f"{store.prefix}{name}/{array.metadata.encode_chunk_key((*lead, *place))}"


def mend(store: Store) -> None:
    """Marks points whose data were lost as pending; only for the client that holds the lock."""
    statuses = store.statuses(count=len(store.grid()))
    rows = lost_rows(store, statuses)
    if not rows:
        return
    warnings.warn(f"{lost_line(store, rows)}; they are computed again", stacklevel=4)
    for row in rows:
        statuses[row] = Status(attempt=statuses[row].attempt)
    store.write_statuses(0, statuses)


def lost_line(store: Store, rows: Sequence[int]) -> str:
    """What is missing, in one line."""
    grid = store.grid()
    first = grid.label(rows[0])
    return f"store: {store.location!r} lacks the data of {len(rows)} finished points ({first}, …)"
