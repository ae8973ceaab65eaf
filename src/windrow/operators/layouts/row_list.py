"""Rows in the order in which they came, scanned for those that have expired: the direct approach to state (Golab's
dissertation, section 2.3.3).

    rows(τ) = {r : r.by > τ}

Nothing says where expired rows are, so all are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.tables.rows import longs, taken
from windrow.types import POINT_MIN


@dataclass(frozen=True)
class RowList:
    """An immutable list; `by` is the column with the point of expiry. It is scanned once per `lazy` points; 0: at every
    tick.

    Blocks are merged two by two like the digits of a binary counter, so there are few.
    """

    by: str
    lazy: int = 0
    blocks: tuple[pa.Table, ...] = ()
    scanned: int = POINT_MIN

    layout = Layout.LIST
    departures = None

    def appended(self, rows: pa.Table) -> RowList:
        """With more rows, behind all others."""
        if not rows.num_rows:
            return self
        blocks = self.blocks
        while blocks and 2 * rows.num_rows >= blocks[-1].num_rows:
            rows, blocks = pa.concat_tables([blocks[-1], rows]).combine_chunks(), blocks[:-1]
        return replace(self, blocks=(*blocks, rows))

    def settled(self, ticked: int) -> RowList:
        """Without the expired rows, if it is time to look for them."""
        if not self.blocks or ticked - self.scanned < self.lazy:
            return self
        kept = tuple(block for block in (self._above(block, ticked) for block in self.blocks) if block.num_rows)
        return replace(self, blocks=kept, scanned=ticked)

    def _above(self, block: pa.Table, above: int) -> pa.Table:
        stays = longs(block.column(self.by)) > above
        return block if stays.all() else taken(block, stays)

    def between(self, above: int, upto: int, schema: pa.Schema) -> pa.Table:
        """The rows that expire at points above < x ≤ upto."""
        found = []
        for block in self.blocks:
            points = longs(block.column(self.by))
            found.append(taken(block, (points > above) & (points <= upto)))
        return pa.concat_tables(found) if found else schema.empty_table()

    def rows(self, above: int, schema: pa.Schema) -> pa.Table:
        """The rows that expire after a point. Where the list is scanned now and then, others may be among them."""
        found = self.blocks if self.lazy else [self._above(block, above) for block in self.blocks]
        return pa.concat_tables(found) if found else schema.empty_table()

    def cut(self, path: str, rows: pa.Table) -> list[StatePart]:
        """Rows as a durable part."""
        if not rows.num_rows:
            return []
        points = longs(rows.column(self.by))
        return [StatePart(path, self.layout, rows, int(points.min()), int(points.max()) + 1)]

    def parts(self, path: str, ticked: int) -> list[StatePart]:
        """All rows that are still needed, as durable parts."""
        return [part for block in self.blocks for part in self.cut(path, self._above(block, ticked))]

    @property
    def count(self) -> int:
        return sum(block.num_rows for block in self.blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)
