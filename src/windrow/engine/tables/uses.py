"""The tables that a plan reads: what a batch of ticks sees of them, and which changes took effect with it.

A statement takes effect at the first tick that is not committed. So a batch sees the tables as they are when it begins,
from its first tick on; its commit says up to which change. While a statement changes a table, no plan that reads it
ticks. A table that a stream feeds has a past instead: each of its changes takes effect at its own point, and it may be
ahead of the plans that read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from windrow.engine.tables.stored import StoredTable
from windrow.operators.relations.changelog import FROM, changes_between, fed_changes, rows_as_of
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.scan import table_of
from windrow.operators.stages.cutting import staged
from windrow.operators.state import ROOT
from windrow.operators.tables.edges import COUNT
from windrow.operators.tables.rows import appended
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import ContinuousPlan, Node, NrrJoin, TableScan, Window, walk
from windrow.types import POINT_MIN

Effects = Mapping[int, int]
"""By table, the last change that is in effect; of one that a stream feeds, the point below which changes are."""


@dataclass(frozen=True)
class TableUse:
    """A table that a plan reads at a path. `is_whole`: every task reads all of it, as it is now."""

    path: str
    table: StoredTable
    is_whole: bool

    def rows(self, effects: Effects, due: DueTicks) -> TableRows:
        """What a batch reads of the table, if these changes are in effect already."""
        table, since = self.table, effects.get(self.table.id)
        if table.feed is not None:
            with table.changing:
                return self._fed(since, due)
        if self.is_whole:
            return TableRows(table.since(table.version.seq), table.version.rows)
        if since is None:
            return self._every()
        return TableRows(table.since(since), table.version.rows)

    def _every(self) -> TableRows:
        """All rows, as changes."""
        rows = self.table.unordered
        return TableRows(appended(rows, **{COUNT: np.ones(rows.num_rows, np.int64)}), self.table.version.rows)

    def _fed(self, since: int | None, due: DueTicks) -> TableRows:
        log, rows = self.table.log, self.table.version.rows
        if self.is_whole:
            return TableRows(log, rows)
        return TableRows(fed_changes(lambda: rows, log, since, due), rows)

    def rows_at(self, ticked: int) -> TableRows:
        """All rows after a tick, as changes that take effect at the first due tick."""
        if self.table.feed is None:
            return self._every()
        with self.table.changing:
            log, rows = self.table.log, self.table.version.rows
        if self.is_whole:
            return TableRows(log, rows)
        now = rows.rows(self.table.definition.schema)
        return TableRows(rows_as_of(now, log, ticked).drop_columns([FROM]), rows)

    def effect(self, due: DueTicks) -> int:
        """What is in effect after a batch."""
        return self.effect_at(due.upto)

    def effect_at(self, ticked: int) -> int:
        """What is in effect after a tick, if all changes so far are."""
        return self.table.version.seq if self.table.feed is None else ticked

    def unread_bytes(self, effects: Effects) -> int:
        """The bytes of the rows that a plan will keep and has not read yet."""
        is_read = self.is_whole or self.table.id in effects
        return 0 if is_read else self.table.version.rows.row_bytes

    def is_changed(self, effects: Effects, due: DueTicks) -> bool:
        """Whether a batch sees changes."""
        table, since = self.table, effects.get(self.table.id)
        if since is None or table.feed is None:
            return since != self.effect(due)
        with table.changing:
            return bool(changes_between(table.log, since, due.upto).num_rows)


def table_uses(plan: ContinuousPlan, tables: Mapping[str, StoredTable]) -> tuple[TableUse, ...]:
    """The tables of a plan; `tables` by their names in lower case."""
    scans = staged(plan).scans
    return tuple(
        TableUse(path, tables[scan.table.lower()], scans[path] is None) for path, scan in _scans(plan.root, ROOT)
    )


def known_from(tables: Iterable[StoredTable]) -> int | None:
    """The first tick of a plan at which it is known what is in these tables; None: at all ticks. A version that is NON
    RETROACTIVE is asked for by tuples instead, as `seen_from` says."""
    found = [one.base.known_from for one in tables if one.definition.is_retroactive]
    return max((point for point in found if point > POINT_MIN), default=None)


def seen_from(plan: ContinuousPlan, tables: Iterable[StoredTable]) -> list[int | None]:
    """By window of a plan: the first point of which tuples count (None: all do). Tuples below would meet versions of a
    table that is NON RETROACTIVE of which only later ones are kept."""
    known = {one.name.lower(): one.base.known_from for one in tables}
    found = dict[int, int]()
    for node in walk(plan.root):
        scan = table_of(node.table) if isinstance(node, NrrJoin) else None
        if isinstance(node, NrrJoin) and scan is not None:
            point = known[scan.table.lower()]
            for below in walk(node.input):
                if isinstance(below, Window) and point > POINT_MIN:
                    found[id(below)] = max(point, found.get(id(below), point))
    return [found.get(id(window)) for window in plan.windows]


def _scans(node: Node, path: str) -> Iterator[tuple[str, TableScan]]:
    if isinstance(node, TableScan):
        yield path, node
    for i, one in enumerate(node.inputs):
        yield from _scans(one, f"{path}.{i}")
