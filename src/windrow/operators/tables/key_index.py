"""Indexes of the keys of stored tuples: a tick's few keys are looked up, instead of compared with a whole window.

A window is a FIFO of immutable chunks. They come and go whole, so what is worked out for one stays valid as long as the
chunk does. Chunks that a reader meets again are indexed together: the rows by a hash of their keys, six bytes a row.
Small indexes are merged into larger ones like the digits of a binary counter, so there are few to ask. Nothing is done
when a chunk goes: what an index says about it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.operators.tables.prefilter import ODD, is_word, maybe_among, words_in
from windrow.operators.ticks import Points
from windrow.synopses.cells.arrays import run_starts
from windrow.synopses.cells.buckets import Words, hashes_of

LEAST_ROWS = 1 << 13
"""Fewer rows are looked through: that is as fast."""

MOST_ROWS = 1 << 20
"""So many rows are indexed at a tick, and indexes are merged up to this size: no tick waits long for it."""

SPARSE = 64
"""A column is looked through if it has fewer rows than this per key that is wanted."""

TURN = 1024
"""A reader that does not come back while others look so many times is forgotten."""

_PIECE = 1 << 14
"""So many texts are hashed at a time."""

Place = tuple[int, ...]
"""Where in memory the rows of a chunk end. While it is held, no others do."""

_NONE = np.iinfo(np.int64).max


class KeyIndexes:
    """The indexes of what readers look through. A chunk is held, and with it its index, as long as it is in the column
    in which some reader looked last; readers of the same chunks share them. Threads may share one, but not a reader."""

    def __init__(self) -> None:
        self._chunks: WeakValueDictionary[Place, _Chunk] = WeakValueDictionary()
        self._readers: dict[tuple[int, str], _Reader] = {}
        self._calls = 0

    def among(self, reader: object, name: str, column: pa.ChunkedArray, values: pa.Array) -> Points:
        """The rows of a reader's column whose key may be among the values, in ascending order. None of those that have
        one is missing (`maybe_among`)."""
        if len(column) < LEAST_ROWS or not _has_words(column.type, values.type):
            self._readers.pop((id(reader), name), None)
            return maybe_among(column, values)
        mine, pieces = self._reader((id(reader), name)), column.chunks
        before, mine.chunks = frozenset(mine.chunks), [self._chunk(keys) for keys in pieces]
        if SPARSE * len(values) > len(column):
            return maybe_among(column, values)
        _index([chunk for chunk in mine.chunks if chunk.held is not None or chunk in before])
        found = _Looked(pieces, mine.chunks)
        return np.sort(np.concatenate([found.through(values), *found.up(np.sort(_mixed(values)))]))

    def forget(self, reader: object) -> None:
        """Let go of the chunks in which a reader looked last: it has nothing to look through now."""
        for key in [key for key in list(self._readers) if key[0] == id(reader)]:
            self._readers.pop(key, None)

    @property
    def nbytes(self) -> int:
        """The bytes of all indexes."""
        held = {one.held.index for one in list(self._chunks.values()) if one.held is not None}
        return sum(index.nbytes for index in held)

    def _reader(self, key: tuple[int, str]) -> _Reader:
        self._calls += 1
        if self._calls % TURN == 0:
            late = [key for key, one in list(self._readers.items()) if one.called <= self._calls - TURN]
            for one in late:
                self._readers.pop(one, None)
        found = self._readers.setdefault(key, _Reader())
        found.called = self._calls
        return found

    def _chunk(self, keys: pa.Array) -> _Chunk:
        """The chunk that has these keys at its end; there are more where the oldest rows have expired since."""
        place = (keys.type.id, keys.offset + len(keys), *(0 if one is None else one.address for one in keys.buffers()))
        found = self._chunks.get(place)
        if found is None or found.keys.offset > keys.offset:
            found = self._chunks[place] = _Chunk(keys)
        return found


@dataclass(eq=False)
class _Reader:
    """The chunks in which a reader looked last, and at which call that was."""

    chunks: list[_Chunk] = field(default_factory=list)
    called: int = 0


@dataclass(eq=False)
class _Chunk:
    """The keys of a chunk, and where they are indexed."""

    keys: pa.Array
    held: _Held | None = None


@dataclass(frozen=True, eq=False)
class _Held:
    """An index, and the number of a chunk in it."""

    index: _Index
    number: int


@dataclass(frozen=True, eq=False)
class _Index:
    """The rows of several chunks by the hash of their keys: those of hash h are `rows[starts[h] : starts[h + 1]]`. Rows
    are counted over all chunks; those of chunk i begin at `firsts[i]`."""

    bits: int
    starts: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    firsts: Points

    @staticmethod
    def of(chunks: Sequence[pa.Array]) -> _Index:
        sizes = np.array([len(chunk) for chunk in chunks])
        mixed = np.concatenate([_mixed(chunk) for chunk in chunks])
        bits = max(1, mixed.size.bit_length() - 2)
        slots, width = _slots(mixed, bits), mixed.size.bit_length()
        rows = np.sort(slots << width | np.arange(mixed.size)) & ((1 << width) - 1)  # faster than sorting indices
        starts = np.zeros((1 << bits) + 1, np.int32)
        starts[1:] = np.cumsum(np.bincount(slots, minlength=1 << bits))
        return _Index(bits, starts, rows.astype(np.int32), np.cumsum(sizes) - sizes)

    @property
    def nbytes(self) -> int:
        return int(self.starts.nbytes + self.rows.nbytes + self.firsts.nbytes)

    def with_keys(self, mixed: Words) -> Points:
        """The rows that may have one of these keys, which are in ascending order; each row once."""
        slots = _slots(mixed, self.bits)
        slots = slots[run_starts(slots)]
        first, last = self.starts[slots].astype(np.int64), self.starts[slots + 1].astype(np.int64)
        count = last - first
        ends = np.cumsum(count)
        at = np.repeat(first - (ends - count), count) + np.arange(ends[-1] if ends.size else 0)
        return np.asarray(self.rows[at], np.int64)


def _index(chunks: Sequence[_Chunk]) -> None:
    """Index the chunks that are in no index yet, if they are many rows, together with those of smaller indexes."""
    loose, indexed = list[_Chunk](), dict[_Index, list[_Chunk]]()
    for chunk in chunks:
        (loose if chunk.held is None else indexed.setdefault(chunk.held.index, [])).append(chunk)
    if _rows(loose) < LEAST_ROWS:
        return
    some = _first(loose, MOST_ROWS)
    for others in sorted(indexed.values(), key=_rows):
        if _rows(others) > min(2 * _rows(some), MOST_ROWS - _rows(some)):
            break
        some = [*others, *some]
    made = _Index.of([chunk.keys for chunk in some])
    for i, chunk in enumerate(some):
        chunk.held = _Held(made, i)


def _first(chunks: Sequence[_Chunk], most: int) -> list[_Chunk]:
    """The first chunks, of up to so many rows, but at least one."""
    upto = np.cumsum([len(chunk.keys) for chunk in chunks])
    return list(chunks[: max(1, int(np.searchsorted(upto, most, "right")))])


def _rows(chunks: Iterable[_Chunk]) -> int:
    return sum(len(chunk.keys) for chunk in chunks)


class _Looked:
    """The pieces of a column, each the end of a chunk: those that are indexed by index, and the others."""

    def __init__(self, pieces: Sequence[pa.Array], chunks: Sequence[_Chunk]):
        self._loose = list[pa.Array]()
        self._begins = list[int]()
        self._by_index: dict[_Index, tuple[Points, Points]] = {}
        at = 0
        for keys, chunk in zip(pieces, chunks, strict=True):
            if not self._is_indexed(chunk, len(chunk.keys) - len(keys), at):
                self._loose.append(keys)
                self._begins.append(at)
            at += len(keys)

    def _is_indexed(self, chunk: _Chunk, gone: int, at: int) -> bool:
        """Whether an index finds the rows of a chunk, of which the first have gone, and which begins at a row of the
        column."""
        if chunk.held is None:
            return False
        index, number = chunk.held.index, chunk.held.number
        if index not in self._by_index:
            self._by_index[index] = np.full(index.firsts.size, _NONE), np.zeros(index.firsts.size, np.int64)
        least, moved = self._by_index[index]
        if least[number] != _NONE:
            return False  # the same memory is in the column twice
        least[number] = index.firsts[number] + gone
        moved[number] = at - least[number]
        return True

    def through(self, values: pa.Array) -> Points:
        """The rows with one of these keys in pieces that are not indexed."""
        if not self._loose:
            return np.zeros(0, np.int64)
        sizes = np.array([len(keys) for keys in self._loose])
        firsts, begins = np.cumsum(sizes) - sizes, np.array(self._begins)
        rows = maybe_among(pa.chunked_array(self._loose), values)
        return np.asarray(rows + (begins - firsts)[np.searchsorted(firsts, rows, "right") - 1])

    def up(self, mixed: Words) -> Iterator[Points]:
        """The rows with one of these keys in pieces that are indexed, index by index."""
        for index, (least, moved) in self._by_index.items():
            rows = index.with_keys(mixed)
            of = np.searchsorted(index.firsts, rows, "right") - 1
            there = rows >= least[of]
            yield (rows + moved[of])[there]


def _has_words(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether keys of a type are looked up among those of another by their words."""
    if is_word(kind) and is_word(other):
        return True
    return bool(kind == other and (pa.types.is_string(kind) or pa.types.is_binary(kind)))


def _mixed(keys: pa.Array) -> Words:
    """A word for each key, whose highest bits are a hash."""
    words = words_in(keys) if is_word(keys.type) else _words_of_texts(keys)
    return np.asarray(words * ODD)


def _words_of_texts(keys: pa.Array) -> Words:
    """The hashes of texts, piece by piece: what is worked out on the way takes many times their bytes."""
    pieces = (keys.slice(lo, _PIECE) for lo in range(0, max(1, len(keys)), _PIECE))
    return np.concatenate([hashes_of([piece], len(piece)) for piece in pieces])


def _slots(mixed: Words, bits: int) -> Points:
    return np.asarray((mixed >> np.uint64(64 - bits)).view(np.int64))
