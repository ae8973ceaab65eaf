"""The commits of tables. Each statement is one SQLite transaction; the block of its change is written before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Row

import numpy as np
import pyarrow as pa

from windrow.catalog.relations import TableDef
from windrow.catalog.store import Catalog
from windrow.cql.printer import to_text
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockStore
from windrow.engine.tables.stored import LoggedChange, StoredTable, TableBase, TableFeed, TableVersion
from windrow.types import POINT_MIN

BASE, GONE_KEYS, CHANGE = "base", "gone", "change"

FEW_CHANGES, MOST_CHANGES = 20, 1_000
"""So many changes are folded into the base when they have a share of its rows; so many in any case."""
SHARE = 4


@dataclass(frozen=True)
class _Folded:
    """The rows of a table as of a change, written anew as its base."""

    version: TableVersion
    blocks: tuple[tuple[str, pa.Table], ...]


class TableCommits:
    """Reads and writes the tables `relations`, `relation_parts` and `plan_relations` of the catalog."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks

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
        after = table.version.after(change, table.definition)
        ref = self._blocks.write(f"tables/{table.id}", change)
        folded = self._folded(table) if folds else None
        written = (
            [(kind, self._blocks.write(f"tables/{table.id}", rows)) for kind, rows in folded.blocks] if folded else []
        )
        crash_point("table-blocks-written")
        with self._catalog.transaction() as tx:
            point = None if applied == POINT_MIN else applied
            tx.execute("UPDATE relations SET seq = ?, applied = ? WHERE id = ?", (after.seq, point, table.id))
            if folded is not None:
                self._release("relation = ? AND seq <= ?", (table.id, folded.version.seq))
                for kind, base in written:
                    self._insert(table, kind, folded.version.seq, self._blocks.add(base))
            self._insert(table, CHANGE, after.seq, self._blocks.add(ref))
            along()
        crash_point("table-committed")
        if folded is not None:
            version = folded.version
            table.base = TableBase(version.seq, written[0][1].path, version.rows.count)
            table.changes = tuple(one for one in table.changes if one.seq > version.seq)
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

    def _folded(self, table: StoredTable) -> _Folded | None:
        """The table as of a change that all plans have seen, if there are many changes up to it."""
        upto = self._seen(table)
        passed = [change.rows for change in table.changes if change.seq <= upto]
        rows = sum(change.num_rows for change in passed)
        if len(passed) < MOST_CHANGES and (len(passed) < FEW_CHANGES or SHARE * rows < table.base.count):
            return None
        version = table.version if upto == table.version.seq else self.restored(table.id, table.definition, upto)[0]
        definition = table.definition
        blocks = [(BASE, version.rows.rows(definition.schema).select(definition.schema.names).combine_chunks())]
        if version.gone.count:
            keys = pa.schema([definition.schema.field(name) for name in definition.key])
            blocks.append((GONE_KEYS, version.gone.rows(keys).combine_chunks()))
        return _Folded(version, tuple(blocks))

    def _seen(self, table: StoredTable) -> int:
        """The last change that all plans have seen."""
        if table.feed is None:
            seen = self._catalog.value(
                "SELECT min(r.seq) FROM plan_relations r JOIN plans p ON p.id = r.plan WHERE r.relation = ?"
                " AND r.seq >= 0 AND p.error IS NULL",
                (table.id,),
            )
            return table.version.seq if seen is None else min(int(seen), table.version.seq)
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

    def restored(
        self, number: int, definition: TableDef, upto: int | None = None
    ) -> tuple[TableVersion, TableBase, tuple[LoggedChange, ...]]:
        """A table from its blocks, as of a change or the last one: its rows, its base, and the changes since."""
        version, changes, base = TableVersion.first(definition), list[LoggedChange](), TableBase()
        for row in self._catalog.rows(
            "SELECT p.kind, p.seq, b.path FROM relation_parts p JOIN blocks b ON b.id = p.block"
            " WHERE p.relation = ? ORDER BY p.seq, p.id",
            (number,),
        ):
            if upto is not None and row["seq"] > upto:
                break
            rows = self._blocks.read(row["path"])
            if row["kind"] == CHANGE:
                version = version.after(rows, definition)
                changes.append(LoggedChange(row["seq"], row["path"], rows))
                continue
            none = np.zeros(0, np.int64)
            if row["kind"] == BASE:
                version = TableVersion(row["seq"], version.rows.put(rows, none), version.gone)
                base = TableBase(row["seq"], row["path"], rows.num_rows)
            else:
                version = TableVersion(row["seq"], version.rows, version.gone.put(rows, none))
        return version, base, tuple(changes)

    # -- plans ---------------------------------------------------------------------------------

    def read_by(self, plan: int, table: StoredTable, effect: int | None = None, tick: int | None = None) -> None:
        """In a transaction: a plan reads the table, of which nothing is in effect yet, or what `effect` says, from a
        tick on: the last change, or of a table that a stream feeds the point up to which changes are."""
        seq, upto = (-1 if effect is None else effect), None
        if table.feed is not None:
            seq, upto = (-1, table.applied) if effect is None else (0, effect)
        self._catalog.execute("INSERT INTO plan_relations VALUES (?, ?, ?, ?, ?)", (plan, table.id, seq, tick, upto))

    def unread_by(self, plan: int) -> None:
        """In a transaction: a plan goes."""
        self._catalog.execute("DELETE FROM plan_relations WHERE plan = ?", (plan,))

    def in_effect(self, plan: int) -> dict[int, int]:
        """By table, the last change that is in effect for a plan, or of one that a stream feeds the point up to which
        changes are; none if the plan has not ticked."""
        rows = self._catalog.rows("SELECT * FROM plan_relations WHERE plan = ? AND seq >= 0", (plan,))
        return {row["relation"]: row["seq"] if row["upto"] is None else row["upto"] for row in rows}
