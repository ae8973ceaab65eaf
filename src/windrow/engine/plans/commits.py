"""Commits of continuous queries: each tick batch of a plan is one file and one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sqlite3 import Row

import pyarrow as pa

from windrow.catalog.store import Catalog
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.dataplane.kernels.plan_stage import ANSWERS, CHANGES, STATE, VIEW
from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.stages.ranges import WHOLE, Range
from windrow.types import POINT_MAX, POINT_MIN

__all__ = ["ANSWERS", "CHANGES", "STATE", "VIEW", "NewPart", "PlanCommits", "PlanPart", "PlanTick", "WrittenBlock"]


@dataclass(frozen=True)
class PlanPart:
    """A part of a block that a plan has written: its kind, its commit, and for state the operator and its layout.
    `buckets` is the range that its rows are of."""

    kind: str
    seq: int
    path: str
    offset: int
    length: int
    rows: int
    operator: str | None = None
    layout: str | None = None
    lo: int | None = None
    hi: int | None = None
    buckets: Range = WHOLE

    @property
    def ends(self) -> int:
        """When the last row of a part of the view ends."""
        return POINT_MAX if self.hi is None else self.hi


@dataclass(frozen=True)
class WrittenBlock:
    """A block that a task has written, and its parts."""

    ref: BlockRef
    parts: tuple[PlanPart, ...]


@dataclass(frozen=True)
class NewPart:
    """A table to write, and what the catalog says of it."""

    kind: str
    table: pa.Table
    operator: str | None = None
    layout: str | None = None
    lo: int | None = None
    hi: int | None = None


@dataclass(frozen=True)
class PlanTick:
    """A tick batch of a plan up to `ticked`, its `seq`-th commit.

    `parts` are written, `blocks` have been written by tasks. `drops` are the kinds whose earlier parts the new ones
    replace. Parts of state in a calendar, and of the view, whose rows have all left by `ticked` are dropped. Of the
    changes, the newest `keep` rows stay, and all that are newer than the latest view. `deposited`: the changes up to
    this commit are tuples of a derived stream, and are dropped.
    """

    plan: int
    ticked: int
    seq: int
    parts: tuple[NewPart, ...]
    drops: tuple[str, ...] = ()
    keep: int = 0
    covered: int | None = None
    deposited: int | None = None
    blocks: tuple[WrittenBlock, ...] = ()

    @property
    def changes(self) -> int:
        mine: int = sum(part.table.num_rows for part in self.parts if part.kind in (CHANGES, ANSWERS))
        return mine + sum(p.rows for block in self.blocks for p in block.parts if p.kind in (CHANGES, ANSWERS))


class PlanCommits:
    """Reads and writes the tables `plans`, `plan_streams` and `plan_parts`."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks

    # -- plans ---------------------------------------------------------------------------------

    def add(
        self,
        number: int,
        name: str,
        statement: str,
        saved: str,
        streams: Sequence[str],
        along: Callable[[], None],
    ) -> None:
        """Save a new plan; `along` is executed in the same transaction."""
        with self._catalog.transaction() as tx:
            tx.execute(
                "INSERT INTO counters VALUES ('query', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (number,),
            )
            tx.execute(
                "INSERT INTO plans (name, id, statement, saved) VALUES (?, ?, ?, ?)",
                (name, number, statement, saved),
            )
            tx.executemany("INSERT INTO plan_streams VALUES (?, ?)", [(number, stream) for stream in streams])
            along()

    def drop(self, number: int, along: Callable[[], None]) -> None:
        """Drop a plan and its blocks; `along` is executed in the same transaction."""
        with self._catalog.transaction() as tx:
            self._drop_where("plan = ?", (number,))
            for row in tx.rows("SELECT id, block FROM outbox WHERE query = ?", (number,)):
                tx.execute("DELETE FROM outbox WHERE id = ?", (row["id"],))
                if row["block"] is not None:
                    self._blocks.release(row["block"])
            for table, column in (("plan_streams", "plan"), ("plans", "id")):
                tx.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
            along()

    def rows(self) -> list[Row]:
        """The plans, in the order of creation."""
        return self._catalog.rows("SELECT * FROM plans ORDER BY id")

    def row(self, number: int) -> Row | None:
        return self._catalog.row("SELECT * FROM plans WHERE id = ?", (number,))

    def suspend(self, number: int, why: str) -> None:
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE plans SET error = ? WHERE id = ?", (why, number))

    # -- ticks ---------------------------------------------------------------------------------

    def tick(
        self, commit: PlanTick, staged: str | None = None, along: Callable[[], None] = lambda: None
    ) -> tuple[tuple[PlanPart, ...], int | None]:
        """Write and commit a tick batch. `staged` is the entry of the sink's stage. `along` is executed in the
        transaction. Return the parts written, and the number of the outbox entry."""
        written: tuple[BlockRef, list[tuple[int, int]]] | None = None
        if commit.parts:
            written = self._blocks.write_many(f"plans/{commit.plan}", [part.table for part in commit.parts])
        crash_point("plan-blocks-written")
        entry = None
        with self._catalog.transaction() as tx:
            self._drop_replaced(commit)
            blocks = commit.blocks if written is None else (*commit.blocks, _placed(commit, *written))
            parts = tuple(part for block in blocks for part in self._add_parts(commit, block))
            tx.execute(
                "UPDATE plans SET ticked = ?, seq = ?, changes = changes + ?, covered = ? WHERE id = ?",
                (commit.ticked, commit.seq, commit.changes, _saved(commit.covered), commit.plan),
            )
            self._retire_changes(commit)
            if staged is not None:
                cursor = tx.execute(
                    "INSERT INTO outbox (query, seq, entry, block) VALUES (?, ?, ?, NULL)",
                    (commit.plan, commit.seq, staged),
                )
                entry = int(cursor.lastrowid or 0)
            along()
        crash_point("plan-committed")
        return parts, entry

    def write_views(self, plan: int, seq: int, views: Sequence[tuple[int, pa.Table]]) -> tuple[WrittenBlock, ...]:
        """Write parts of a view, each with the end of its last row, as blocks that are dropped one by one."""
        refs = self._blocks.writer.write_each(f"plans/{plan}", [table for _, table in views])
        return tuple(
            WrittenBlock(ref, (PlanPart(VIEW, seq, ref.path, 0, ref.bytes, ref.rows, hi=end),))
            for ref, (end, _) in zip(refs, views, strict=True)
        )

    def _add_parts(self, commit: PlanTick, block: WrittenBlock) -> tuple[PlanPart, ...]:
        number = self._blocks.add(block.ref, refs=len(block.parts))
        for part in block.parts:
            self._catalog.execute(
                "INSERT INTO plan_parts (plan, kind, seq, operator, layout, block, offset, length, rows, lo, hi,"
                " first_bucket, end_bucket) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(commit.plan, part.kind, commit.seq, part.operator, part.layout, number),
                    *(part.offset, part.length, part.rows, _saved(part.lo), _saved(part.hi), *part.buckets),
                ),
            )
        return block.parts

    def _drop_replaced(self, commit: PlanTick) -> None:
        """Drop the parts that this commit replaces, and parts of state and view that are wholly expired."""
        kinds = ", ".join("?" * len(commit.drops))
        self._drop_where(f"plan = ? AND kind IN ({kinds})", (commit.plan, *commit.drops))
        expired = "plan = ? AND kind IN (?, ?) AND coalesce(layout, '') <> 'KEYED' AND hi < ?"
        self._drop_where(expired, (commit.plan, STATE, VIEW, commit.ticked))

    def _retire_changes(self, commit: PlanTick) -> None:
        """Drop the oldest changes that neither retention, nor the view, nor a derived stream needs."""
        if commit.deposited is not None:
            found = (commit.plan, CHANGES, commit.deposited)
            self._drop_where("plan = ? AND kind = ? AND seq <= ?", found)
            return
        seen = self._catalog.value("SELECT max(seq) FROM plan_parts WHERE plan = ? AND kind = ?", (commit.plan, VIEW))
        for kind in (CHANGES, ANSWERS):
            held = self._catalog.value(
                "SELECT sum(rows) FROM plan_parts WHERE plan = ? AND kind = ?", (commit.plan, kind)
            )
            while (held or 0) > commit.keep:
                oldest = self._catalog.row(
                    "SELECT seq, sum(rows) AS rows FROM plan_parts WHERE plan = ? AND kind = ?"
                    " GROUP BY seq ORDER BY seq LIMIT 1",
                    (commit.plan, kind),
                )
                if oldest is None or held - oldest["rows"] < commit.keep:
                    break
                if kind == CHANGES and (seen is None or oldest["seq"] > seen):
                    break
                held -= oldest["rows"]
                self._drop_where("plan = ? AND kind = ? AND seq = ?", (commit.plan, kind, oldest["seq"]))

    def _drop_where(self, condition: str, values: Sequence[object]) -> None:
        for row in self._catalog.rows(f"SELECT id, block FROM plan_parts WHERE {condition}", tuple(values)):
            self._catalog.execute("DELETE FROM plan_parts WHERE id = ?", (row["id"],))
            self._blocks.release(row["block"])

    def published(self, entry: int) -> None:
        """Remove a published stage from the outbox."""
        with self._catalog.transaction() as tx:
            tx.execute("DELETE FROM outbox WHERE id = ?", (entry,))

    def unpublished(self, plan: int) -> list[tuple[int, str]]:
        """The committed stages of a plan that its sink may not show yet, in order."""
        rows = self._catalog.rows("SELECT id, entry FROM outbox WHERE query = ? ORDER BY id", (plan,))
        return [(row["id"], row["entry"]) for row in rows]

    # -- reading -------------------------------------------------------------------------------

    def parts(self, plan: int, *kinds: str) -> list[PlanPart]:
        """The parts of these kinds, in the order in which they were written."""
        marks = ", ".join("?" * len(kinds))
        rows = self._catalog.rows(
            "SELECT p.*, b.path FROM plan_parts p JOIN blocks b ON b.id = p.block"
            f" WHERE p.plan = ? AND p.kind IN ({marks}) ORDER BY p.id",
            (plan, *kinds),
        )
        names = ("kind", "seq", "path", "offset", "length", "rows", "operator", "layout", "lo", "hi")
        found = []
        for row in rows:
            buckets = (row["first_bucket"], row["end_bucket"])
            found.append(PlanPart(**{name: row[name] for name in names}, buckets=buckets))
        return found

    def view_parts(self, plan: int) -> list[PlanPart]:
        """The parts that make the view: the latest merged view, and all changes since."""
        parts = self.parts(plan, VIEW, CHANGES)
        last = max((part.seq for part in parts if part.kind == VIEW), default=-1)
        return [part for part in parts if part.kind == VIEW or part.seq > last]

    def read(self, part: PlanPart) -> pa.Table:
        """The rows of a part, mapped: they outlive the deletion of the file."""
        return self._blocks.read_part(part.path, part.offset, part.length)

    def state_part(self, part: PlanPart) -> StatePart:
        """A part of the state of a plan's operators."""
        assert part.operator is not None and part.layout is not None
        return StatePart(part.operator, Layout[part.layout], self.read(part), part.lo or 0, part.hi or 0)


def _placed(commit: PlanTick, ref: BlockRef, places: Sequence[tuple[int, int]]) -> WrittenBlock:
    """The block of the parts that the driver wrote."""
    made = []
    for part, (offset, length) in zip(commit.parts, places, strict=True):
        rows, state = part.table.num_rows, (part.operator, part.layout, part.lo, part.hi)
        made.append(PlanPart(part.kind, commit.seq, ref.path, offset, length, rows, *state))
    return WrittenBlock(ref, tuple(made))


def _saved(point: int | None) -> int | None:
    """A bound that SQLite can hold: those of rows that never expire lie beyond."""
    return None if point is None else max(POINT_MIN, min(POINT_MAX, point))
