"""Finds the few rows of a large table whose key may be among some values.

For numbers and times it marks the values in a table of bits by a hash and looks every row up: a row that is left out
has no partner, one that is kept may have none. Other types are looked up exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.tables.rows import flat, normal, taken
from windrow.operators.ticks import Points
from windrow.synopses.cells.buckets import Words

_ODD, _LONG = np.uint64(0x9E3779B97F4A7C15), pa.int64()
SLOTS_PER_VALUE = 128
"""One in so many other keys is kept in vain."""

_LEAST, _MOST = 14, 24
"""The least and the most bits of a hash."""


def maybe_among(column: pa.ChunkedArray, values: pa.Array) -> Points:
    """The rows whose key may be among the values. None of those that have one is missing."""
    if not _is_word(column.type):
        plain = normal(column) if pa.types.is_floating(column.type) else column
        return np.flatnonzero(flat(pc.is_in(plain, value_set=values)).to_numpy(zero_copy_only=False))
    bits = min(max(int(len(values) * SLOTS_PER_VALUE).bit_length(), _LEAST), _MOST)
    marked = np.zeros(1 << bits, bool)
    marked[_hashed(_words(values), bits)] = True
    out, at = np.empty(len(column), bool), 0
    for chunk in column.chunks:  # one after another, as they fit into the processor's cache
        here = slice(at, at + len(chunk))
        np.take(marked, _hashed(_words(chunk), bits), out=out[here], mode="clip")
        at = here.stop
    return np.flatnonzero(out)


def picked(table: pa.Table, rows: Points) -> pa.Table:
    """Some rows of a table, in ascending order. Of a table in many chunks Arrow would copy all rows first, so they are
    taken chunk by chunk."""
    batches = table.to_batches()
    if len(batches) < 2 or not rows.size:
        return taken(table, rows)
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)]).tolist()
    cuts = np.searchsorted(rows, starts).tolist()
    pieces = zip(batches, starts, cuts, cuts[1:], strict=False)
    parts = [(batch, rows[lo:hi] - start) for batch, start, lo, hi in pieces if hi > lo]
    columns = [_picked([(batch.column(i), at) for batch, at in parts]) for i in range(table.num_columns)]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _picked(parts: Sequence[tuple[pa.Array, Points]]) -> pa.Array:
    """Some values of each of several arrays. NumPy takes numbers without NULL with far less ado than Arrow."""
    kind = parts[0][0].type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_number and not any(array.null_count for array, _ in parts):
        return pa.array(np.concatenate([array.to_numpy()[at] for array, at in parts]), kind)
    return pa.concat_arrays([array.take(pa.array(at)) for array, at in parts])


def _is_word(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def _words(column: pa.Array) -> Words:
    whole = column
    if column.type != _LONG:
        whole = (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(_LONG)
    whole = pc.fill_null(whole, 0) if whole.null_count else whole
    return np.asarray(whole.to_numpy(zero_copy_only=False)).view(np.uint64)


def _hashed(words: Words, bits: int) -> Points:
    mixed = words * _ODD
    mixed >>= np.uint64(64 - bits)
    return np.asarray(mixed.view(np.int64))
