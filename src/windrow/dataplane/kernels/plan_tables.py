"""Tables in Spark tasks. The rows of a small one are read from its blocks and kept by the worker process until they
change. Those of a large one are in the order of the buckets of their keys: they stay in the mapped file, and a task
touches the rows that it looks up, or those of its range of buckets.
"""

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
class StoredBase:
    """The block of all rows of a table as of its change `seq`. `is_bucketed`: they are in the order of buckets."""

    seq: int
    path: str
    is_bucketed: bool


@dataclass(frozen=True)
class StoredRelation:
    """A table that a plan reads at a path, as of its change `seq`: its base, and the blocks of its last changes, in
    order, which are all since the base and perhaps earlier ones. The changes up to `since` are in effect already; None:
    none is."""

    path: str
    table: int
    key: tuple[str, ...]
    seq: int
    base: StoredBase | None
    changes: tuple[tuple[int, str], ...]
    since: int | None
    fed: pa.Schema | None = None
    """Of a table that a stream feeds: the columns of its changes; `since` is the point below which they are in
    effect."""


class TaskTables:
    """The tables that a worker process has read: of each the newest version that it has met."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, str | None, StoredBase | None, Keyed]] = {}
        """By root and table: the last change that was met, its block, the base, and the rows after it. Another state
        directory may take the place of one that was deleted; its blocks have other names."""

    def whole(self, root: str, stored: StoredRelation) -> TableRows:
        """All rows, and no changes; of a table that a stream feeds, its last changes."""
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
        """The changes that take effect, as far as they are of a range of buckets by these columns of the plan. If these
        are the key of the table, a task reads only its range of a bucketed base."""
        own = {one.column.sql: one.name for one in scan.columns}
        by = tuple(own[name] for name in names)
        mine = buckets if by == stored.key else None
        if stored.fed is not None:
            log = _log(root, stored, stored.fed)
            changes = fed_changes(lambda: self._rows(root, stored, mine), log, stored.since, due)
        elif stored.since is None:
            rows = self._rows(root, stored, mine)
            every = rows.rows(rows.levels[0].rows.schema) if rows.levels else None
            changes = None if every is None else appended(every, **{COUNT: np.ones(every.num_rows, np.int64)})
        else:
            found = [read_block(Path(root, path)) for seq, path in stored.changes if seq > stored.since]
            changes = netted_change(pa.concat_tables(found)) if found else None
        if changes is None:
            return TableRows(pa.table({COUNT: pa.array([], pa.int64())}), Keyed(stored.key))
        if buckets is not None and changes.num_rows:
            changes = taken(changes, is_within(buckets_in(changes, by), buckets))
        return TableRows(changes, Keyed(stored.key))

    def _rows(self, root: str, stored: StoredRelation, buckets: Range | None = None) -> Keyed:
        """The rows as of the table's last change, in a range of buckets by its key (None: all)."""
        base, unknown = stored.base, (-1, None, None, Keyed(stored.key))
        blocks: dict[int, str | None] = {0: None} if base is None else {base.seq: base.path}
        blocks |= dict(stored.changes)
        seq, block, known, rows = self._known.get((root, stored.table), unknown)
        is_other = base is not None and base.is_bucketed and base != known
        if is_other or seq not in blocks or blocks[seq] != block:
            seq, rows = _base_rows(root, stored)
        for number, path in stored.changes:
            if number > seq:
                rows = after_change(rows, read_block(Path(root, path)))
        self._known[root, stored.table] = stored.seq, blocks[stored.seq], base, rows
        return rows if buckets is None else rows.within(buckets)


def _base_rows(root: str, stored: StoredRelation) -> tuple[int, Keyed]:
    """The rows of the base, and the change that they are as of."""
    base, none = stored.base, Keyed(stored.key)
    if base is None:
        return 0, none
    rows = read_block(Path(root, base.path))
    return base.seq, Keyed.over(stored.key, rows) if base.is_bucketed else none.put(rows, np.zeros(0, np.int64))


def _log(root: str, stored: StoredRelation, schema: pa.Schema) -> pa.Table:
    """The last changes."""
    return pa.concat_tables([schema.empty_table(), *(read_block(Path(root, path)) for _, path in stored.changes)])
