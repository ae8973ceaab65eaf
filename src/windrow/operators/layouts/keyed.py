"""Rows by key, replaced in place: the newest row of a key stands, and keys that are gone have none.

    rows(τ) = {the last row of k that was put : k was put, and not removed since}

Kept in levels, small ones over large ones, like the runs of a log-structured merge tree: a batch writes a small level
and marks the rows of other levels that it replaces, so it does not copy what it does not touch. Where a batch replaces
much of a level and keys are all that is not a number, its numbers are copied and overwritten instead: no row moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.parts import Departures, Layout, StatePart
from windrow.operators.tables.rows import flat, hashed, longs, same_at, taken
from windrow.operators.ticks import NEVER, Points
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.buckets import BUCKETS, Words

GONE, WORD = "__gone", "__word"
"""In durable parts: whether the row says that its key is gone. In sorted rows: the word of its key."""

_BUCKET_BITS, _OTHER_BITS = np.uint64(BUCKETS.bit_length() - 1), np.uint64(65 - BUCKETS.bit_length())


FEW = 4096
"""Levels of so few rows are merged at once: that is faster than to look into each."""

OVERWRITTEN = 64
"""Numbers of a level are overwritten if at least one row in so many is."""


@dataclass(frozen=True)
class KeyLevel:
    """Rows sorted by the words of their keys; `live` are those that no newer level replaces."""

    words: Words
    rows: pa.Table
    live: Mask
    ordered: dict[str, tuple[Points, Points]] = field(default_factory=dict, compare=False, repr=False)
    """By column, what `by_number` has found; levels with the same rows share it."""
    least: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """By column, its least number; shared in the same way."""

    @cached_property
    def count(self) -> int:
        return int(np.count_nonzero(self.live))

    @cached_property
    def _has_twins(self) -> bool:
        """Whether two rows have one word."""
        return bool((self.words[1:] == self.words[:-1]).any())

    def with_words(self, asked: Words) -> tuple[Points, Points]:
        """Which of the words are there, and the rows that have them; one may have several."""
        first = np.searchsorted(self.words, asked)
        if not self._has_twins:
            at = np.minimum(first, self.words.size - 1)
            hit = np.flatnonzero(self.words[at] == asked)
            return hit, at[hit]
        count = np.searchsorted(self.words, asked, "right") - first
        of = np.repeat(np.arange(asked.size), count)
        return of, np.arange(of.size) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)

    def by_number(self, name: str) -> tuple[Points, Points]:
        """The values of an int64 column in ascending order, and their rows."""
        if name not in self.ordered:
            numbers = longs(self.rows.column(name))
            order = np.argsort(numbers, kind="stable")
            self.ordered[name] = (numbers[order], order)
        return self.ordered[name]

    def below(self, name: str, number: int) -> Points:
        """The rows that stand and whose int64 column is less than this."""
        if name not in self.least:
            self.least[name] = int(longs(self.rows.column(name)).min(initial=NEVER))
        if self.least[name] >= number:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.live & (longs(self.rows.column(name)) < number))

    def without(self, at: Points) -> KeyLevel:
        if not at.size:
            return self
        live = self.live.copy()
        live[at] = False
        return replace(self, live=live)

    def overwritten(self, at: Points, rows: pa.Table, keys: Sequence[str]) -> KeyLevel:
        """With the numbers of other rows, which have the keys of the rows at these places."""
        columns = []
        for name in self.rows.column_names:
            column = flat(self.rows.column(name))
            if name not in keys:
                numbers = column.to_numpy(zero_copy_only=False).copy()
                numbers[at] = flat(rows.column(name)).to_numpy(zero_copy_only=False)
                column = pa.array(numbers, column.type)
            columns.append(column)
        return KeyLevel(self.words, pa.Table.from_arrays(columns, schema=self.rows.schema), self.live)


@dataclass(frozen=True)
class Keyed:
    """An immutable table with at most one row per key; `keys` are its key columns (none: there is at most one row).
    `departures`: what has left it, where that decides whether such a table suits its rows (`choosing.py`)."""

    keys: tuple[str, ...]
    levels: tuple[KeyLevel, ...] = ()
    departures: Departures | None = field(default=None, compare=False)

    layout = Layout.KEYED

    def find(self, columns: Sequence[pa.Array], rows: int, words: Words | None = None) -> Points:
        """The index of the row with the same key, for each of these keys; −1 if there is none. `words`: those of the
        keys (`words_of`), if they are known."""
        out = np.full(rows, -1, np.int64)
        if not self.levels or not rows:
            return out
        words = words_of(columns, rows) if words is None else words
        order = np.argsort(words)  # neighbours are looked up one after another: the level passes the cache once
        words = words[order]
        for start, level in self._starts():
            hit, met = level.with_words(words)
            asked = order[hit]
            alive = level.live[met]
            asked, met = asked[alive], met[alive]
            equal = same_at(columns, asked, [level.rows.column(key) for key in self.keys], met)
            out[asked[equal]] = start + met[equal]
        return out

    def find_numbers(self, name: str, numbers: Points) -> Points:
        """The index of the row whose column has this number, which is unique; −1 if there is none."""
        out = np.full(numbers.size, -1, np.int64)
        for start, level in self._starts():
            known, order = level.by_number(name)
            at = np.searchsorted(known, numbers)
            hit = np.flatnonzero((at < known.size) & (known[np.minimum(at, known.size - 1)] == numbers))
            met = order[at[hit]]
            alive = level.live[met]
            out[hit[alive]] = start + met[alive]
        return out

    def where(self, name: str, below: int) -> Points:
        """The indices of rows whose column is less than this."""
        found = [start + level.below(name, below) for start, level in self._starts()]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def numbers(self, name: str, at: Points) -> Points:
        """The numbers of an int64 column in the rows at these indices."""
        out = np.empty(at.size, np.int64)
        for start, level in self._starts():
            mine = (at >= start) & (at < start + level.words.size)
            out[mine] = longs(level.rows.column(name))[at[mine] - start]
        return out

    def take(self, at: Points, schema: pa.Schema) -> pa.Table:
        """The rows at these indices."""
        if not self.levels or not at.size:
            return schema.empty_table()
        found, places = [], []
        for start, level in self._starts():
            mine = np.flatnonzero((at >= start) & (at < start + level.words.size))
            if mine.size:
                found.append(taken(level.rows, at[mine] - start))
                places.append(mine)
        if len(found) == 1:
            return found[0]
        return taken(pa.concat_tables(found), np.argsort(np.concatenate(places)))

    def put(self, rows: pa.Table, replaced: Points) -> Keyed:
        """With these rows, whose keys are different, instead of those at the indices `replaced` (−1: none)."""
        kept = self._without(replaced)
        if rows.num_rows:
            kept = (*kept, self._level(rows))
        return replace(self, levels=_balanced(kept))

    def updated(self, rows: pa.Table, at: Points, gone: Points) -> Keyed:
        """With these rows, whose keys are different: row i instead of the one at the index at[i], which has its key
        (−1: none has it). Without those at the indices `gone`."""
        if not (self.levels and _are_numbers(rows, self.keys)):
            return self.put(rows, np.concatenate([at, gone]))
        moved, kept = np.ones(rows.num_rows, bool), list[KeyLevel]()
        for start, level in self._starts():
            mine = np.flatnonzero((at >= start) & (at < start + level.words.size))
            places = at[mine] - start
            if OVERWRITTEN * mine.size >= level.words.size and _are_numbers(level.rows, self.keys):
                level = level.overwritten(places, taken(rows, mine), self.keys)
                moved[mine] = False
            else:
                level = level.without(places)
            kept.append(level.without(gone[(gone >= start) & (gone < start + level.words.size)] - start))
        if moved.any():
            kept.append(self._level(taken(rows, moved)))
        return replace(self, levels=_balanced(tuple(kept)))

    def appended(self, rows: pa.Table) -> Keyed:
        """With the rows of a durable part."""
        found = self.find([rows.column(key) for key in self.keys], rows.num_rows)
        gone = np.asarray(flat(rows.column(GONE)))
        return self.put(taken(rows.drop_columns([GONE]), ~gone), found)

    def _without(self, at: Points) -> tuple[KeyLevel, ...]:
        at = at[at >= 0]
        return tuple(
            level.without(at[(at >= start) & (at < start + level.words.size)] - start)
            for start, level in self._starts()
        )

    def _level(self, rows: pa.Table) -> KeyLevel:
        words = words_of([rows.column(key) for key in self.keys], rows.num_rows)
        order = np.argsort(words, kind="stable")
        return KeyLevel(words[order], taken(rows, order).combine_chunks(), np.ones(order.size, bool))

    def _starts(self) -> Iterator[tuple[int, KeyLevel]]:
        start = 0
        for level in self.levels:
            yield start, level
            start += level.words.size

    def rows(self, schema: pa.Schema) -> pa.Table:
        """All rows, in no particular order."""
        found = [taken(level.rows, level.live) for level in self.levels]
        return pa.concat_tables(found) if found else schema.empty_table()

    def flagged(self, name: str, schema: pa.Schema) -> pa.Table:
        """All rows and those that were replaced, without a copy; the column `name` says which stand."""
        found = [level.rows.append_column(name, pa.array(level.live)) for level in self.levels]
        return pa.concat_tables(found) if found else schema.append(pa.field(name, pa.bool_())).empty_table()

    # -- in the order of buckets ---------------------------------------------------------------

    def in_order(self, schema: pa.Schema) -> pa.Table:
        """All rows in the order of WORD, which comes with them: a file of them is what `over` takes."""
        if not self.levels:
            return schema.append(pa.field(WORD, pa.uint64())).empty_table()
        first = self.levels[0]
        one = first if len(self.levels) == 1 and first.live.all() else _joined(list(self.levels))
        return one.rows.append_column(WORD, pa.array(one.words))

    @classmethod
    def over(cls, keys: tuple[str, ...], rows: pa.Table) -> Keyed:
        """A table over rows that `in_order` gave. They are not copied, so those of a mapped file stay in it."""
        words = np.asarray(flat(rows.column(WORD)).to_numpy(zero_copy_only=False), np.uint64)
        level = KeyLevel(words, rows.drop_columns([WORD]), np.ones(words.size, bool))
        return cls(keys, (level,) if words.size else ())

    def within(self, buckets: tuple[int, int]) -> Keyed:
        """The rows whose keys are in a range of buckets, without a copy."""
        found = []
        for level in self.levels:
            first, last = (_first_of(level.words, bucket) for bucket in buckets)
            if last > first:
                rows = level.rows.slice(first, last - first)
                found.append(KeyLevel(level.words[first:last], rows, level.live[first:last]))
        return replace(self, levels=tuple(found))

    @property
    def row_bytes(self) -> int:
        """The bytes of the rows that stand, about."""
        return sum(level.rows.nbytes * level.count // level.words.size for level in self.levels)

    # -- durable parts -------------------------------------------------------------------------

    def settled(self, ticked: int) -> Keyed:
        return self

    def packed(self) -> Keyed:
        """The same table, without the memory of rows that were replaced or removed."""
        if all(level.count == level.words.size for level in self.levels):
            return self
        return replace(self, levels=tuple(_packed(level) for level in self.levels if level.count))

    def cut(self, path: str, rows: pa.Table, lo: int, hi: int) -> list[StatePart]:
        """Rows, with GONE, as a durable part."""
        return [StatePart(path, self.layout, rows, lo, hi)] if rows.num_rows else []

    def parts(self, path: str, ticked: int) -> list[StatePart]:
        if not self.count:
            return []
        rows = self.rows(self.levels[0].rows.schema).combine_chunks()
        gone = pa.array(np.zeros(rows.num_rows, bool))
        return self.cut(path, rows.append_column(GONE, gone), ticked, ticked)

    @property
    def count(self) -> int:
        return sum(level.count for level in self.levels)

    @property
    def nbytes(self) -> int:
        return sum(level.rows.nbytes + level.words.nbytes + level.live.nbytes for level in self.levels)


def words_of(columns: Sequence[pa.Array], rows: int) -> Words:
    """The hash of each row's key, with its bucket in front: rows in the order of words are in that of buckets."""
    found = hashed(columns, rows)
    return np.asarray((found >> _BUCKET_BITS) | (found << _OTHER_BITS))


