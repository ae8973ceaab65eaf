"""Rows as values: hashing, comparing, numbering and sorting them, whole columns at a time.

Two rows are equal as in GROUP BY: NULL equals NULL, NaN equals NaN, and −0.0 equals 0.0. Arrays and structs are
compared part by part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.tables.permit import permit_of_thread
from windrow.operators.ticks import Points
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.buckets import Words, hashes_of
from windrow.synopses.cells.groups import Groups, plain_key

_ODD = np.uint64(0x9E3779B97F4A7C15)


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def normal(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column with one zero and one NaN."""
    one = flat(column)
    return plain_key(one, one.type) if pa.types.is_floating(one.type) or pa.types.is_dictionary(one.type) else one


def longs(column: pa.Array | pa.ChunkedArray) -> Points:
    """An int64 column without nulls as an array."""
    return np.asarray(flat(column).to_numpy(zero_copy_only=False), np.int64)


def hashed(columns: Sequence[pa.Array], rows: int) -> Words:
    """A hash of each row; equal rows have equal hashes."""
    plain = [pa.array(_nested(flat(c)).view(np.int64)) if pa.types.is_nested(c.type) else flat(c) for c in columns]
    return hashes_of(plain, rows)


def _nested(column: pa.Array) -> Words:
    """The hash of each array or struct."""
    null = np.asarray(column.is_null())
    if pa.types.is_struct(column.type):
        found = hashed(column.flatten(), len(column))
        return np.where(null, np.uint64(1), found)
    offsets = _lengths(column)
    starts = np.cumsum(offsets) - offsets
    parts = column.flatten()
    place = np.arange(len(parts)) - np.repeat(starts, offsets)
    of_parts = hashed([parts, pa.array(place)], len(parts))
    sums = np.zeros(len(column), np.uint64)
    held = np.flatnonzero(offsets)
    if held.size:
        sums[held] = np.add.reduceat(of_parts, starts[held])
    return np.asarray(np.where(null, np.uint64(2), sums * _ODD + offsets.astype(np.uint64)), np.uint64)


def _lengths(column: pa.Array) -> Points:
    return np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), np.int64)


def same(left: Sequence[pa.Array], right: Sequence[pa.Array], rows: int) -> Mask:
    """Whether row i of one equals row i of the other, for every i."""
    out = np.ones(rows, bool)
    for one, other in zip(left, right, strict=True):
        out &= _same(flat(one), flat(other))
    return out


def same_at(left: Sequence[pa.Array], at: Points, right: Sequence[pa.Array], to: Points) -> Mask:
    """Whether row at[i] of one equals row to[i] of the other, for every i."""
    out = np.ones(at.size, bool)
    for one, other in zip(map(flat, left), map(flat, right), strict=True):
        if pa.types.is_integer(one.type) and not (one.null_count or other.null_count):
            out &= one.to_numpy()[at] == other.to_numpy()[to]
        else:
            out &= _same(one.take(pa.array(at)), other.take(pa.array(to)))
    return out


def _same(one: pa.Array, other: pa.Array) -> Mask:
    kind = one.type
    if pa.types.is_integer(kind) and not (one.null_count or other.null_count):
        return np.asarray(one.to_numpy() == other.to_numpy())
    null, none = np.asarray(one.is_null()), np.asarray(other.is_null())
    if pa.types.is_null(kind):
        return np.ones(len(one), bool)
    if pa.types.is_struct(kind):
        inner = same(one.flatten(), other.flatten(), len(one))
        return np.asarray(np.where(null | none, null & none, inner))
    if pa.types.is_list(kind):
        return _same_lists(one, other, null, none)
    if pa.types.is_floating(kind):
        ones, others = (pc.fill_null(normal(c), 0.0).to_numpy(zero_copy_only=False) for c in (one, other))
        equal = (ones == others) | (np.isnan(ones) & np.isnan(others))
    else:
        equal = np.asarray(pc.fill_null(pc.equal(one, other), False))
    if not (one.null_count or other.null_count):
        return np.asarray(equal, bool)
    return np.asarray(np.where(null | none, null & none, equal))


