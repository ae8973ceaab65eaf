"""Calendar queue: rows by the interval in which they expire (Golab's dissertation, section 3.5.2).

    rows(τ) = {r : r.by > τ}

An interval is dropped whole once the plan has ticked past its end, so a row outlives its expiry by less than the width
of an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.parts import Departures, Layout, StatePart
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import NEVER
from windrow.synopses.cells.arrays import Mask, run_starts

Fold = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Calendar:
    """An immutable calendar; `by` is the column with the point of expiry.

    Blocks of an interval are merged two by two like the digits of a binary counter, so there are few. `fold` may shrink
    a merged block: it gives fewer rows that mean the same, or none. `departures`: what has left it, where that decides
    whether a calendar suits its rows (`choosing.py`).
    """

    by: str
    width: int
    fold: Fold | None = field(default=None, compare=False)
    intervals: Mapping[int, tuple[pa.Table, ...]] = field(default_factory=dict)
    departures: Departures | None = field(default=None, compare=False)

    layout = Layout.CALENDAR

    def appended(self, rows: pa.Table) -> Calendar:
        """With more rows."""
        if not rows.num_rows:
            return self
        intervals = dict(self.intervals)
        for interval, some in self._cut(rows):
            intervals[interval] = self._merged(intervals.get(interval, ()), some)
        return replace(self, intervals={interval: blocks for interval, blocks in intervals.items() if blocks})

    def _cut(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows by interval."""
        found = longs(rows.column(self.by)) // self.width
        if (found[1:] < found[:-1]).any():
            order = np.argsort(found, kind="stable")
            rows, found = taken(rows, order), found[order]
        starts = run_starts(found)
        if starts.size == 1:
            yield int(found[0]), rows
            return
        for start, end in zip(starts, [*starts[1:], found.size], strict=True):
            # A copy: a slice would hold the memory of the rows beside it until it is dropped itself.
            yield int(found[start]), taken(rows, np.arange(start, end))

    def _merged(self, blocks: tuple[pa.Table, ...], block: pa.Table) -> tuple[pa.Table, ...]:
        while blocks and 2 * block.num_rows >= blocks[-1].num_rows:
            block = pa.concat_tables([blocks[-1], block]).combine_chunks()
            block = block if self.fold is None else self.fold(block)
            blocks = blocks[:-1]
        return (*blocks, block) if block.num_rows else blocks

    def settled(self, ticked: int) -> Calendar:
        """Without the intervals in which everything has expired."""
        if not any(self._end(interval) <= ticked for interval in self.intervals):
            return self
        kept = {interval: blocks for interval, blocks in self.intervals.items() if self._end(interval) > ticked}
        return replace(self, intervals=kept)

    def _end(self, interval: int) -> int:
        """The last point of an interval."""
        return min((interval + 1) * self.width - 1, NEVER)

    def between(self, above: int, upto: int, schema: pa.Schema) -> pa.Table:
        """The rows that expire at points above < x ≤ upto."""
        found = [block if mask is None else taken(block, mask) for block, mask in self._met(above, upto)]
        return pa.concat_tables(found) if found else schema.empty_table()

    def sum_between(self, name: str, above: int, upto: int) -> int:
        """The sum of an int64 column over these rows."""
        sums = (
            longs(block.column(name))[... if mask is None else mask].sum() for block, mask in self._met(above, upto)
        )
        return int(sum(sums))

    def _met(self, above: int, upto: int) -> Iterator[tuple[pa.Table, Mask | None]]:
        """The blocks with rows that may expire at points above < x ≤ upto, and which of their rows do; None: all."""
        for interval, blocks in self.intervals.items():
            first, last = interval * self.width, self._end(interval)
            if last <= above or first > upto:
                continue
            whole = first > above and last <= upto
            for block in blocks:
                points = longs(block.column(self.by))
                yield block, None if whole else (points > above) & (points <= upto)

    def rows(self, above: int, schema: pa.Schema) -> pa.Table:
        """The rows that expire after a point."""
        return self.between(above, NEVER, schema)

    def cut(self, path: str, rows: pa.Table) -> list[StatePart]:
        """Rows as durable parts, one per interval."""
        if not rows.num_rows:
            return []
        return [
            StatePart(path, self.layout, some, interval * self.width, self._end(interval) + 1)
            for interval, some in self._cut(rows)
        ]

    def parts(self, path: str, ticked: int) -> list[StatePart]:
        """All rows that are still needed, as durable parts."""
        out = []
        for blocks in self.intervals.values():
            every = pa.concat_tables(blocks)
            needed = taken(every, longs(every.column(self.by)) > ticked).combine_chunks()
            out += self.cut(path, needed if self.fold is None else self.fold(needed))
        return out

    @property
    def count(self) -> int:
        return sum(block.num_rows for blocks in self.intervals.values() for block in blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for blocks in self.intervals.values() for block in blocks)
