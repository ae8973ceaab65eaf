"""Tables in Spark tasks: their rows, read from blocks and kept by the worker process until they change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from windrow.dataplane.blocks.store import read_block
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.relations.changelog import after_change, fed_changes, netted_change
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.stages.cutting import Names, buckets_in
from windrow.operators.stages.ranges import Range, is_within
from windrow.operators.tables.edges import COUNT
from windrow.operators.tables.rows import appended, taken
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import TableScan


@dataclass(frozen=True)
class StoredRelation:
    """A table that a plan reads at a path, as of its change `seq`: the block of its base, and those of the changes
    since, in order. The changes up to `since` are in effect already; None: none is."""

    path: str
    table: int
    key: tuple[str, ...]
    seq: int
    base: str | None
    changes: tuple[tuple[int, str], ...]
    since: int | None
    fed: pa.Schema | None = None
    """Of a table that a stream feeds: the columns of its changes; `since` is the point below which they are in
    effect."""


class TaskTables:
    """The tables that a worker process has read: of each the newest version that it has met."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, Keyed]] = {}

    def whole(self, root: str, stored: StoredRelation) -> TableRows:
        """All rows, and no changes; of a table that a stream feeds, all changes since its base."""
        none = pa.table({COUNT: pa.array([], pa.int64())})
        return TableRows(none if stored.fed is None else _log(root, stored, stored.fed), self._rows(root, stored))

    def shared(
        self,
        root: str,
        stored: StoredRelation,
        scan: TableScan,
        names: Names,
        buckets: Range | None,
        due: DueTicks,
    ) -> TableRows:
        """The changes that take effect, as far as they are of a range of buckets by these columns of the plan."""
        if stored.fed is not None:
            changes = fed_changes(lambda: self._rows(root, stored), _log(root, stored, stored.fed), stored.since, due)
        elif stored.since is None:
            rows = self._rows(root, stored)
            every = rows.rows(rows.levels[0].rows.schema) if rows.levels else None
            changes = None if every is None else appended(every, **{COUNT: np.ones(every.num_rows, np.int64)})
        else:
            found = [read_block(Path(root, path)) for seq, path in stored.changes if seq > stored.since]
            changes = netted_change(pa.concat_tables(found)) if found else None
        if changes is None:
            return TableRows(pa.table({COUNT: pa.array([], pa.int64())}), Keyed(stored.key))
        if buckets is not None and changes.num_rows:
            own = {one.column.sql: one.name for one in scan.columns}
            at = buckets_in(changes, tuple(own[name] for name in names))
            changes = taken(changes, is_within(at, buckets))
        return TableRows(changes, Keyed(stored.key))

    def _rows(self, root: str, stored: StoredRelation) -> Keyed:
        seq, rows = self._known.get((root, stored.table), (-1, Keyed(stored.key)))
        first = stored.changes[0][0] - 1 if stored.changes else stored.seq
        if not first <= seq <= stored.seq:
            seq, rows = first, Keyed(stored.key)
            if stored.base is not None:
                rows = rows.put(read_block(Path(root, stored.base)), np.zeros(0, np.int64))
        for number, path in stored.changes:
            if number > seq:
                rows = after_change(rows, read_block(Path(root, path)))
        self._known[root, stored.table] = stored.seq, rows
        return rows


def _log(root: str, stored: StoredRelation, schema: pa.Schema) -> pa.Table:
    """All changes since the base."""
    return pa.concat_tables([schema.empty_table(), *(read_block(Path(root, path)) for _, path in stored.changes)])