def _same_lists(one: pa.Array, other: pa.Array, null: Mask, none: Mask) -> Mask:
    sizes, others = _lengths(one), _lengths(other)
    out = (null == none) & (sizes == others)
    held = np.flatnonzero(out & (sizes > 0))
    if held.size:
        at = pa.array(held)
        equal = same([one.take(at).flatten()], [other.take(at).flatten()], int(sizes[held].sum()))
        out[held] = np.logical_and.reduceat(equal, np.cumsum(sizes[held]) - sizes[held])
    return np.asarray(out, bool)


def numbered(columns: Sequence[pa.Array], rows: int, words: Words | None = None) -> tuple[Points, Points]:
    """A number for each row, equal for equal rows, from 0 in the order of first rows; and the first row of each.
    `words`: a hash of each row, if there is one already."""
    if not columns:
        return np.zeros(rows, np.int64), np.zeros(min(rows, 1), np.int64)
    plain = [flat(column) for column in columns]
    if len(plain) == 1 and not pa.types.is_nested(plain[0].type):
        encoded = normal(plain[0]).dictionary_encode(null_encoding="encode").indices
    else:
        words = hashed(plain, rows) if words is None else words
        encoded = pa.array(words.view(np.int64)).dictionary_encode().indices
    ids = np.asarray(encoded.to_numpy(zero_copy_only=False), np.int64)
    firsts = first_rows(ids)
    if len(plain) > 1:
        rest = np.flatnonzero(firsts[ids] != np.arange(rows))
        if not same_at(plain, rest, plain, firsts[ids[rest]]).all():
            return _numbered_exactly(plain)
    return ids, firsts


def first_rows(ids: Points) -> Points:
    """The first row of each number, for numbers from 0 in the order of first rows."""
    count = int(ids.max()) + 1 if ids.size else 0
    firsts = np.empty(count, np.int64)
    firsts[ids[::-1]] = np.arange(ids.size - 1, -1, -1)
    return firsts


def _numbered_exactly(columns: Sequence[pa.Array]) -> tuple[Points, Points]:
    """For rows of which two differ and have one hash."""
    parts = [pa.array(_nested(c).view(np.int64)) if pa.types.is_nested(c.type) else c for c in columns]
    ids = Groups([part.type for part in parts]).ids(parts) - 1
    return ids, first_rows(ids)


def order_of(columns: Sequence[pa.Array]) -> Points:
    """The rows in an order that depends on their values alone: column after column, NULL first."""
    codes = [code for column in columns for code in _codes(flat(column))]
    return np.lexsort(codes[::-1]) if codes else np.zeros(0, np.int64)


def _codes(column: pa.Array) -> list[npt.NDArray[np.int64]]:
    """Numbers that order the values of a column; those of arrays and structs order their hashes."""
    kind = column.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_nested(kind):
        return [_nested(column).view(np.int64)]
    if pa.types.is_signed_integer(kind) and not column.null_count:
        return [longs(column.cast(pa.int64()))]
    encoded = normal(column).dictionary_encode()
    ranks = np.empty(len(encoded.dictionary) + 1, np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    ranks[-1] = -1
    at = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return [ranks[at]]


def run_lasts(starts: Points, rows: int) -> Points:
    """The last row of each run, given the first ones."""
    return np.append(starts[1:], rows) - 1 if starts.size else starts


def taken(table: pa.Table, rows: Points | Mask) -> pa.Table:
    """The rows at these indices, or where a mask is true."""
    if rows.dtype == bool:
        return table if rows.all() else table.filter(pa.array(rows))
    permit_of_thread().allow_rows(rows.size, table)
    return table.take(pa.array(rows))


def appended(table: pa.Table, **columns: pa.Array | Points) -> pa.Table:
    """The table with more columns."""
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column) if isinstance(column, np.ndarray) else column)
    return table
