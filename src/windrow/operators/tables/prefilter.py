"""Finds the few rows of a large table whose key may be among some values.

For numbers and times it marks the values in a table of bits by a hash and looks every row up: a row that is left out
has no partner, one that is kept may have none. Other types are looked up exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.tables.rows import flat, normal, taken
from windrow.operators.ticks import Points
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.buckets import Words

ODD, _LONG = np.uint64(0x9E3779B97F4A7C15), pa.int64()
SLOTS_PER_VALUE = 128
"""One in so many other keys is kept in vain."""

_LEAST, _MOST = 14, 24
"""The least and the most bits of a hash."""

CLOSE = 1 << 18
"""Values between which so few others lie are marked by their place."""

FEW = 4
"""So few values are compared one by one."""

_PIECE = 1 << 15
"""So many rows are hashed at a time: their hashes fit into the processor's cache."""


def maybe_among(column: pa.ChunkedArray, values: pa.Array) -> Points:
    """The rows whose key may be among the values. None of those that have one is missing."""
    if not is_word(column.type):
        plain = normal(column) if pa.types.is_floating(column.type) else column
        return np.flatnonzero(flat(pc.is_in(plain, value_set=values)).to_numpy(zero_copy_only=False))
    found, at, is_marked = [np.zeros(0, np.int64)], 0, _marking(words_in(values))
    for chunk in column.chunks:
        words = words_in(chunk)
        for lo in range(0, words.size, _PIECE):
            found.append(at + lo + np.flatnonzero(is_marked(words[lo : lo + _PIECE])))
        at += words.size
    return np.concatenate(found)


def _marking(wanted: Words) -> Callable[[Words], Mask]:
    """The test whether words may be among those wanted: by comparison if these are few, by their place if they are
    close together, else by a hash."""
    if wanted.size <= FEW:
        return lambda words: _equal_one_of(words, wanted)
    numbers = wanted.view(np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < CLOSE and low > -(1 << 62):
        # The place before the first and that after the last one stand for all that is outside.
        places = np.zeros(high - low + 3, bool)
        places[numbers - low + 1] = True
        # Far away, the difference wraps around to any place, where a row is kept in vain.
        return lambda words: np.take(places, words.view(np.int64) - (low - 1), mode="clip")
    bits = min(max(int(wanted.size * SLOTS_PER_VALUE).bit_length(), _LEAST), _MOST)
    marked = np.zeros(1 << bits, bool)
    marked[_hashed(wanted, bits)] = True
    return lambda words: np.take(marked, _hashed(words, bits), mode="clip")


def rows_between(column: pa.ChunkedArray, lo: int, hi: int) -> Points:
    """The rows with lo ≤ number < hi, of an int64 column without NULL."""
    found, at = [np.zeros(0, np.int64)], 0
    for chunk in column.chunks:
        numbers = np.asarray(chunk.to_numpy(zero_copy_only=False), np.int64)
        found.append(at + np.flatnonzero((numbers >= lo) & (numbers < hi)))
        at += numbers.size
    return np.concatenate(found)


def picked(table: pa.Table, rows: Points) -> pa.Table:
    """Some rows of a table, in ascending order. Of a table in many chunks Arrow would copy all rows first, so they are
    taken chunk by chunk."""
    if not rows.size or table.column(0).num_chunks < 2:
        return taken(table, rows)
    columns = _chunks(table)
    starts = np.cumsum([0, *map(len, columns[0])])
    cuts = np.searchsorted(rows, starts)
    hit = np.flatnonzero(cuts[1:] > cuts[:-1]).tolist()
    places = [rows[cuts[i] : cuts[i + 1]] - starts[i] for i in hit]
    found = [_picked([chunks[i] for i in hit], places) for chunks in columns]
    return pa.Table.from_arrays(found, schema=table.schema)


def _chunks(table: pa.Table) -> list[list[pa.Array]]:
    """The chunks of each column, all cut at the same rows."""
    found = [column.chunks for column in table.columns]
    sizes = [[len(chunk) for chunk in chunks] for chunks in found]
    if all(one == sizes[0] for one in sizes):
        return found
    batches = table.to_batches()
    return [[batch.column(i) for batch in batches] for i in range(table.num_columns)]


def _picked(chunks: Sequence[pa.Array], places: Sequence[Points]) -> pa.Array:
    """Some values of each of several arrays. NumPy takes numbers without NULL with far less ado than Arrow."""
    kind = chunks[0].type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_number and not any(chunk.null_count for chunk in chunks):
        return pa.array(np.concatenate([c.to_numpy()[at] for c, at in zip(chunks, places, strict=True)]), kind)
    return pa.concat_arrays([c.take(pa.array(at)) for c, at in zip(chunks, places, strict=True)])


def is_word(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def words_in(column: pa.Array) -> Words:
    whole = column
    if column.type != _LONG:
        whole = (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(_LONG)
    whole = pc.fill_null(whole, 0) if whole.null_count else whole
    return np.asarray(whole.to_numpy(zero_copy_only=False)).view(np.uint64)


def _equal_one_of(words: Words, wanted: Words) -> Mask:
    out = np.zeros(words.size, bool)
    for one in wanted:
        out |= words == one
    return out


def _hashed(words: Words, bits: int) -> Points:
    mixed = words * ODD
    mixed >>= np.uint64(64 - bits)
    return np.asarray(mixed.view(np.int64))
