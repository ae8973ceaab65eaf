"""The bucket of a group's cells: a hash of its key values, the same in every process and every version.

Blocks of the Spark home are split by it, so the hash of a value must never change. Hence it is written in NumPy here
and pinned by a test; a library may change its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.groups import plain_key

Words = npt.NDArray[np.uint64]

BUCKETS = 256
"""The buckets of every window store and every stage of a continuous plan: a task takes a range of them."""

_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1B54A32D192ED03)
_PRIME = 0x100000001B3


def buckets_of(keys: Sequence[pa.Array], nobody: Mask, buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each row by its key values; bucket 0 for nobody."""
    if not keys or buckets == 1:
        return np.zeros(nobody.size, np.int64)
    found = hashes_of(keys, nobody.size)
    return np.where(nobody, 0, (found % np.uint64(buckets)).astype(np.int64))


def hashes_of(keys: Sequence[pa.Array], rows: int) -> Words:
    """The hash of each row's key values, of which `buckets_of` takes the remainder."""
    found = np.zeros(rows, np.uint64)
    for key in keys:
        found = _mixed(found * _STEP + _hashed(key))
    return found


def _mixed(words: Words) -> Words:
    """The finaliser of SplitMix64: every bit of a word affects every bit of the result."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)), dtype=np.uint64)


def _hashed(key: pa.Array) -> Words:
    if isinstance(key, pa.ChunkedArray):
        key = key.combine_chunks()
    if pa.types.is_dictionary(key.type):
        of_values, at = _hashed(key.dictionary), key.indices
        taken = of_values[pc.fill_null(at, 0).to_numpy(zero_copy_only=False)] if of_values.size else np.zeros(len(at))
        return np.where(np.asarray(at.is_null()), _NULL, taken).astype(np.uint64)
    key = plain_key(key, key.type)
    words = _mixed(_words(key))
    return np.where(np.asarray(key.is_null()), _NULL, words) if key.null_count else words


def _words(key: pa.Array) -> Words:
    """A word for each value, arbitrary for nulls."""
    kind = key.type
    if pa.types.is_null(kind):
        return np.zeros(len(key), np.uint64)
    if pa.types.is_int64(kind) and not key.null_count:
        return np.asarray(key.to_numpy()).view(np.uint64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_texts(key)
    if pa.types.is_decimal(kind):
        raw = np.frombuffer(key.buffers()[1], np.uint64)[2 * key.offset : 2 * (key.offset + len(key))].reshape(-1, 2)
        return np.asarray(_mixed(raw[:, 0]) * _STEP + raw[:, 1], dtype=np.uint64)
    if pa.types.is_floating(kind):
        values = pc.fill_null(key.cast(pa.float64()), 0.0)
        return np.asarray(values.to_numpy(zero_copy_only=False)).view(np.uint64)
    if pa.types.is_boolean(kind):
        key = key.cast(pa.int8())
    elif pa.types.is_date32(kind):
        key = key.cast(pa.int32())
    whole = pc.fill_null(key.cast(pa.int64()), 0)
    return np.asarray(whole.to_numpy(zero_copy_only=False)).astype(np.int64).view(np.uint64)


def _of_texts(key: pa.Array) -> Words:
    """length + Σ (byte + 1) · prime^position of each text, for all texts at once."""
    _, offsets, data = key.buffers()
    ends = np.frombuffer(offsets, np.int32)[key.offset : key.offset + len(key) + 1].astype(np.int64)
    lengths = np.diff(ends)
    out = lengths.astype(np.uint64)
    held = np.flatnonzero(lengths)
    if not held.size:
        return out
    raw = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    firsts = ends[:-1] - ends[0]
    powers = np.full(int(lengths.max()), _PRIME, np.uint64)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint64)
    place = np.arange(raw.size) - np.repeat(firsts, lengths)
    out[held] += np.add.reduceat((raw + np.uint64(1)) * powers[place], firsts[held])
    return out
