"""Rows by key, replaced in place: the newest row of a key stands, and keys that are gone have none.

    rows(τ) = {the last row of k that was put : k was put, and not removed since}

Kept in levels, small ones over large ones, like the runs of a log-structured merge tree: a batch writes a small level
and marks the rows of other levels that it replaces, so it does not copy what it does not touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.parts import Departures, Layout, StatePart
from windrow.operators.tables.rows import flat, hashed, longs, same, taken
from windrow.operators.ticks import Points
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.buckets import Words

GONE = "__gone"
"""In durable parts: whether the row says that its key is gone."""


@dataclass(frozen=True)
class KeyLevel:
    """Rows sorted by the hash of their keys; `live` are those that no newer level replaces."""

    hashes: Words
    rows: pa.Table
    live: Mask

    @cached_property
    def count(self) -> int:
        return int(self.live.sum())

    def by_number(self, name: str) -> tuple[Points, Points]:
        """The values of an int64 column in ascending order, and their rows."""
        known = self.__dict__.setdefault("_by_number", {})
        if name not in known:
            numbers = longs(self.rows.column(name))
            order = np.argsort(numbers, kind="stable")
            known[name] = (numbers[order], order)
        found: tuple[Points, Points] = known[name]
        return found

    def without(self, at: Points) -> KeyLevel:
        if not at.size:
            return self
        live = self.live.copy()
        live[at] = False
        return replace(self, live=live)


@dataclass(frozen=True)
class Keyed:
    """An immutable table with at most one row per key; `keys` are its key columns (none: there is at most one row).
    `departures`: what has left it, where that decides whether such a table suits its rows (`choosing.py`)."""

    keys: tuple[str, ...]
    levels: tuple[KeyLevel, ...] = ()
    departures: Departures | None = field(default=None, compare=False)

    layout = Layout.KEYED

    def find(self, columns: Sequence[pa.Array], rows: int) -> Points:
        """The index of the row with the same key, for each of these keys; −1 if there is none."""
        out = np.full(rows, -1, np.int64)
        if not self.levels or not rows:
            return out
        hashes = hashed(columns, rows)
        for start, level in self._starts():
            first = np.searchsorted(level.hashes, hashes, "left")
            count = np.searchsorted(level.hashes, hashes, "right") - first
            asked = np.repeat(np.arange(rows), count)
            met = np.arange(asked.size) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
            alive = level.live[met]
            asked, met = asked[alive], met[alive]
            theirs = [flat(level.rows.column(key)).take(pa.array(met)) for key in self.keys]
            equal = same([flat(c).take(pa.array(asked)) for c in columns], theirs, asked.size)
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
        found = [
            start + np.flatnonzero(level.live & (longs(level.rows.column(name)) < below))
            for start, level in self._starts()
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def sum_where(self, summed: str, name: str, below: int) -> int:
        """The sum of an int64 column over the rows whose other column is less than this."""
        sums = (
            longs(level.rows.column(summed))[level.live & (longs(level.rows.column(name)) < below)].sum()
            for level in self.levels
        )
        return int(sum(sums))

    def take(self, at: Points, schema: pa.Schema) -> pa.Table:
        """The rows at these indices."""
        if not self.levels or not at.size:
            return schema.empty_table()
        found, places = [], []
        for start, level in self._starts():
            mine = np.flatnonzero((at >= start) & (at < start + level.hashes.size))
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

    def appended(self, rows: pa.Table) -> Keyed:
        """With the rows of a durable part."""
        found = self.find([rows.column(key) for key in self.keys], rows.num_rows)
        gone = np.asarray(flat(rows.column(GONE)))
        return self.put(taken(rows.drop_columns([GONE]), ~gone), found)

    def _without(self, at: Points) -> tuple[KeyLevel, ...]:
        at = at[at >= 0]
        return tuple(
            level.without(at[(at >= start) & (at < start + level.hashes.size)] - start)
            for start, level in self._starts()
        )

    def _level(self, rows: pa.Table) -> KeyLevel:
        hashes = hashed([rows.column(key) for key in self.keys], rows.num_rows)
        order = np.argsort(hashes, kind="stable")
        return KeyLevel(hashes[order], taken(rows, order).combine_chunks(), np.ones(order.size, bool))

    def _starts(self) -> Iterator[tuple[int, KeyLevel]]:
        start = 0
        for level in self.levels:
            yield start, level
            start += level.hashes.size

    def rows(self, schema: pa.Schema) -> pa.Table:
        """All rows, in no particular order."""
        found = [taken(level.rows, level.live) for level in self.levels]
        return pa.concat_tables(found) if found else schema.empty_table()

    def flagged(self, name: str, schema: pa.Schema) -> pa.Table:
        """All rows and those that were replaced, without a copy; the column `name` says which stand."""
        found = [level.rows.append_column(name, pa.array(level.live)) for level in self.levels]
        return pa.concat_tables(found) if found else schema.append(pa.field(name, pa.bool_())).empty_table()

    def settled(self, ticked: int) -> Keyed:
        return self

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
        return sum(level.rows.nbytes + level.hashes.nbytes + level.live.nbytes for level in self.levels)


def _balanced(levels: tuple[KeyLevel, ...]) -> tuple[KeyLevel, ...]:
    """Levels of which each is less than half of the one before, and without many rows that are replaced."""
    out: list[KeyLevel] = []
    for level in levels:
        if not level.count:
            continue
        if 2 * level.count < level.hashes.size:
            level = _joined([level])
        out.append(level)
    while len(out) > 1 and 2 * out[-1].hashes.size >= out[-2].hashes.size:
        out[-2:] = [_joined(out[-2:])]
    return tuple(out)


def _joined(levels: list[KeyLevel]) -> KeyLevel:
    hashes = np.concatenate([level.hashes[level.live] for level in levels])
    rows = pa.concat_tables([taken(level.rows, level.live) for level in levels])
    order = np.argsort(hashes, kind="stable")
    return KeyLevel(hashes[order], taken(rows, order).combine_chunks(), np.ones(order.size, bool))


def gone_rows(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """The durable rows of a batch: what was put, and the rows of keys that were removed."""
    flags = np.concatenate([np.zeros(rows.num_rows, bool), np.ones(gone.num_rows, bool)])
    return pa.concat_tables([rows, gone.select(rows.column_names)]).append_column(GONE, pa.array(flags))
