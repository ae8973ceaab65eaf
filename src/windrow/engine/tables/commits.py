"""The commits of tables. Each statement is one SQLite transaction; the blocks of its change are written before it.

A table is a base, which has all rows as of a change, and the changes since. The base of a table with more bytes than
`broadcast_table_bytes` is bucketed: its rows are in the order of the buckets of their keys. Readers map the file and
find rows in it; none holds all of it. It is written anew when the changes since have a share of its rows. Changes that
plans have not seen are kept beside a newer base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from sqlite3 import Row

import numpy as np
import pyarrow as pa

from windrow.catalog.relations import TableDef
from windrow.catalog.store import Catalog
from windrow.cql.printer import to_text
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockStore
from windrow.engine.tables.stored import LoggedChange, StoredTable, TableBase, TableFeed, TableVersion
from windrow.operators.layouts.keyed import Keyed
from windrow.types import POINT_MIN

BASE, BUCKETED, GONE_KEYS, CHANGE = "base", "bucketed", "gone", "change"

FEW_CHANGES, MOST_CHANGES = 20, 1_000
"""So many changes are folded into the base when they have a share of its rows; so many in any case."""
SHARE = 4


@dataclass(frozen=True)
class _Folded:
    """The blocks of a new base, which has all changes, and the last of the changes that are dropped with it."""

    is_bucketed: bool
    blocks: tuple[tuple[str, pa.Table], ...]
    dropped: int
    known_from: int
    """The first point of which the version is known then."""


class TableCommits:
    """Reads and writes the tables `relations`, `relation_parts` and `plan_relations` of the catalog.
    `broadcast_bytes`: a table with more is bucketed."""

    def __init__(self, catalog: Catalog, blocks: BlockStore, broadcast_bytes: Callable[[], int]):
        self._catalog = catalog
        self._blocks = blocks
        self._broadcast_bytes = broadcast_bytes

    # -- coming and going ----------------------------------------------------------------------

    def add(
        self,
        definition: TableDef,
        along: Callable[[int], None] = lambda number: None,
        feed: TableFeed | None = None,
        applied: int = POINT_MIN,
    ) -> StoredTable:
        """Save a new table; `along` is executed in the same transaction, with its number."""
        number = int(self._catalog.value("SELECT value FROM counters WHERE name = 'relation'") or 0) + 1
        with self._catalog.transaction() as tx:
            tx.execute(
                "INSERT INTO counters VALUES ('relation', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (number,),
            )
            tx.execute(
                "INSERT INTO relations (name, id, statement, feed, applied) VALUES (?, ?, ?, ?, ?)",
                (
                    *(definition.name, number, to_text(definition.statement)),
                    *(None if feed is None else feed.saved(), None if applied == POINT_MIN else applied),
                ),
            )
            along(number)
        return StoredTable(number, definition, TableVersion.first(definition), feed=feed, applied=applied)

    def drop(self, table: StoredTable, along: Callable[[], None] = lambda: None) -> None:
        """Drop a table and its blocks; `along` is executed in the same transaction."""
        with self._catalog.transaction() as tx:
            self._release("relation = ?", (table.id,))
            tx.execute("DELETE FROM relations WHERE id = ?", (table.id,))
            along()

    # -- changes -------------------------------------------------------------------------------

    def change(
        self,
        table: StoredTable,
        change: pa.Table,
        along: Callable[[], None],
        applied: int = POINT_MIN,
        folds: bool = True,
    ) -> None:
        """Commit a change and install it; `along` is executed in the same transaction. `applied`: of a table that a
        stream feeds, the point up to which it has read. `folds`: no plan reads the table, so its base may be written
        anew."""
        owner, after = f"tables/{table.id}", table.version.after(change, table.definition)
        folded = self._folded(table, after, change.num_rows) if folds else None
        is_kept = folded is None or folded.dropped < after.seq
        ref = self._blocks.write(owner, change) if is_kept else None
        blocks = () if folded is None else folded.blocks
        written = [(kind, self._blocks.write(owner, rows)) for kind, rows in blocks]
        crash_point("table-blocks-written")
        with self._catalog.transaction() as tx:
            point = None if applied == POINT_MIN else applied
            tx.execute("UPDATE relations SET seq = ?, applied = ? WHERE id = ?", (after.seq, point, table.id))
            if folded is not None:
                self._release(f"relation = ? AND (kind <> '{CHANGE}' OR seq <= ?)", (table.id, folded.dropped))
                known = None if folded.known_from == POINT_MIN else folded.known_from
                for kind, base in written:
                    self._insert(table, kind, after.seq, self._blocks.add(base, lo=known))
            if ref is not None:
                self._insert(table, CHANGE, after.seq, self._blocks.add(ref))
            along()
        crash_point("table-committed")
        if folded is not None:
            path, is_bucketed = written[0][1].path, folded.is_bucketed
            table.base = TableBase(after.seq, path, after.rows.count, is_bucketed, folded.known_from)
            table.changes = tuple(one for one in table.changes if one.seq > folded.dropped)
            after = replace(after, rows=self._bucketed(table.definition, path)) if is_bucketed else after
        if ref is not None:
            table.changes = (*table.changes, LoggedChange(after.seq, ref.path, self._blocks.read(ref.path)))
        table.version, table.applied = after, applied

    def advance(self, table: StoredTable, applied: int, along: Callable[[], None]) -> None:
        """Commit that a table has read its stream up to a point, without a change; `along` is executed in the same
        transaction."""
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE relations SET applied = ? WHERE id = ?", (applied, table.id))
            along()
        table.applied = applied

    def _insert(self, table: StoredTable, kind: str, seq: int, block: int) -> None:
        self._catalog.execute(
            "INSERT INTO relation_parts (relation, kind, seq, block) VALUES (?, ?, ?, ?)", (table.id, kind, seq, block)
        )

    def _release(self, condition: str, values: tuple[int, ...]) -> None:
        for row in self._catalog.rows(f"SELECT id, block FROM relation_parts WHERE {condition}", values):
            self._catalog.execute("DELETE FROM relation_parts WHERE id = ?", (row["id"],))
            self._blocks.release(row["block"])

    def _folded(self, table: StoredTable, after: TableVersion, rows: int) -> _Folded | None:
        """The base as of a change of so many rows, if it is due: there are many changes that all plans have seen; or
        the table is large, and its base is not bucketed, or the changes since have a share of its rows."""
        seen, base, definition = self._seen(table, after), table.base, table.definition
        passed = [change.rows.num_rows for change in table.changes if change.seq <= seen]
        is_long = len(passed) >= MOST_CHANGES or (len(passed) >= FEW_CHANGES and SHARE * sum(passed) >= base.count)
        is_large = after.rows.row_bytes > self._broadcast_bytes()
        newer = rows + sum(change.rows.num_rows for change in table.changes if change.seq > base.seq)
        is_due = is_large and (not base.is_bucketed or SHARE * newer >= base.count)
        if not (is_long or is_due):
            return None
        schema = definition.schema
        if is_large:
            blocks = [(BUCKETED, after.rows.in_order(schema))]
        else:
            blocks = [(BASE, after.rows.rows(schema).select(schema.names).combine_chunks())]
        if after.gone.count:
            keys = pa.schema([schema.field(name) for name in definition.key])
            blocks.append((GONE_KEYS, after.gone.rows(keys).combine_chunks()))
        # A plan that comes later may read the past of a table that a stream feeds, so that is kept longer.
        dropped = seen if is_long or table.feed is None else 0
        ends = [one.end for one in table.changes if one.seq <= dropped] if table.feed is not None else []
        return _Folded(is_large, tuple(blocks), dropped, max(base.known_from, *ends, POINT_MIN))

    def _bucketed(self, definition: TableDef, path: str) -> Keyed:
        """The rows of a bucketed base, in its file."""
        return Keyed.over(definition.key, self._blocks.read(path))

    def _seen(self, table: StoredTable, after: TableVersion) -> int:
        """The last change that all plans have seen, of those up to a new one."""
        if table.feed is None:
            seen = self._catalog.value(
                "SELECT min(r.seq) FROM plan_relations r JOIN plans p ON p.id = r.plan WHERE r.relation = ?"
                " AND r.seq >= 0 AND p.error IS NULL",
                (table.id,),
            )
            return after.seq if seen is None else min(int(seen), table.version.seq)
        upto = self._catalog.value(
            "SELECT min(r.upto) FROM plan_relations r JOIN plans p ON p.id = r.plan WHERE r.relation = ?"
            " AND p.error IS NULL",
            (table.id,),
        )
        late = [change.seq for change in table.changes if upto is not None and change.end > upto]
        return min(late) - 1 if late else table.version.seq

    # -- reading -------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """The tables, in the order of creation."""
        return self._catalog.rows("SELECT * FROM relations ORDER BY id")

    def restored(self, number: int, definition: TableDef) -> tuple[TableVersion, TableBase, tuple[LoggedChange, ...]]:
        """A table from its blocks: its rows, its base, and its last changes."""
        version, changes, base = TableVersion.first(definition), list[LoggedChange](), TableBase()
        for row in self._catalog.rows(
            "SELECT p.kind, p.seq, b.path, b.lo FROM relation_parts p JOIN blocks b ON b.id = p.block"
            f" WHERE p.relation = ? ORDER BY p.kind = '{CHANGE}', p.seq, p.id",
            (number,),
        ):
            rows, none = self._blocks.read(row["path"]), np.zeros(0, np.int64)
            if row["kind"] == CHANGE:
                changes.append(LoggedChange(row["seq"], row["path"], rows))
                version = version.after(rows, definition) if row["seq"] > base.seq else version
            elif row["kind"] == GONE_KEYS:
                version = replace(version, gone=version.gone.put(rows, none))
            else:
                is_bucketed = row["kind"] == BUCKETED
                known_from = POINT_MIN if row["lo"] is None else row["lo"]
                base = TableBase(row["seq"], row["path"], rows.num_rows, is_bucketed, known_from)
                held = Keyed.over(definition.key, rows) if is_bucketed else version.rows.put(rows, none)
                version = TableVersion(row["seq"], held, version.gone)
        return version, base, tuple(changes)

    # -- plans ---------------------------------------------------------------------------------

    def read_by(self, plan: int, table: StoredTable, effect: int | None = None, tick: int | None = None) -> None:
        """In a transaction: a plan reads the table, of which nothing is in effect yet, or what `effect` says, from a
        tick on: the last change, or of a table that a stream feeds the point up to which changes are. All versions
        above that point are kept for it; if nothing is in effect yet, all that are known."""
        seq, upto = (-1 if effect is None else effect), None
        if table.feed is not None:
            seq, upto = (-1, table.base.known_from) if effect is None else (0, effect)
        self._catalog.execute("INSERT INTO plan_relations VALUES (?, ?, ?, ?, ?)", (plan, table.id, seq, tick, upto))

    def unread_by(self, plan: int) -> None:
        """In a transaction: a plan goes."""
        self._catalog.execute("DELETE FROM plan_relations WHERE plan = ?", (plan,))

    def in_effect(self, plan: int) -> dict[int, int]:
        """By table, the last change that is in effect for a plan, or of one that a stream feeds the point up to which
        changes are; none if the plan has not ticked."""
        rows = self._catalog.rows("SELECT * FROM plan_relations WHERE plan = ? AND seq >= 0", (plan,))
        return {row["relation"]: row["seq"] if row["upto"] is None else row["upto"] for row in rows}
