"""Calendar queue: rows by the interval in which they expire (Golab's dissertation, section 3.5.2).

    rows(τ) = {r : r.by > τ}

An interval is dropped whole once the plan has ticked past its end, so a row outlives its expiry by less than the width
of an interval. Rows are not cut into intervals when they come, since the few of a tick would become as many pieces as
there are intervals. They wait together until the plan ticks past the end of an interval: then those that have expired
are dropped, and the others are cut if they are many.
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

FEW = 4096
"""Up to so many rows are looked through at once, rather than cut into intervals."""

Fold = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Calendar:
    """An immutable calendar; `by` is the column with the point of expiry.

    `recent` are the rows that are not cut into `intervals` yet; `reached` is the interval in which the plan was when
    the others were. Blocks of each are merged two by two like the digits of a binary counter, so there are few. `fold`
    may shrink a merged block: it gives fewer rows that mean the same, or none; rows that it merges have equal `by`.
    `departures`: what has left it, where that decides whether a calendar suits its rows (`choosing.py`).
    """

    by: str
    width: int
    fold: Fold | None = field(default=None, compare=False)
    intervals: Mapping[int, tuple[pa.Table, ...]] = field(default_factory=dict)
    recent: tuple[pa.Table, ...] = ()
    reached: int | None = None
    departures: Departures | None = field(default=None, compare=False)

    layout = Layout.CALENDAR

    def appended(self, rows: pa.Table) -> Calendar:
        """With more rows."""
        return replace(self, recent=self._merged(self.recent, rows)) if rows.num_rows else self

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
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), found.size], strict=True):
            yield int(found[start]), rows.slice(start, end - start)

    def _merged(self, blocks: tuple[pa.Table, ...], block: pa.Table) -> tuple[pa.Table, ...]:
        while blocks and 2 * block.num_rows >= blocks[-1].num_rows:
            block = pa.concat_tables([blocks[-1], block]).combine_chunks()
            block = block if self.fold is None else self.fold(block)
            blocks = blocks[:-1]
        return (*blocks, block) if block.num_rows else blocks

    def settled(self, ticked: int) -> Calendar:
        """Without the intervals in which everything has expired, as of the last time that the plan reached another."""
        reached = (ticked + 1) // self.width
        if reached == self.reached:
            return self
        kept = {interval: blocks for interval, blocks in self.intervals.items() if self._end(interval) > ticked}
        recent = tuple(block for block in (self._above(block, ticked) for block in self.recent) if block.num_rows)
        if sum(block.num_rows for block in recent) > FEW:
            kept, recent = self._all_cut(kept, recent), ()
        return replace(self, intervals=kept, recent=recent, reached=reached)

    def _above(self, block: pa.Table, ticked: int) -> pa.Table:
        return taken(block, longs(block.column(self.by)) > ticked)

    def _all_cut(
        self, intervals: Mapping[int, tuple[pa.Table, ...]], recent: tuple[pa.Table, ...]
    ) -> dict[int, tuple[pa.Table, ...]]:
        """All rows by interval."""
        found = dict(intervals)
        for interval, some in self._cut(pa.concat_tables(recent).combine_chunks()) if recent else ():
            # A copy: a slice would hold the memory of the rows beside it until it is dropped itself.
            own = taken(some, np.arange(some.num_rows))
            found[interval] = self._merged(found.get(interval, ()), own)
        return {interval: blocks for interval, blocks in found.items() if blocks}

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
                yield block, None if whole else self._within(block, above, upto)
        for block in self.recent:
            yield block, self._within(block, above, upto)

    def _within(self, block: pa.Table, above: int, upto: int) -> Mask:
        points = longs(block.column(self.by))
        return points > above if upto == NEVER else (points > above) & (points <= upto)

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
        for blocks in self._all_cut(self.intervals, self.recent).values():
            every = pa.concat_tables(blocks)
            needed = taken(every, longs(every.column(self.by)) > ticked).combine_chunks()
            out += self.cut(path, needed if self.fold is None else self.fold(needed))
        return out

    @property
    def count(self) -> int:
        return sum(block.num_rows for block in self._blocks())

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks())

    def _blocks(self) -> Iterator[pa.Table]:
        yield from self.recent
        for blocks in self.intervals.values():
            yield from blocks
