"""FIFO: rows in the order of their births, which is that in which they are taken."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import TS


@dataclass(frozen=True)
class RowQueue:
    """Rows that wait for their birth: rows(τ) = {r : r.ts ≥ τ}. A block per append, oldest first."""

    blocks: tuple[pa.Table, ...] = ()

    layout = Layout.FIFO
    departures = None

    def appended(self, rows: pa.Table) -> RowQueue:
        return replace(self, blocks=(*self.blocks, rows)) if rows.num_rows else self

    def born(self, upto: int, schema: pa.Schema) -> pa.Table:
        """The rows that are born below a point."""
        found = [taken(block, longs(block.column(TS)) < upto) for block in self.blocks]
        return pa.concat_tables(found) if found else schema.empty_table()

    def settled(self, ticked: int) -> RowQueue:
        """Without the rows that were born below the tick."""
        kept = [taken(block, longs(block.column(TS)) >= ticked) for block in self.blocks]
        return replace(self, blocks=tuple(block for block in kept if block.num_rows))

    def cut(self, path: str, rows: pa.Table) -> list[StatePart]:
        if not rows.num_rows:
            return []
        born = longs(rows.column(TS))
        return [StatePart(path, self.layout, rows, int(born.min()), int(born.max()) + 1)]

    def parts(self, path: str, ticked: int) -> list[StatePart]:
        return [part for block in self.settled(ticked).blocks for part in self.cut(path, block)]

    @property
    def count(self) -> int:
        return sum(block.num_rows for block in self.blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)
