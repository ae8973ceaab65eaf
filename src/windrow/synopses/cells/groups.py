"""Groups: key values ↔ dense ids, vectorised for composite keys of any type.

Id 0 is nobody, the pseudo-group of tuples that no query of the synopsis takes. It marks a pane as occupied even if
nothing in it qualifies. `compact` renumbers the ids when most groups have gone, so memory follows the live groups.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ids = npt.NDArray[np.int64]
AnyIds = npt.NDArray[np.int64] | npt.NDArray[np.int32]
NOBODY = 0
T = TypeVar("T")


class Groups:
    """The live groups of a synopsis."""

    def __init__(self, key_types: Sequence[pa.DataType]):
        self._types = list(key_types)
        self._keys = [pa.array([None], t) for t in self._types]
        self._chain = _Chain(len(self._types))
        self.count = 1
        self._memo: dict[Hashable, Any] = {}

    def ids(self, keys: Sequence[pa.Array], nobody: npt.NDArray[np.bool_] | None = None) -> Ids:
        """The id of each row's group, 0 where `nobody` is true. Adds new groups."""
        if nobody is not None and nobody.any():
            found = np.full(len(nobody), NOBODY, np.int64)
            rest = np.flatnonzero(~nobody)
            found[rest] = self.ids([key.take(pa.array(rest)) for key in keys]) if keys else self._only(rest.size)
            return found
        if not keys:
            return self._only(0 if nobody is None else len(nobody))
        plain = [plain_key(key, kind) for key, kind in zip(keys, self._types, strict=True)]
        found = self._chain.ids(plain) + 1
        self._remember(plain, found)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the key values."""
        return sum(key.nbytes for key in self._keys)

    def _only(self, rows: int) -> Ids:
        """The ids of an ungrouped query's tuples: all 1."""
        if rows:
            self.count = 2
        return np.ones(rows, np.int64)

    def _remember(self, keys: Sequence[pa.Array], found: Ids) -> None:
        fresh_at = np.flatnonzero(found >= self.count)
        if fresh_at.size == 0:
            return
        fresh = found[fresh_at] - self.count
        row_of = np.empty(int(fresh.max()) + 1, np.int64)
        row_of[fresh] = fresh_at  # any row of a group will do: all have the same keys
        rows = pa.array(row_of)
        self._keys = [pa.concat_arrays([old, key.take(rows)]) for old, key in zip(self._keys, keys, strict=True)]
        self.count += row_of.size
        self._memo.clear()

    @property
    def keys(self) -> Sequence[pa.Array]:
        """The key values of all groups by id, one column per key."""
        return self._keys

    def worked_out(self, what: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, cached under `what` until a group is added or the ids change."""
        if what not in self._memo:
            self._memo[what] = make()
        found: T = self._memo[what]
        return found

    def key_columns(self, ids: AnyIds, width: int | None = None) -> list[pa.Array]:
        """The first `width` key values of these groups, null for nobody. Strings are dictionary-encoded: it is free."""
        indices = pa.array(ids.astype(np.int32, copy=False))
        out: list[pa.Array] = []
        for key in self._keys[:width]:
            if pa.types.is_string(key.type) or pa.types.is_binary(key.type):
                out.append(pa.DictionaryArray.from_arrays(indices, key, safe=False))
            else:
                out.append(key.take(indices))
        return out

    def compact(self, alive: Ids) -> Ids:
        """Keep only these ids (ascending, with 0); returns the new id of each old one, −1 if dropped."""
        renumber = np.full(self.count, -1, np.int64)
        renumber[alive] = np.arange(alive.size)
        kept = [key.take(pa.array(alive)) for key in self._keys]
        self._keys = [pa.array([None], t) for t in self._types]
        self._chain = _Chain(len(self._types))
        self.count = 1
        self._memo.clear()
        if self._types:
            again = self.ids([key.slice(1) for key in kept])
            assert np.array_equal(again, np.arange(1, alive.size))
        else:
            self.count = alive.size
        return renumber


class _Chain:
    """Ids of composite keys, pair by pair: (k1) → i1, (i1, k2) → i2, … Each step is one hash lookup in Arrow."""

    def __init__(self, width: int):
        self._columns: list[pa.Array | None] = [None] * width
        self._pairs: list[pa.Array | None] = [None] * width

    def ids(self, keys: Sequence[pa.Array]) -> Ids:
        found = self._lookup(self._columns, 0, keys[0])
        for i in range(1, len(keys)):
            mine = self._lookup(self._columns, i, keys[i])
            packed = pa.array((found << np.int64(32)) | mine)
            found = self._lookup(self._pairs, i, packed)
        return found

    @staticmethod
    def _lookup(store: list[pa.Array | None], i: int, values: pa.Array) -> Ids:
        encoded = values.dictionary_encode(null_encoding="encode")
        unique = encoded.dictionary
        known = store[i]
        if known is None:
            store[i] = unique
            return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        at = pc.index_in(unique, known)
        fresh = unique.filter(at.is_null())
        if len(fresh):
            store[i] = known = pa.concat_arrays([known, fresh])
            at = pc.index_in(unique, known)
        codes = at.to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray(codes[encoded.indices.to_numpy(zero_copy_only=False)], dtype=np.int64)


def plain_key(key: pa.Array, kind: pa.DataType) -> pa.Array:
    """The key as one array of type `kind`; floats have one zero and one NaN."""
    if isinstance(key, pa.ChunkedArray):
        key = key.combine_chunks()
    if pa.types.is_dictionary(key.type):
        key = key.dictionary_decode()
    if key.type != kind:
        key = key.cast(kind)
    if pa.types.is_floating(kind):
        zeroed = pc.add(key, pa.scalar(0.0, kind))
        nan = pc.is_nan(zeroed)
        key = pc.if_else(pc.fill_null(nan, False), pa.scalar(float("nan"), kind), zeroed)
    return key