def _first_of(words: Words, bucket: int) -> int:
    """The first of sorted words that is in a bucket or a later one."""
    return words.size if bucket >= BUCKETS else int(np.searchsorted(words, np.uint64(bucket) << _OTHER_BITS))


def _balanced(levels: tuple[KeyLevel, ...]) -> tuple[KeyLevel, ...]:
    """Levels of which each is less than half of the one before, and without many rows that are replaced."""
    out: list[KeyLevel] = []
    for level in levels:
        if not level.count:
            continue
        if 2 * level.count < level.words.size:
            level = _joined([level])
        out.append(level)
    while len(out) > 1 and (2 * out[-1].words.size >= out[-2].words.size or out[-2].words.size <= FEW):
        out[-2:] = [_joined(out[-2:])]
    return tuple(out)


def _joined(levels: list[KeyLevel]) -> KeyLevel:
    words = np.concatenate([level.words[level.live] for level in levels])
    rows = pa.concat_tables([taken(level.rows, level.live) for level in levels])
    order = np.argsort(words, kind="stable")
    return KeyLevel(words[order], taken(rows, order).combine_chunks(), np.ones(order.size, bool))


def _packed(level: KeyLevel) -> KeyLevel:
    """The rows of a level that stand."""
    if level.count == level.words.size:
        return level
    words, rows = level.words[level.live], taken(level.rows, level.live).combine_chunks()
    return KeyLevel(words, rows, np.ones(words.size, bool))


def _are_numbers(rows: pa.Table, keys: Sequence[str]) -> bool:
    """Whether all columns beside the keys are numbers without NULL."""
    others = (rows.column(name) for name in rows.column_names if name not in keys)
    return all(_is_number(one.type) and not one.null_count for one in others)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def gone_rows(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """The durable rows of a batch: what was put, and the rows of keys that were removed."""
    flags = np.concatenate([np.zeros(rows.num_rows, bool), np.ones(gone.num_rows, bool)])
    return pa.concat_tables([rows, gone.select(rows.column_names)]).append_column(GONE, pa.array(flags))
